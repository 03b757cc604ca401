// SPDX-License-Identifier: Apache-2.0
// cuLink*: texts are gathered, each is checked when it is added, and all of them are compiled
// together at the end, so that a link which cannot work fails here. The result is an image of all
// the texts.
#include <cstdint>
#include <cstring>
#include <mutex>

#include "context.hpp"
#include "guard.hpp"
#include "image.hpp"
#include "module.hpp"
#include "object_file.hpp"
#include "scheduler.hpp"

using namespace gpuwire::softgpu;

namespace {

struct link_state {
  std::mutex mutex;
  jit_options options;
  std::vector<std::string> texts;
  std::string log;
  std::uint64_t elapsed_ns = 0;
  std::vector<std::byte> image;

  void tell() { options.finish(log, static_cast<float>(static_cast<double>(elapsed_ns) / 1e6)); }
  [[noreturn]] void fail(CUresult code, const std::string& message) {
    log += "gpuwire soft GPU: " + message + "\n";
    tell();
    refuse(code);
  }
};

using link_table = handle_table<link_state, CUlinkState, handle_kind::link>;
link_table& links() {
  static auto* table = new link_table;
  return *table;
}

std::shared_ptr<link_state> link_of(CUlinkState handle) {
  auto found = links().find(handle);
  require(found != nullptr, CUDA_ERROR_INVALID_HANDLE);
  return found;
}

image read_input(CUjitInputType type, std::span<const std::byte> bytes) {
  constexpr std::uint32_t wrapper_magic = 0x466243B1;
  switch (type) {
    case CU_JIT_INPUT_PTX:
      return read_ptx({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    case CU_JIT_INPUT_FATBINARY: {
      std::uint32_t magic = 0;
      if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
      return magic == wrapper_magic ? read_image(bytes.data()) : read_fatbin(bytes);
    }
    case CU_JIT_INPUT_OBJECT:
      return read_object(bytes);
    case CU_JIT_INPUT_LIBRARY:
      return read_archive(bytes);
    case CU_JIT_INPUT_CUBIN:
      return {CUDA_ERROR_NO_BINARY_FOR_GPU, {}, "machine code; the soft GPU runs PTX only"};
    case CU_JIT_INPUT_NVVM:
      return {CUDA_ERROR_NOT_SUPPORTED, {}, "intermediate code for link-time optimisation"};
    default:
      return {CUDA_ERROR_INVALID_VALUE, {}, "an input of unknown type"};
  }
}

CUresult add(CUlinkState handle, CUjitInputType type, std::span<const std::byte> bytes,
             const char* name) {
  auto link = link_of(handle);
  std::lock_guard lock(link->mutex);
  const std::uint64_t begin_ns = monotonic_ns();
  image read = read_input(type, bytes);
  const std::string prefix = name != nullptr ? std::string(name) + ": " : std::string();
  if (read.result != CUDA_SUCCESS) link->fail(read.result, prefix + read.message);
  for (auto& text : read.texts) {
    // Compiled alone for its own mistakes; what it does not find may still come.
    const std::string_view alone = text;
    const auto compiled = ptx::compile({&alone, 1});
    if (const auto* wrong = std::get_if<ptx::compile_error>(&compiled);
        wrong != nullptr && wrong->kind != ptx::compile_error_kind::unresolved_symbol)
      link->fail(code_of(wrong->kind), prefix + wrong->message);
    link->texts.push_back(std::move(text));
  }
  link->elapsed_ns += monotonic_ns() - begin_ns;
  link->tell();
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values,
                         CUlinkState* out) {
  return with_context([&](context&) {
    require(out != nullptr);
    auto made = std::make_shared<link_state>();
    made->options = jit_options(count, options, values);
    const auto handle = links().mint();
    links().insert(handle, std::move(made));
    *out = handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkAddData_v2(CUlinkState handle, CUjitInputType type, void* data, size_t bytes,
                          const char* name, unsigned int count, CUjit_option* options,
                          void** values) {
  return initialised([&] {
    link_of(handle);
    require(data != nullptr && bytes > 0);
    jit_options own(count, options, values);
    return add(handle, type, {static_cast<const std::byte*>(data), bytes}, name);
  });
}

CUresult cuLinkAddFile_v2(CUlinkState handle, CUjitInputType type, const char* path,
                          unsigned int count, CUjit_option* options, void** values) {
  return initialised([&] {
    link_of(handle);
    require(path != nullptr);
    jit_options own(count, options, values);
    const auto bytes = read_file(path);
    require(bytes.has_value(), CUDA_ERROR_FILE_NOT_FOUND);
    return add(handle, type, std::as_bytes(std::span(*bytes)), path);
  });
}

CUresult cuLinkComplete(CUlinkState handle, void** out, size_t* bytes) {
  return initialised([&] {
    auto link = link_of(handle);
    require(out != nullptr);
    std::lock_guard lock(link->mutex);
    if (link->image.empty()) {
      const std::uint64_t begin_ns = monotonic_ns();
      const std::vector<std::string_view> texts(link->texts.begin(), link->texts.end());
      if (texts.empty()) link->fail(CUDA_ERROR_INVALID_IMAGE, "nothing was added to the link");
      const auto compiled = ptx::compile(texts);
      if (const auto* wrong = std::get_if<ptx::compile_error>(&compiled))
        link->fail(code_of(wrong->kind), wrong->message);
      link->image = write_linked(link->texts);
      link->elapsed_ns += monotonic_ns() - begin_ns;
      link->tell();
    }
    *out = link->image.data();
    if (bytes != nullptr) *bytes = link->image.size();
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkDestroy(CUlinkState handle) {
  return initialised([&] {
    require(links().remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
  });
}
