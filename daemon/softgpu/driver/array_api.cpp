// SPDX-License-Identifier: Apache-2.0
// Creation and description of arrays and mipmapped arrays. Sparse arrays, deferred mapping and the
// formats of video and compressed images do not exist here.
#include "array.hpp"
#include "capture.hpp"

#include <algorithm>
#include <bit>

#include "guard.hpp"
#include "scheduler.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned known_flags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER |
                                 CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT;
constexpr unsigned refused_flags =
    CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE;

ptx::texel_format checked_format(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  require(wanted.NumChannels == 1 || wanted.NumChannels == 2 || wanted.NumChannels == 4);
  auto format = texel_format_of(wanted.Format, wanted.NumChannels);
  if (!format) {
    // A known kind with another number of channels is wrong, an unknown kind is not supported.
    const bool known = texel_format_of(wanted.Format, 1) || texel_format_of(wanted.Format, 2) ||
                       texel_format_of(wanted.Format, 4);
    const bool exists =
        (wanted.Format >= CU_AD_FORMAT_BC1_UNORM && wanted.Format <= CU_AD_FORMAT_SNORM_INT16X4) ||
        wanted.Format == CU_AD_FORMAT_UNORM_INT_101010_2;
    refuse(known || !exists ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED);
  }
  return *format;
}

void check_extent(std::size_t value, unsigned most) {
  require(value <= most);
}

