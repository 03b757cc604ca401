// SPDX-License-Identifier: Apache-2.0
#include "daemon/linking.hpp"

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/image_bytes.hpp"

namespace gpuwire::daemon {

std::uint64_t link_table::add(std::shared_ptr<link_state> link) {
  constexpr std::size_t links_max = 4096;
  constexpr std::uint8_t kind_link = 40;  // a number that no handle of the driver has
  std::lock_guard lock(mutex_);
  if (links_.size() >= links_max) return 0;
  const auto id = wire::make_handle(0, kind_link, 1, next_++);
  links_[id] = std::move(link);
  return id;
}

std::shared_ptr<link_state> link_table::find(std::uint64_t id) const {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : found->second;
}

std::shared_ptr<link_state> link_table::remove(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto found = links_.find(id);
  if (found == links_.end()) return nullptr;
  auto link = std::move(found->second);
  links_.erase(found);
  return link;
}

namespace custom {

outcome link_create(call_context& c, const msg::link_create::request& q) {
  using call = msg::link_create;
  const auto& d = c.driver();
  const auto create = d.cuLinkCreate_v2 ? d.cuLinkCreate_v2 : d.cuLinkCreate;
  if (create == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  auto link = std::make_shared<link_state>();
  link->options.set_log_bytes(q.info_log_bytes, q.error_log_bytes);
  auto result = link->options.read(q);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  auto& options = link->options;
  result = create(options.count(), options.options(), options.values(), &link->native);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.link = c.owner().links.add(link);
    if (r.link == 0) {
      if (d.cuLinkDestroy) d.cuLinkDestroy(link->native);
      return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
    }
  }
  options.tell(r);
  return c.finish<call>(result, r);
}

namespace {

outcome add(call_context& c, const msg::link_add::request& q, const image_bytes& input) {
  using call = msg::link_add;
  const auto& d = c.driver();
  const auto add_data = d.cuLinkAddData_v2 ? d.cuLinkAddData_v2 : d.cuLinkAddData;
  if (add_data == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto link = c.owner().links.find(q.link);
  if (link == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  if (q.type >= CU_JIT_NUM_INPUT_TYPES) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  jit_options own;
  if (const auto problem = own.read(q); problem != CUDA_SUCCESS) return c.finish<call>(problem, {});
  const std::string name(q.name);
  std::lock_guard lock(link->mutex);
  if (link->native == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  const auto result = add_data(
      link->native, static_cast<CUjitInputType>(q.type), const_cast<void*>(input.pointer()),
      q.input_bytes, q.named ? name.c_str() : nullptr, own.count(), own.options(), own.values());
  call::reply r;
  link->options.tell(r);
  return c.finish<call>(result, r);
}

}  // namespace

outcome link_add(call_context& c, const msg::link_add::request& q) {
  using call = msg::link_add;
  const bool bulk = c.bulk();
  if (q.input_bytes == 0 || q.input_bytes > limits::image_bytes_max ||
      (!bulk && q.data.size != q.input_bytes))
    return c.malformed();
  const auto input = image_bytes::make(q.input_bytes);
  if (bulk) {
    c.bulk_taken();
    c.owner().session->expect_bulk(c.ticket().sequence, input, q.input_bytes);
    if (input == nullptr) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
    if (!input->wait()) return c.deferred();  // the session ends
  } else {
    if (input == nullptr) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
    input->fill(q.data.span());
  }
  return add(c, q, *input);
}

outcome link_complete(call_context& c, const msg::link_complete::request& q) {
  using call = msg::link_complete;
  const auto& d = c.driver();
  if (d.cuLinkComplete == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto link = c.owner().links.find(q.link);
  if (link == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  std::lock_guard lock(link->mutex);
  if (link->native == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  void* image = nullptr;
  std::size_t bytes = 0;
  const auto result = d.cuLinkComplete(link->native, &image, &bytes);
  call::reply r;
  link->options.tell(r);
  if (result == CUDA_SUCCESS && image != nullptr)
    r.image = {static_cast<const std::byte*>(image), bytes};
  return c.finish<call>(result, r);
}

outcome link_destroy(call_context& c, const msg::link_destroy::request& q) {
  using call = msg::link_destroy;
  const auto link = c.owner().links.remove(q.link);
  if (link == nullptr) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  auto& w = c.owner();
  const auto destroy = [&w, link] {
    std::lock_guard lock(link->mutex);
    const auto function = w.driver().cuLinkDestroy;
    const auto result = function ? function(link->native) : CUDA_ERROR_NOT_SUPPORTED;
    link->native = nullptr;
    return static_cast<int>(result);
  };
  if (c.called()) return c.finish<call>(static_cast<CUresult>(destroy()), {});
  w.frees.post(c.ticket(), destroy);
  return c.finish<call>(CUDA_SUCCESS, {});
}

}  // namespace custom
}  // namespace gpuwire::daemon
