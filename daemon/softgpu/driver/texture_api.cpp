// SPDX-License-Identifier: Apache-2.0
// Creation and description of texture and surface objects.
#include <algorithm>

#include "array.hpp"
#include "capture.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "texture.hpp"

using namespace gpuwire::softgpu;

namespace {

constexpr unsigned known_flags = CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES |
                                 CU_TRSF_SRGB | CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION |
                                 CU_TRSF_SEAMLESS_CUBEMAP;

ptx::texel_format checked_format(CUarray_format format, unsigned channels) {
  auto known = texel_format_of(format, channels);
  require(known.has_value());
  return *known;
}

// Memory of the program's: it must be the device's and aligned.
void check_memory(CUdeviceptr address, std::uint64_t bytes) {
  require(address % limits::texture_alignment == 0 && bytes > 0);
  require(memory_table::instance().find_range(address, bytes).has_value());
}

void use_shape(ptx::texture& made, const CUDA_ARRAY3D_DESCRIPTOR& shape,
               const ptx::texel_format& format) {
  made.format = format;
  made.layered = (shape.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  made.cube = (shape.Flags & CUDA_ARRAY3D_CUBEMAP) != 0;
}

void use_array(ptx::texture& made, const cuda_array& array) {
  use_shape(made, array.shape, array.format);
  made.levels = {array.image};
  made.keep_alive = array.storage;
}

void use_mipmaps(ptx::texture& made, const std::shared_ptr<mipmapped_array>& array) {
  use_shape(made, array->shape, array->format);
  for (const auto& level : array->levels) made.levels.push_back(level->image);
  made.keep_alive = array;
}

void use_linear(ptx::texture& made, const CUDA_RESOURCE_DESC& resource) {
  const auto& given = resource.res.linear;
  made.format = checked_format(given.format, given.numChannels);
  const std::uint64_t texels = given.sizeInBytes / made.format.bytes();
  require(texels > 0 && texels <= limits::texture_linear_width);
  check_memory(given.devPtr, given.sizeInBytes);
  made.linear_memory = made.device_memory = true;
  ptx::image_level level;
  level.data = reinterpret_cast<std::byte*>(given.devPtr);
  level.width = static_cast<std::uint32_t>(texels);
  made.levels = {level};
}

void use_pitched(ptx::texture& made, const CUDA_RESOURCE_DESC& resource) {
  const auto& given = resource.res.pitch2D;
  made.format = checked_format(given.format, given.numChannels);
  require(given.width > 0 && given.width <= limits::texture_pitch_width && given.height > 0 &&
          given.height <= limits::texture_pitch_height);
  require(given.pitchInBytes % limits::texture_pitch_alignment == 0 &&
          given.pitchInBytes <= limits::texture_pitch_bytes &&
          given.pitchInBytes >= given.width * made.format.bytes());
  check_memory(given.devPtr,
               given.pitchInBytes * (given.height - 1) + given.width * made.format.bytes());
  made.device_memory = true;
  ptx::image_level level;
  level.data = reinterpret_cast<std::byte*>(given.devPtr);
  level.width = static_cast<std::uint32_t>(given.width);
  level.height = static_cast<std::uint32_t>(given.height);
  level.pitch = given.pitchInBytes;
  made.levels = {level};
}

void use_resource(ptx::texture& made, const CUDA_RESOURCE_DESC& resource) {
  require(resource.flags == 0);
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      require(resource.res.array.hArray != nullptr);
      return use_array(made, *array_of(resource.res.array.hArray));
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      require(resource.res.mipmap.hMipmappedArray != nullptr);
      return use_mipmaps(made, mipmapped_of(resource.res.mipmap.hMipmappedArray));
    case CU_RESOURCE_TYPE_LINEAR:
      return use_linear(made, resource);
    case CU_RESOURCE_TYPE_PITCH2D:
      return use_pitched(made, resource);
    default:
      refuse(CUDA_ERROR_INVALID_VALUE);
  }
}

void use_sampling(ptx::texture& made, const CUDA_TEXTURE_DESC& sampling) {
  require((sampling.flags & ~known_flags) == 0);
  const auto is_filter = [](CUfilter_mode mode) {
    return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
  };
  require(is_filter(sampling.filterMode) && is_filter(sampling.mipmapFilterMode));
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto mode = sampling.addressMode[axis];
    require(mode >= CU_TR_ADDRESS_MODE_WRAP && mode <= CU_TR_ADDRESS_MODE_BORDER);
    made.modes[axis] = static_cast<ptx::address_mode>(mode);
  }
  made.linear_filter = sampling.filterMode == CU_TR_FILTER_MODE_LINEAR;
  made.linear_mipmaps = sampling.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
  made.normalised_coordinates = (sampling.flags & CU_TRSF_NORMALIZED_COORDINATES) != 0;
  made.read_as_integer = (sampling.flags & CU_TRSF_READ_AS_INTEGER) != 0;
  made.srgb = (sampling.flags & CU_TRSF_SRGB) != 0;
  made.level_bias = sampling.mipmapLevelBias;
  made.level_min = sampling.minMipmapLevelClamp;
  made.level_max = sampling.maxMipmapLevelClamp;
  std::copy_n(sampling.borderColor, 4, made.border.begin());
}

