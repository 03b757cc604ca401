// SPDX-License-Identifier: Apache-2.0
// Copies between one-dimensional arrays and memory, with offsets in bytes.
#include "array.hpp"
#include "copy.hpp"
#include "guard.hpp"
#include "tables.hpp"

using namespace gpuwire::softgpu;

namespace {

box row_of(CUarray handle, std::size_t offset, std::size_t bytes) {
  return array_box(handle, offset, 0, 0, {bytes, 1, 1});
}
box row_of(CUdeviceptr address) {
  box made;
  made.from = {address, side::device};
  return made;
}
box row_of(const void* pointer) {
  box made;
  made.from = {reinterpret_cast<std::uint64_t>(pointer), side::host};
  return made;
}

// `ends` makes both boxes, inside the call, as it may refuse.
template <typename Ends>
CUresult blocking(std::size_t bytes, Ends ends) {
  return with_context([&](context& current) {
    const auto [to, from] = ends();
    return copy_box(current, default_stream(current), to, from, {bytes, 1, 1},
                    completion::blocking);
  });
}

template <typename Ends>
CUresult asynchronous(std::size_t bytes, CUstream handle, Ends ends) {
  return initialised([&] {
    auto on = stream_of(handle);
    const auto [to, from] = ends();
    return copy_box(*on->in, on, to, from, {bytes, 1, 1}, completion::asynchronous);
  });
}

using both = std::pair<box, box>;

}  // namespace

CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t bytes) {
  return blocking(bytes, [&] { return both(row_of(to, offset, bytes), row_of(from)); });
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t bytes) {
  return blocking(bytes, [&] { return both(row_of(to), row_of(from, offset, bytes)); });
}
CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void* from, size_t bytes) {
  return blocking(bytes, [&] { return both(row_of(to, offset, bytes), row_of(from)); });
}
CUresult cuMemcpyAtoH_v2(void* to, CUarray from, size_t offset, size_t bytes) {
  return blocking(bytes, [&] {
    return both(row_of(static_cast<const void*>(to)), row_of(from, offset, bytes));
  });
}
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t bytes) {
  return blocking(
      bytes, [&] { return both(row_of(to, to_offset, bytes), row_of(from, from_offset, bytes)); });
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void* from, size_t bytes,
                              CUstream stream) {
  return asynchronous(bytes, stream, [&] { return both(row_of(to, offset, bytes), row_of(from)); });
}
CUresult cuMemcpyAtoHAsync_v2(void* to, CUarray from, size_t offset, size_t bytes,
                              CUstream stream) {
  return asynchronous(bytes, stream, [&] {
    return both(row_of(static_cast<const void*>(to)), row_of(from, offset, bytes));
  });
}
