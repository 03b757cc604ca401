// SPDX-License-Identifier: Apache-2.0
// Arrays whose numbers depend on another object: levels of a mipmapped array and planes of an array go with it. A destroy
// takes the number away first, because the driver may give the next object the same address at once.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

std::uint64_t mint_part(call_context& c, CUarray part, std::uint64_t whole) {
  handle_owner owner;
  owner.context = c.ticket().context;
  owner.parent = whole;
  return c.owner().handles(handle_kind::array).mint(part, owner);
}

template <class Call, handle_kind Kind, class Native, class Destroy>
outcome destroy(call_context& c, std::uint64_t id, Native native, Destroy driver_function) {
  if (c.failed()) return c.finish<Call>(c.failure(), {});
  if (driver_function == nullptr) return c.finish<Call>(CUDA_ERROR_NOT_SUPPORTED, {});
  auto& table = c.owner().handles(Kind);
  const auto before = table.remove(id);
  const auto result = driver_function(native);
  if (result == CUDA_SUCCESS)
    c.owner().handles(handle_kind::array).remove_parent(id);
  else if (before)
    table.put_back(id, native, {before->context, 0});
  return c.finish<Call>(result, {});
}

}  // namespace

outcome cuArrayGetPlane(call_context& c, const msg::cuArrayGetPlane::request& q) {
  using call = msg::cuArrayGetPlane;
  const auto array = c.native<handle_kind::array>(q.hArray);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuArrayGetPlane == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUarray plane = nullptr;
  const auto result =
      c.driver().cuArrayGetPlane(q.pPlaneArray_wanted ? &plane : nullptr, array, q.planeIdx);
  call::reply r;
  if (result == CUDA_SUCCESS) r.pPlaneArray = mint_part(c, plane, q.hArray);
  return c.finish<call>(result, r);
}

outcome cuArrayDestroy(call_context& c, const msg::cuArrayDestroy::request& q) {
  const auto array = c.native<handle_kind::array>(q.hArray);
  return destroy<msg::cuArrayDestroy, handle_kind::array>(c, q.hArray, array,
                                                          c.driver().cuArrayDestroy);
}

outcome cuMipmappedArrayGetLevel(call_context& c, const msg::cuMipmappedArrayGetLevel::request& q) {
  using call = msg::cuMipmappedArrayGetLevel;
  const auto whole = c.native<handle_kind::mipmapped_array>(q.hMipmappedArray);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuMipmappedArrayGetLevel == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUarray level = nullptr;
  const auto result = c.driver().cuMipmappedArrayGetLevel(q.pLevelArray_wanted ? &level : nullptr,
                                                          whole, q.level);
  call::reply r;
  if (result == CUDA_SUCCESS) r.pLevelArray = mint_part(c, level, q.hMipmappedArray);
  return c.finish<call>(result, r);
}

outcome cuMipmappedArrayDestroy(call_context& c, const msg::cuMipmappedArrayDestroy::request& q) {
  const auto array = c.native<handle_kind::mipmapped_array>(q.hMipmappedArray);
  return destroy<msg::cuMipmappedArrayDestroy, handle_kind::mipmapped_array>(
      c, q.hMipmappedArray, array, c.driver().cuMipmappedArrayDestroy);
}

}  // namespace gpuwire::daemon::custom