// The plain formats stand in rows of three: one, two and four channels.
ptx::texel_format view_format(CUresourceViewFormat format) {
  using ptx::channel_kind;
  constexpr channel_kind kinds[] = {channel_kind::u8,  channel_kind::s8,  channel_kind::u16,
                                    channel_kind::s16, channel_kind::u32, channel_kind::s32,
                                    channel_kind::f16, channel_kind::f32};
  require(format >= CU_RES_VIEW_FORMAT_UINT_1X8 && format <= CU_RES_VIEW_FORMAT_UNSIGNED_BC7);
  require(format <= CU_RES_VIEW_FORMAT_FLOAT_4X32, CUDA_ERROR_NOT_SUPPORTED);
  const unsigned place = format - CU_RES_VIEW_FORMAT_UINT_1X8;
  return {kinds[place / 3], 1u << (place % 3), false};
}

void use_view(ptx::texture& made, const CUDA_RESOURCE_DESC& resource,
              const CUDA_RESOURCE_VIEW_DESC& view) {
  require(resource.resType == CU_RESOURCE_TYPE_ARRAY ||
          resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY);
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    const auto format = view_format(view.format);
    require(format.bytes() == made.format.bytes());
    made.format = format;
  }
  require(view.width == made.levels.front().width);
  require(view.firstMipmapLevel <= view.lastMipmapLevel &&
          view.lastMipmapLevel < made.levels.size());
  made.levels.assign(made.levels.begin() + view.firstMipmapLevel,
                     made.levels.begin() + view.lastMipmapLevel + 1);
  if (!made.layered) return;
  for (auto& level : made.levels) {
    require(view.firstLayer <= view.lastLayer && view.lastLayer < level.depth);
    level.data += view.firstLayer * level.slice;
    level.depth = view.lastLayer - view.firstLayer + 1;
  }
}

template <typename Value>
CUresult give(Value* out, std::uint64_t handle, bool surface, Value texture_object::*member) {
  return initialised([&] {
    require(out != nullptr);
    *out = texture_objects::instance().get(handle, surface).*member;
    return CUDA_SUCCESS;
  });
}

CUresult destroy(std::uint64_t handle, bool surface) {
  return initialised([&] {
    check_unsafe_call();
    if (handle == 0) return CUDA_SUCCESS;
    texture_objects::instance().remove(handle, surface);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuTexObjectCreate(CUtexObject* out, const CUDA_RESOURCE_DESC* resource,
                           const CUDA_TEXTURE_DESC* sampling, const CUDA_RESOURCE_VIEW_DESC* view) {
  return with_context([&](context& current) {
    check_unsafe_call();
    require(out != nullptr && resource != nullptr && sampling != nullptr);
    ptx::texture seen;
    use_resource(seen, *resource);
    use_sampling(seen, *sampling);
    if (view != nullptr) use_view(seen, *resource, *view);
    texture_object made;
    made.owner = current.shared_from_this();
    made.resource = *resource;
    made.sampling = *sampling;
    if (view != nullptr) made.view = *view;
    *out = texture_objects::instance().add(std::move(made), std::move(seen));
    return CUDA_SUCCESS;
  });
}

CUresult cuTexObjectDestroy(CUtexObject handle) {
  return destroy(handle, false);
}
CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUtexObject handle) {
  return give(out, handle, false, &texture_object::resource);
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* out, CUtexObject handle) {
  return give(out, handle, false, &texture_object::sampling);
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* out, CUtexObject handle) {
  return initialised([&] {
    require(out != nullptr);
    *out = texture_objects::instance().get(handle, false).view;  // zeroes without one
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* out, const CUDA_RESOURCE_DESC* resource) {
  return with_context([&](context& current) {
    check_unsafe_call();
    require(out != nullptr && resource != nullptr);
    require(resource->resType == CU_RESOURCE_TYPE_ARRAY && resource->flags == 0);
    auto array = array_of(resource->res.array.hArray);
    ptx::texture seen;
    seen.surface = true;
    use_array(seen, *array);
    texture_object made;
    made.owner = current.shared_from_this();
    made.resource = *resource;
    *out = texture_objects::instance().add(std::move(made), std::move(seen));
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) {
  return destroy(handle, true);
}
CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* out, CUsurfObject handle) {
  return give(out, handle, true, &texture_object::resource);
}
