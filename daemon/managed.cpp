// SPDX-License-Identifier: Apache-2.0
// Managed memory: the driver's own, at the address that the driver chose. The worker reads and
// writes it there, which needs a device that lets the host do so while kernels run.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"
#include "daemon/limits.hpp"

namespace gpuwire::daemon::custom {
namespace {

bool host_may_touch(const driver_table& d) {
  int devices = 0;
  if (d.cuDeviceGetCount(&devices) != CUDA_SUCCESS) return false;
  for (int i = 0; i < devices; ++i) {
    CUdevice device = 0;
    int concurrent = 0;
    if (d.cuDeviceGet(&device, i) != CUDA_SUCCESS ||
        d.cuDeviceGetAttribute(&concurrent, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
                               device) != CUDA_SUCCESS ||
        concurrent == 0)
      return false;
  }
  return true;
}

// The driver answers with one byte or with four.
bool is_managed(const driver_table& d, std::uint64_t address) {
  unsigned managed = 0;
  return d.cuPointerGetAttribute != nullptr &&
         d.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address) ==
             CUDA_SUCCESS &&
         (managed & 0xff) != 0;
}

CUmemLocation location(std::int32_t type, std::int32_t id) {
  CUmemLocation place{};
  place.type = static_cast<CUmemLocationType>(type);
  place.id = id;
  return place;
}

CUdevice old_place(const CUmemLocation& place) {
  if (place.type == CU_MEM_LOCATION_TYPE_DEVICE) return place.id;
  return place.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

}  // namespace

outcome managed_allocate(call_context& c, const msg::managed_allocate::request& q) {
  using call = msg::managed_allocate;
  const auto& d = c.driver();
  if (d.cuMemAllocManaged == nullptr || !host_may_touch(d))
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUdeviceptr address = 0;
  auto result = d.cuMemAllocManaged(&address, q.bytes, q.flags);
  if (q.replaces != 0) {
    c.owner().direct.forget(q.replaces);
    d.cuMemFree_v2(q.replaces);
  }
  if (result == CUDA_SUCCESS) {
    result = c.owner().direct.adopt(c.ticket().context, address, q.bytes, 0);
    if (result != CUDA_SUCCESS) d.cuMemFree_v2(address);
  }
  call::reply r;
  if (result == CUDA_SUCCESS) r.address = address;
  return c.finish<call>(result, r);
}

outcome variable_find(call_context& c, const msg::variable_find::request& q) {
  using call = msg::variable_find;
  const auto& d = c.driver();
  const std::string name(q.name);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  auto result = CUDA_SUCCESS;
  if (q.kind == 0) {
    const auto module = c.native<handle_kind::module>(q.image);
    result =
        c.failed() ? c.failure() : d.cuModuleGetGlobal_v2(&address, &bytes, module, name.c_str());
  } else {
    const auto library = c.native<handle_kind::library>(q.image);
    result = c.failed() ? c.failure()
             : d.cuLibraryGetManaged == nullptr
                 ? CUDA_ERROR_NOT_SUPPORTED
                 : d.cuLibraryGetManaged(&address, &bytes, library, name.c_str());
  }
  call::reply r;
  if (result != CUDA_SUCCESS) return c.finish<call>(result, r);
  r.address = address;
  r.bytes = bytes;
  r.managed = bytes != 0 && is_managed(d, address);
  if (r.managed) {
    if (!host_may_touch(d)) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
    result = c.owner().direct.adopt(c.ticket().context, r.address, r.bytes, q.image);
  }
  return c.finish<call>(result, r);
}

outcome direct_refresh(call_context& c, const msg::direct_refresh::request&) {
  c.owner().direct.publish();
  return c.finish<msg::direct_refresh>(CUDA_SUCCESS, {});
}

// A driver of before 12.2 knows devices and the host as places, no more.
outcome managed_advise(call_context& c, const msg::managed_advise::request& q) {
  const auto& d = c.driver();
  const auto advice = static_cast<CUmem_advise>(q.advice);
  const auto place = location(q.location_type, q.location_id);
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  if (d.cuMemAdvise_v2 != nullptr)
    result = d.cuMemAdvise_v2(q.address, q.bytes, advice, place);
  else if (d.cuMemAdvise != nullptr)
    result = d.cuMemAdvise(q.address, q.bytes, advice, old_place(place));
  return c.finish<msg::managed_advise>(result, {});
}

outcome managed_prefetch(call_context& c, const msg::managed_prefetch::request& q) {
  const auto& d = c.driver();
  const auto s = c.stream_of(q.stream);
  const auto place = location(q.location_type, q.location_id);
  auto result = c.failed() ? c.failure() : CUDA_ERROR_NOT_SUPPORTED;
  if (!c.failed() && d.cuMemPrefetchAsync_v2 != nullptr)
    result = d.cuMemPrefetchAsync_v2(q.address, q.bytes, place, q.flags, s.native);
  else if (!c.failed() && d.cuMemPrefetchAsync != nullptr)
    result = d.cuMemPrefetchAsync(q.address, q.bytes, old_place(place), s.native);
  c.count_operation(q.stream, s);
  return c.finish<msg::managed_prefetch>(result, {});
}

outcome managed_attribute(call_context& c, const msg::managed_attribute::request& q) {
  using call = msg::managed_attribute;
  if (q.bytes_wanted > limits::managed_attribute_bytes_max) return c.malformed();
  if (c.driver().cuMemRangeGetAttribute == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  std::vector<std::byte> data(q.bytes_wanted);
  const auto result = c.driver().cuMemRangeGetAttribute(
      data.data(), data.size(), static_cast<CUmem_range_attribute>(q.attribute), q.address,
      q.bytes);
  call::reply r;
  if (result == CUDA_SUCCESS) r.data = {data.data(), data.size()};
  return c.finish<call>(result, r);
}

outcome managed_attach(call_context& c, const msg::managed_attach::request& q) {
  const auto s = c.stream_of(q.stream);
  const auto attach = c.driver().cuStreamAttachMemAsync;
  const auto result = c.failed()          ? c.failure()
                      : attach == nullptr ? CUDA_ERROR_NOT_SUPPORTED
                                          : attach(s.native, q.address, q.bytes, q.flags);
  c.count_operation(q.stream, s);
  return c.finish<msg::managed_attach>(result, {});
}

}  // namespace gpuwire::daemon::custom
