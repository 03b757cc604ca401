// SPDX-License-Identifier: Apache-2.0
// Linking at run time. Files are files of this machine and are read here; the driver links on the
// server; the image lies in this process until the link is destroyed, because that is where the
// program reads it.
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"
#include "shim/jit_options.hpp"
#include "shim/log.hpp"
#include "wire/limits.hpp"

namespace gpuwire::shim {
namespace {

constexpr unsigned options_max = 64;

struct link_record {
  std::mutex mutex;  // for everything below
  jit_options options;
  std::vector<std::byte> image;
};

struct link_table {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, std::shared_ptr<link_record>> links;

  std::shared_ptr<link_record> find(CUlinkState state) {
    std::lock_guard lock(mutex);
    const auto found = links.find(id_of(state));
    return found == links.end() ? nullptr : found->second;
  }
};

link_table& table() {
  static auto* the_table = new link_table;
  return *the_table;
}

CUresult check_options(unsigned count, const CUjit_option* options, void* const* values) {
  return count > options_max || (count != 0 && (options == nullptr || values == nullptr))
             ? CUDA_ERROR_INVALID_VALUE
             : CUDA_SUCCESS;
}

CUresult create(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_options(count, options, values); r != CUDA_SUCCESS) return r;
  auto link = std::make_shared<link_record>();
  if (const CUresult r = link->options.read({options, count}, values); r != CUDA_SUCCESS) return r;
  msg::link_create::request q;
  link->options.put_into(q);
  link->options.put_logs_into(q);
  const auto a = call<msg::link_create>(q);
  link->options.take_from(a.body);
  if (a.result != CUDA_SUCCESS) return a.result;
  link_table& t = table();
  std::lock_guard lock(t.mutex);
  t.links[a.body.link] = std::move(link);
  *state = handle_from<CUlinkState>(a.body.link);
  return CUDA_SUCCESS;
}

struct link_input {
  CUjitInputType type{};
  std::span<const std::byte> bytes;
  const char* name = nullptr;
  unsigned option_count = 0;
  CUjit_option* options = nullptr;
  void** option_values = nullptr;
};

CUresult add(CUlinkState state, link_record& link, const link_input& input) {
  if (const CUresult r = check_options(input.option_count, input.options, input.option_values);
      r != CUDA_SUCCESS)
    return r;
  jit_options own;
  if (const CUresult r = own.read({input.options, input.option_count}, input.option_values);
      r != CUDA_SUCCESS)
    return r;
  msg::link_add::request q;
  q.link = id_of(state);
  q.type = static_cast<std::uint32_t>(input.type);
  q.named = input.name != nullptr;
  if (q.named) q.name = input.name;
  own.put_into(q);
  q.input_bytes = input.bytes.size();
  wire::transfer transfer;
  if (input.bytes.size() <= wire::limits::inline_payload_bytes_max)
    q.data = {input.bytes.data(), input.bytes.size()};
  else
    transfer.send = input.bytes;
  const auto a = transact<msg::link_add>(q, transfer);
  std::lock_guard lock(link.mutex);
  link.options.take_from(a.body);
  if (a.result != CUDA_SUCCESS && !a.body.error_log.empty())
    log_debug("the driver's linker refused an input: {}", a.body.error_log);
  return a.result;
}

CUresult add_data(CUlinkState state, const link_input& input) {
  const auto link = table().find(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (input.bytes.data() == nullptr || input.bytes.empty()) return CUDA_ERROR_INVALID_VALUE;
  return add(state, *link, input);
}

CUresult add_file(CUlinkState state, const char* path, link_input input) {
  const auto link = table().find(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<char> bytes;
  if (const CUresult r = read_image_file(path, bytes); r != CUDA_SUCCESS) return r;
  input.bytes = std::as_bytes(std::span(bytes));
  // The NUL behind the file belongs to text only.
  if (input.type != CU_JIT_INPUT_PTX) input.bytes = input.bytes.first(bytes.size() - 1);
  if (input.bytes.empty()) return CUDA_ERROR_INVALID_IMAGE;
  input.name = path;
  return add(state, *link, input);
}

}  // namespace

namespace custom {

CUresult cuLinkCreate_v2(unsigned int numOptions, CUjit_option* options, void** optionValues,
                         CUlinkState* stateOut) {
  return create(numOptions, options, optionValues, stateOut);
}
CUresult cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues,
                      CUlinkState* stateOut) {
  return create(numOptions, options, optionValues, stateOut);
}

CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t size,
                          const char* name, unsigned int numOptions, CUjit_option* options,
                          void** optionValues) {
  return add_data(
      state,
      {type, {static_cast<const std::byte*>(data), size}, name, numOptions, options, optionValues});
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, std::size_t size,
                       const char* name, unsigned int numOptions, CUjit_option* options,
                       void** optionValues) {
  return custom::cuLinkAddData_v2(state, type, data, size, name, numOptions, options, optionValues);
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* path,
                          unsigned int numOptions, CUjit_option* options, void** optionValues) {
  return add_file(state, path, {type, {}, nullptr, numOptions, options, optionValues});
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path,
                       unsigned int numOptions, CUjit_option* options, void** optionValues) {
  return custom::cuLinkAddFile_v2(state, type, path, numOptions, options, optionValues);
}

CUresult cuLinkComplete(CUlinkState state, void** cubinOut, std::size_t* sizeOut) {
  const auto link = table().find(state);
  if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (cubinOut == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::link_complete::request q;
  q.link = id_of(state);
  const auto a = call<msg::link_complete>(q);
  std::lock_guard lock(link->mutex);
  link->options.take_from(a.body);
  if (a.result != CUDA_SUCCESS) {
    if (!a.body.error_log.empty()) log_debug("the driver could not link: {}", a.body.error_log);
    return a.result;
  }
  // A second call gives the same image, whose address the program may hold.
  if (link->image.empty()) {
    const auto image = a.body.image.span();
    link->image.assign(image.begin(), image.end());
  }
  *cubinOut = link->image.data();
  if (sizeOut != nullptr) *sizeOut = link->image.size();
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  link_table& t = table();
  {
    std::lock_guard lock(t.mutex);
    if (t.links.erase(id_of(state)) == 0) return CUDA_ERROR_INVALID_HANDLE;
  }
  msg::link_destroy::request q;
  q.link = id_of(state);
  return post<msg::link_destroy>(q);
}

}  // namespace custom
}  // namespace gpuwire::shim