void check_shape(const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  require((wanted.Flags & ~(known_flags | refused_flags)) == 0);
  require((wanted.Flags & refused_flags) == 0, CUDA_ERROR_NOT_SUPPORTED);
  const bool layered = (wanted.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  require(wanted.Width > 0);
  require((wanted.Flags & CUDA_ARRAY3D_TEXTURE_GATHER) == 0 || wanted.Height > 0);
  if ((wanted.Flags & CUDA_ARRAY3D_CUBEMAP) != 0) {
    require(wanted.Width == wanted.Height);
    require(layered ? wanted.Depth > 0 && wanted.Depth % 6 == 0 : wanted.Depth == 6);
    check_extent(wanted.Width, limits::texture_cube_width);
    return check_extent(wanted.Depth, limits::texture_cube_layers);
  }
  require(!layered || wanted.Depth > 0);
  if (layered) {
    check_extent(wanted.Width, limits::texture_layered_width);
    check_extent(wanted.Height, limits::texture_layered_width);
    return check_extent(wanted.Depth, limits::texture_layers);
  }
  if (wanted.Depth > 0) {
    require(wanted.Height > 0);
    check_extent(wanted.Width, limits::texture_3d_extent);
    check_extent(wanted.Height, limits::texture_3d_extent);
    return check_extent(wanted.Depth, limits::texture_3d_extent);
  }
  check_extent(wanted.Width, limits::texture_2d_width);
  check_extent(wanted.Height, limits::texture_2d_height);
}

std::shared_ptr<cuda_array> make_array(context& in, const CUDA_ARRAY3D_DESCRIPTOR& shape,
                                       const ptx::texel_format& format) {
  auto made = std::make_shared<cuda_array>();
  made->owner = in.shared_from_this();
  made->shape = shape;
  made->format = format;
  auto& image = made->image;
  image.width = static_cast<std::uint32_t>(shape.Width);
  image.height = static_cast<std::uint32_t>(std::max<std::size_t>(shape.Height, 1));
  image.depth = static_cast<std::uint32_t>(std::max<std::size_t>(shape.Depth, 1));
  image.pitch = made->row_bytes();
  std::uint64_t bytes = 0;
  require(!__builtin_mul_overflow(image.pitch, std::uint64_t{image.height}, &image.slice) &&
              !__builtin_mul_overflow(image.slice, std::uint64_t{image.depth}, &bytes),
          CUDA_ERROR_OUT_OF_MEMORY);
  made->storage = std::make_shared<array_storage>(in.on, bytes);
  image.data = reinterpret_cast<std::byte*>(made->storage->base);
  made->handle = arrays().mint();
  return made;
}

CUresult create(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR& wanted) {
  return with_context([&](context& current) {
    check_unsafe_call();
    require(out != nullptr);
    const auto format = checked_format(wanted);
    check_shape(wanted);
    auto made = make_array(current, wanted, format);
    *out = made->handle;
    arrays().insert(made->handle, made);
    return CUDA_SUCCESS;
  });
}

CUDA_ARRAY3D_DESCRIPTOR level_shape(const CUDA_ARRAY3D_DESCRIPTOR& whole, unsigned level) {
  CUDA_ARRAY3D_DESCRIPTOR shape = whole;
  const auto smaller = [level](std::size_t extent) {
    return extent == 0 ? 0 : std::max<std::size_t>(extent >> level, 1);
  };
  shape.Width = smaller(whole.Width);
  shape.Height = smaller(whole.Height);
  const bool planes = (whole.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  if (!planes) shape.Depth = smaller(whole.Depth);
  return shape;
}

unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  const bool planes = (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  const std::size_t largest =
      std::max({shape.Width, shape.Height, planes ? std::size_t{0} : shape.Depth});
  return static_cast<unsigned>(std::bit_width(largest));
}

template <typename Requirements>
CUresult no_requirements(Requirements* out) {
  require(out != nullptr);
  // Asked for memory that the program would map itself: no array here is made so.
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* wanted) {
  return initialised([&] {
    require(wanted != nullptr);
    return create(out, {wanted->Width, wanted->Height, 0, wanted->Format, wanted->NumChannels, 0});
  });
}

CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* wanted) {
  return initialised([&] {
    require(wanted != nullptr);
    return create(out, *wanted);
  });
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  return with_context([&](context&) {
    auto which = array_of(handle);
    require(out != nullptr);
    *out = {which->shape.Width, which->shape.Height, which->shape.Format, which->shape.NumChannels};
    return CUDA_SUCCESS;
  });
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  return with_context([&](context&) {
    auto which = array_of(handle);
    require(out != nullptr);
    *out = which->shape;
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayDestroy(CUarray handle) {
  return initialised([&] {
    check_unsafe_call();
    auto gone = array_of(handle);
    require(!gone->of_mipmap);
    scheduler::instance().synchronise(*gone->owner);
    require(arrays().remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* wanted,
                                unsigned int levels) {
  return with_context([&](context& current) {
    check_unsafe_call();
    require(out != nullptr && wanted != nullptr);
    const auto format = checked_format(*wanted);
    check_shape(*wanted);
    auto made = std::make_shared<mipmapped_array>();
    made->owner = current.shared_from_this();
    made->shape = *wanted;
    made->format = format;
    // More levels than the largest extent has halves are cut off.
    const unsigned count = std::clamp(levels, 1u, levels_of(*wanted));
    for (unsigned level = 0; level < count; ++level) {
      made->levels.push_back(make_array(current, level_shape(*wanted, level), format));
      made->levels.back()->of_mipmap = true;
    }
    for (const auto& level : made->levels) arrays().insert(level->handle, level);
    made->handle = mipmapped_arrays().mint();
    *out = made->handle;
    mipmapped_arrays().insert(made->handle, made);
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayGetLevel(CUarray* out, CUmipmappedArray handle, unsigned int level) {
  return with_context([&](context&) {
    auto which = mipmapped_of(handle);
    require(out != nullptr && level < which->levels.size());
    *out = which->levels[level]->handle;
    return CUDA_SUCCESS;
  });
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle) {
  return initialised([&] {
    check_unsafe_call();
    auto gone = mipmapped_of(handle);
    scheduler::instance().synchronise(*gone->owner);
    require(mipmapped_arrays().remove(handle) != nullptr, CUDA_ERROR_INVALID_HANDLE);
    for (const auto& level : gone->levels) arrays().remove(level->handle);
    return CUDA_SUCCESS;
  });
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out, CUarray handle) {
  return initialised([&] {
    array_of(handle);
    return no_requirements(out);
  });
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES* out,
                                             CUmipmappedArray handle) {
  return initialised([&] {
    mipmapped_of(handle);
    return no_requirements(out);
  });
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out, CUarray handle,
                                      CUdevice dev) {
  return initialised([&] {
    array_of(handle);
    device_of(dev);
    return no_requirements(out);
  });
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS* out,
                                               CUmipmappedArray handle, CUdevice dev) {
  return initialised([&] {
    mipmapped_of(handle);
    device_of(dev);
    return no_requirements(out);
  });
}

CUresult cuArrayGetPlane(CUarray* out, CUarray handle, unsigned int) {
  return initialised([&] {
    array_of(handle);
    require(out != nullptr);
    return CUDA_ERROR_INVALID_VALUE;  // no format here has planes
  });
}

CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t* out, CUarray_format format, unsigned channels,
                                            CUdevice dev) {
  return initialised([&] {
    auto& on = device_of(dev);
    require(out != nullptr);
    const auto known = texel_format_of(format, channels);
    require(known.has_value());
    *out = std::min<std::uint64_t>(on.memory_bytes / known->bytes(), limits::texture_linear_width);
    return CUDA_SUCCESS;
  });
}
