// SPDX-License-Identifier: Apache-2.0
// Copies of two and three dimensions and copies of arrays. What lies in this process travels
// packed: only the bytes of the box, in one message or, if they are many, beside it on the bulk
// connections.
#include "shim/boxes.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "shim/captures.hpp"
#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/memory.hpp"
#include "shim/pinned.hpp"
#include "wire/limits.hpp"

namespace gpuwire::shim {
namespace {

// Rows that do not lie one after the other are packed in pieces of this size.
constexpr std::uint64_t packed_bytes_max = 32u << 20;

bool lies_on_device(CUdeviceptr address) {
  const auto range = state().memory.find(address);
  return range ? is_device_memory(*range) : is_reserved_device_address(address);
}

// The driver goes by where an address lies, not by the kind that the caller named: pinned memory
// may stand for device memory and the other way round.
CUresult settle_kind(box_end& end) {
  switch (end.kind) {
    case CU_MEMORYTYPE_HOST:
      if (end.address == 0) return CUDA_ERROR_INVALID_VALUE;
      if (lies_on_device(end.address)) end.kind = CU_MEMORYTYPE_DEVICE;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
      if (end.address == 0) return CUDA_ERROR_INVALID_VALUE;
      end.kind = lies_on_device(end.address) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE: {
      const auto range = state().memory.find(end.address);
      if (range && !is_device_memory(*range)) end.kind = CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    }
    case CU_MEMORYTYPE_ARRAY:
      return end.array != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Moves the start of memory to the first byte of the box and gives missing strides their meaning.
CUresult settle_memory(box_end& end, const box_size& size) {
  if (end.kind == CU_MEMORYTYPE_ARRAY) return CUDA_SUCCESS;
  if (end.pitch == 0) end.pitch = end.x + size.width;
  if (end.height == 0) end.height = end.y + size.height;
  std::uint64_t rows = 0, skipped = 0, slice = 0, last = 0;
  const bool sane = end.pitch >= size.width && end.x <= end.pitch - size.width &&
                    (size.depth == 1 || end.height >= size.height) &&
                    !__builtin_mul_overflow(end.pitch, end.height, &slice) &&
                    !__builtin_mul_overflow(slice, end.z + size.depth, &last) &&
                    !__builtin_mul_overflow(slice, end.z, &skipped) &&
                    !__builtin_mul_overflow(end.pitch, end.y, &rows) &&
                    !__builtin_add_overflow(skipped, rows, &skipped) &&
                    !__builtin_add_overflow(skipped, end.x, &skipped) &&
                    !__builtin_add_overflow(end.address, skipped, &end.address) &&
                    !__builtin_add_overflow(end.address, last, &last);
  if (!sane) return CUDA_ERROR_INVALID_VALUE;
  end.x = end.y = end.z = 0;
  return CUDA_SUCCESS;
}

bool is_contiguous(const box_end& end, const box_size& size) {
  if (end.kind == CU_MEMORYTYPE_ARRAY) return false;
  if (size.depth > 1 && end.height != size.height) return false;
  return (size.height == 1 && size.depth == 1) || end.pitch == size.width;
}

// Whether the box in device memory certainly can be written.
bool is_certain(const box_end& end, const box_size& size) {
  if (end.kind != CU_MEMORYTYPE_DEVICE) return false;
  const std::uint64_t bytes =
      end.pitch * end.height * (size.depth - 1) + end.pitch * (size.height - 1) + size.width;
  return is_known_device_range(end.address, bytes);
}

template <class Side>
void put_side(Side& out, const box_end& end) {
  out.kind = static_cast<std::uint8_t>(end.kind);
  out.place = end.kind == CU_MEMORYTYPE_ARRAY ? end.array : end.address;
  out.context = end.context;
  out.x = end.x;
  out.y = end.y;
  out.z = end.z;
  out.level = end.level;
  out.pitch = end.pitch;
  out.height = end.height;
}

template <class Request>
void put_size(Request& q, const box_size& size, const stream_target& target) {
  q.width = size.width;
  q.height = size.height;
  q.depth = size.depth;
  q.stream = target.id;
}

// Copies the box out of memory with strides, one row after the other, or back into it.
template <class Each>
void for_rows(const box_end& memory, const box_size& size, Each&& each) {
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; ++y)
      each(reinterpret_cast<std::byte*>(memory.address + (z * memory.height + y) * memory.pitch));
}

void pack(std::byte* packed, const box_end& from, const box_size& size) {
  for_rows(from, size, [&](const std::byte* row) {
    std::memcpy(packed, row, size.width);
    packed += size.width;
  });
}
void unpack(const std::byte* packed, const box_end& to, const box_size& size) {
  for_rows(to, size, [&](std::byte* row) {
    std::memcpy(row, packed, size.width);
    packed += size.width;
  });
}

CUresult send(const box_end& from, const box_end& to, const box_size& size,
              const stream_target& target) {
  const std::uint64_t bytes = size.bytes();
  std::vector<std::byte> packed;
  const auto* data = reinterpret_cast<const std::byte*>(from.address);
  if (!is_contiguous(from, size)) {
    packed.resize(bytes);
    pack(packed.data(), from, size);
    data = packed.data();
  }
  msg::copy_box::request q;
  q.sides.resize(1);
  put_side(q.sides[0], to);
  put_size(q, size, target);
  q.form = 3;
  q.from_client = true;
  q.bytes = bytes;
  if (bytes > wire::limits::inline_payload_bytes_max) {
    const wire::transfer transfer{{data, bytes}, {}};
    return call_operation<msg::copy_box>(*target.credit, 0, q, transfer).result;
  }
  q.data = {data, static_cast<std::size_t>(bytes)};
  if (is_certain(to, size)) return post_operation<msg::copy_box>(*target.credit, bytes, q);
  return call_operation<msg::copy_box>(*target.credit, bytes, q).result;
}

CUresult fetch(const box_end& from, const box_end& to, const box_size& size,
               const stream_target& target) {
  const std::uint64_t bytes = size.bytes();
  const bool straight = is_contiguous(to, size);
  auto* memory = reinterpret_cast<std::byte*>(to.address);
  msg::copy_box_from_device::request q;
  q.sides.resize(1);
  put_side(q.sides[0], from);
  put_size(q, size, target);
  q.bytes = bytes;
  if (bytes <= wire::limits::reply_inline_bytes_max) {
    const auto a = transact<msg::copy_box_from_device>(q);
    if (a.result != CUDA_SUCCESS) return a.result;
    if (a.body.data.size != bytes) {
      detail::reply_is_malformed("copy_box_from_device");
      return CUDA_ERROR_UNKNOWN;
    }
    unpack(a.body.data.data, to, size);
    return CUDA_SUCCESS;
  }
  std::vector<std::byte> packed(straight ? 0 : bytes);
  const wire::transfer transfer{{}, {straight ? memory : packed.data(), bytes}};
  const auto a = transact<msg::copy_box_from_device>(q, transfer);
  if (a.result == CUDA_SUCCESS && !straight) unpack(packed.data(), to, size);
  return a.result;
}

// Cuts a box that has to be packed into pieces: whole slices, or rows of one slice.
template <class Copy>
CUresult in_pieces(box_end from, box_end to, const box_size& size, const box_end& host,
                   Copy&& copy) {
  if (is_contiguous(host, size) || size.bytes() <= packed_bytes_max) return copy(from, to, size);
  const auto advance = [](box_end end, std::uint64_t y, std::uint64_t z) {
    if (end.kind == CU_MEMORYTYPE_ARRAY) {
      end.y += y;
      end.z += z;
    } else {
      end.address += (z * end.height + y) * end.pitch;
    }
    return end;
  };
  const std::uint64_t rows = std::max<std::uint64_t>(1, packed_bytes_max / size.width);
  const std::uint64_t slices =
      rows >= size.height ? std::max<std::uint64_t>(1, rows / size.height) : 1;
  for (std::uint64_t z = 0; z < size.depth; z += slices) {
    for (std::uint64_t y = 0; y < size.height; y += rows) {
      const box_size piece{size.width, std::min(rows, size.height - y),
                           std::min(slices, size.depth - z)};
      const CUresult r = copy(advance(from, y, z), advance(to, y, z), piece);
      if (r != CUDA_SUCCESS) return r;
    }
  }
  return CUDA_SUCCESS;
}

CUresult on_server(const box_end& from, const box_end& to, const box_size& size, box_form form,
                   const stream_target& target) {
  msg::copy_box::request q;
  q.sides.resize(2);
  put_side(q.sides[0], from);
  put_side(q.sides[1], to);
  put_size(q, size, target);
  q.form = static_cast<std::uint8_t>(form);
  if (form != box_form::peer && is_certain(from, size) && is_certain(to, size))
    return post_operation<msg::copy_box>(*target.credit, 0, q);
  return call_operation<msg::copy_box>(*target.credit, 0, q).result;
}

CUresult in_this_process(const box_end& from, const box_end& to, const box_size& size,
                         const stream_target& target) {
  msg::sync::request q;
  q.scope = 0;
  q.handle = target.id;
  if (const CUresult r = call<msg::sync>(q).result; r != CUDA_SUCCESS) return r;
  for (std::uint64_t z = 0; z < size.depth; ++z)
    for (std::uint64_t y = 0; y < size.height; ++y)
      std::memmove(reinterpret_cast<void*>(to.address + (z * to.height + y) * to.pitch),
                   reinterpret_cast<const void*>(from.address + (z * from.height + y) * from.pitch),
                   size.width);
  return CUDA_SUCCESS;
}

// A capture keeps copies of one dimension with the program's memory.
CUresult row_by_row(const box_end& from, const box_end& to, const box_size& size, CUstream stream) {
  for (std::uint64_t z = 0; z < size.depth; ++z) {
    for (std::uint64_t y = 0; y < size.height; ++y) {
      const CUresult r = custom::cuMemcpyAsync(to.address + (z * to.height + y) * to.pitch,
                                               from.address + (z * from.height + y) * from.pitch,
                                               size.width, stream);
      if (r != CUDA_SUCCESS) return r;
    }
  }
  return CUDA_SUCCESS;
}

// What is read now must be what the copy would find in its turn, and much data must not be in the
// way of data that the stream before it still waits for.
CUresult settle_source(const box_end& from, const box_size& size, const stream_target& target) {
  if (any_capture()) return CUDA_SUCCESS;
  const std::uint64_t span =
      from.pitch * (from.height * (size.depth - 1) + size.height - 1) + size.width;
  const bool large = size.bytes() > wire::limits::inline_payload_bytes_max;
  if (!is_still_written(reinterpret_cast<const void*>(from.address), span) &&
      !(large && uploads_pending()))
    return CUDA_SUCCESS;
  return wait_for_stream(target);
}

}  // namespace

CUresult copy_box(box_end from, box_end to, const box_size& size, box_form form, CUstream stream,
                  bool synchronous) {
  const auto target = find_stream(synchronous ? nullptr : stream);
  if (target.result != CUDA_SUCCESS) return target.result;
  if (const CUresult r = settle_kind(from); r != CUDA_SUCCESS) return r;
  if (const CUresult r = settle_kind(to); r != CUDA_SUCCESS) return r;
  if (size.width == 0 || size.height == 0 || size.depth == 0) return CUDA_SUCCESS;
  if (const CUresult r = settle_memory(from, size); r != CUDA_SUCCESS) return r;
  if (const CUresult r = settle_memory(to, size); r != CUDA_SUCCESS) return r;
  // One run of bytes on both sides: a copy of one dimension knows the fastest way. It takes what is
  // unknown for host memory, so an address that the program calls the device's must be known.
  const auto is_run = [&](const box_end& end) {
    return is_contiguous(end, size) &&
           (end.kind == CU_MEMORYTYPE_HOST || lies_on_device(end.address));
  };
  if (form != box_form::peer && is_run(from) && is_run(to))
    return synchronous ? custom::cuMemcpy(to.address, from.address, size.bytes())
                       : custom::cuMemcpyAsync(to.address, from.address, size.bytes(), stream);
  const bool from_host = from.kind == CU_MEMORYTYPE_HOST, to_host = to.kind == CU_MEMORYTYPE_HOST;
  if (from_host && to_host) return in_this_process(from, to, size, target);
  const box_end& far = from_host ? to : from;
  if (any_capture() && !synchronous && from_host != to_host && far.kind == CU_MEMORYTYPE_DEVICE &&
      lies_on_device(far.address))
    return row_by_row(from, to, size, stream);
  if (from_host) {
    if (const CUresult r = settle_source(from, size, target); r != CUDA_SUCCESS) return r;
    return in_pieces(from, to, size, from,
                     [&](const box_end& f, const box_end& t, const box_size& s) {
                       return send(f, t, s, target);
                     });
  }
  if (to_host)
    return in_pieces(from, to, size, to,
                     [&](const box_end& f, const box_end& t, const box_size& s) {
                       return fetch(f, t, s, target);
                     });
  return on_server(from, to, size, form, target);
}

}  // namespace gpuwire::shim
