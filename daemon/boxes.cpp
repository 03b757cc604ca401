// SPDX-License-Identifier: Apache-2.0
// Copies of boxes. The client's side arrives and leaves packed, in staging memory; the driver scatters and gathers it.
#include "daemon/box_pieces.hpp"
#include "daemon/bulk_copies.hpp"
#include "daemon/generated/custom.hpp"
#include "wire/limits.hpp"

namespace gpuwire::daemon {
namespace {

constexpr std::uint8_t form_two = 2, form_three = 3, form_peer = 4;

// One side that is not the client's memory, as the driver wants it.
struct end {
  CUmemorytype kind{};
  CUdeviceptr address = 0;
  CUarray array = nullptr;
  CUcontext context = nullptr;
  std::uint64_t x = 0, y = 0, z = 0, level = 0, pitch = 0, height = 0;
};

template <class Side>
bool take(call_context& c, const Side& side, end& out) {
  out.kind = static_cast<CUmemorytype>(side.kind);
  if (out.kind == CU_MEMORYTYPE_ARRAY)
    out.array = c.native<handle_kind::array>(side.place);
  else if (out.kind == CU_MEMORYTYPE_DEVICE)
    out.address = side.place;
  else
    return false;  // host memory of this process is nobody's to name
  if (side.context != 0) out.context = c.native<handle_kind::context>(side.context);
  out.x = side.x;
  out.y = side.y;
  out.z = side.z;
  out.level = side.level;
  out.pitch = side.pitch;
  out.height = side.height;
  return true;
}

template <class Copy>
void put_source(Copy& copy, const end& e) {
  copy.srcMemoryType = e.kind;
  copy.srcDevice = e.address;
  copy.srcArray = e.array;
  copy.srcXInBytes = e.x;
  copy.srcY = e.y;
  copy.srcPitch = e.pitch;
}
template <class Copy>
void put_destination(Copy& copy, const end& e) {
  copy.dstMemoryType = e.kind;
  copy.dstDevice = e.address;
  copy.dstArray = e.array;
  copy.dstXInBytes = e.x;
  copy.dstY = e.y;
  copy.dstPitch = e.pitch;
}
template <class Copy>
void put_depths(Copy& copy, const end& from, const end& to) {
  copy.srcZ = from.z;
  copy.srcLOD = from.level;
  copy.srcHeight = from.height;
  copy.dstZ = to.z;
  copy.dstLOD = to.level;
  copy.dstHeight = to.height;
}
template <class Copy>
void put_extent(Copy& copy, const box_extent& size) {
  copy.WidthInBytes = size.width;
  copy.Height = size.height;
  if constexpr (requires { copy.Depth; }) copy.Depth = size.depth;
}

CUresult copy_on_device(const driver_table& d, std::uint8_t form, const end& from, const end& to,
                        const box_extent& size, CUstream stream) {
  if (form == form_two) {
    CUDA_MEMCPY2D copy{};
    put_source(copy, from);
    put_destination(copy, to);
    put_extent(copy, size);
    return d.cuMemcpy2DAsync_v2 ? d.cuMemcpy2DAsync_v2(&copy, stream) : CUDA_ERROR_NOT_SUPPORTED;
  }
  if (form == form_peer) {
    CUDA_MEMCPY3D_PEER copy{};
    put_source(copy, from);
    put_destination(copy, to);
    put_depths(copy, from, to);
    put_extent(copy, size);
    copy.srcContext = from.context;
    copy.dstContext = to.context;
    return d.cuMemcpy3DPeerAsync ? d.cuMemcpy3DPeerAsync(&copy, stream)
                                 : CUDA_ERROR_NOT_SUPPORTED;
  }
  CUDA_MEMCPY3D copy{};
  put_source(copy, from);
  put_destination(copy, to);
  put_depths(copy, from, to);
  put_extent(copy, size);
  return d.cuMemcpy3DAsync_v2 ? d.cuMemcpy3DAsync_v2(&copy, stream) : CUDA_ERROR_NOT_SUPPORTED;
}

// The part of a box that a piece of its packed bytes stands for.
end part_of(end e, const box_piece& piece) {
  e.x += piece.x;
  e.y += piece.y;
  e.z += piece.z;
  return e;
}

// Between `e` on the device and packed bytes in this process.
CUresult copy_packed(const driver_table& d, const end& e, bool to_device, const box_extent& size,
                     std::byte* packed, CUstream stream) {
  if (d.cuMemcpy3DAsync_v2 == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  CUDA_MEMCPY3D copy{};
  put_extent(copy, size);
  if (to_device) {
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = packed;
    copy.srcPitch = size.width;
    copy.srcHeight = size.height;
    put_destination(copy, e);
    copy.dstZ = e.z;
    copy.dstLOD = e.level;
    copy.dstHeight = e.height;
  } else {
    put_source(copy, e);
    copy.srcZ = e.z;
    copy.srcLOD = e.level;
    copy.srcHeight = e.height;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = packed;
    copy.dstPitch = size.width;
    copy.dstHeight = size.height;
  }
  return d.cuMemcpy3DAsync_v2(&copy, stream);
}

chunk_copy in_pieces(worker& w, const end& e, bool to_device, const box_extent& size,
                     CUstream stream) {
  return [&w, e, to_device, size, stream](std::uint64_t offset, std::byte* data,
                                          std::uint64_t bytes) {
    auto result = CUDA_SUCCESS;
    for_pieces(size, offset, bytes, [&](const box_piece& piece) {
      result = copy_packed(w.driver(), part_of(e, piece), to_device, piece.size,
                           data + piece.offset, stream);
      return result == CUDA_SUCCESS;
    });
    return result;
  };
}

// Whether the extents are what the client says they are in bytes; nothing may be empty.
template <class Request>
bool is_sane(const Request& q, box_extent& size) {
  std::uint64_t bytes = 0;
  size = {q.width, q.height, q.depth};
  return q.width != 0 && q.height != 0 && q.depth != 0 &&
         !__builtin_mul_overflow(q.width, q.height, &bytes) &&
         !__builtin_mul_overflow(bytes, q.depth, &bytes) && (q.bytes == 0 || q.bytes == bytes);
}

// A capture would need the client's memory at every replay.
CUresult captured(call_context& c, const stream_reference& s) {
  auto& captures = c.owner().captures;
  if (!captures.touches(s.native)) return CUDA_SUCCESS;
  return captures.captures(s.native) ? CUDA_ERROR_NOT_SUPPORTED : captures.refusal(s.native);
}

outcome from_client(call_context& c, const msg::copy_box::request& q, const box_extent& size) {
  using call = msg::copy_box;
  end to;
  if (q.sides.size() != 1 || q.bytes == 0 || !take(c, q.sides.front(), to)) return c.malformed();
  auto& w = c.owner();
  const auto s = c.stream_of(q.stream);
  const auto refusal = captured(c, s);
  if (c.bulk())
    return receive_in_chunks(c, q.stream, q.bytes, in_pieces(w, to, true, size, s.native),
                             refusal);
  if (q.data.size != q.bytes || q.bytes > wire::limits::inline_payload_bytes_max)
    return c.malformed();
  auto result = c.failed() ? c.failure() : refusal;
  if (result == CUDA_SUCCESS) {
    c.enter(c.ticket().context);
    result = w.incoming.copy_staged(q.data.data, q.bytes, s, [&](const std::byte* data) {
      return copy_packed(w.driver(), to, true, size, const_cast<std::byte*>(data), s.native);
    });
  }
  c.count_operation(q.stream, s, q.bytes);
  return c.finish<call>(result, {});
}

}  // namespace

namespace custom {

outcome copy_box(call_context& c, const msg::copy_box::request& q) {
  using call = msg::copy_box;
  box_extent size;
  if (!is_sane(q, size)) return c.malformed();
  if (q.from_client) return from_client(c, q, size);
  end from, to;
  if (q.sides.size() != 2 || !take(c, q.sides[0], from) || !take(c, q.sides[1], to) ||
      q.form < form_two || q.form > form_peer)
    return c.malformed();
  const auto s = c.stream_of(q.stream);
  const auto result = c.failed() ? c.failure()
                                 : copy_on_device(c.driver(), q.form, from, to, size, s.native);
  c.count_operation(q.stream, s);
  return c.finish<call>(result, {});
}

outcome copy_box_from_device(call_context& c, const msg::copy_box_from_device::request& q) {
  using call = msg::copy_box_from_device;
  box_extent size;
  end from;
  if (!c.called() || !is_sane(q, size) || q.bytes == 0 || q.sides.size() != 1 ||
      !take(c, q.sides.front(), from))
    return c.malformed();
  const auto s = c.stream_of(q.stream);
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (!c.enter(s.context) || s.context == 0) return c.finish<call>(CUDA_ERROR_INVALID_CONTEXT, {});
  if (const auto refusal = captured(c, s); refusal != CUDA_SUCCESS)
    return c.finish<call>(refusal, {});
  const auto copy = in_pieces(c.owner(), from, false, size, s.native);
  return q.bytes <= wire::limits::reply_inline_bytes_max ? send_in_reply(c, s, q.bytes, copy)
                                                         : send_in_chunks(c, s, q.bytes, copy);
}

}  // namespace custom
}  // namespace gpuwire::daemon
