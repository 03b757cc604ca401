// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects. Clients use the driver's numbers, so those that are alive are written down: the driver is
// never asked to destroy a number that a client made up.
#include <mutex>
#include <set>

#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

// By context and number. Any thread.
class live_objects {
 public:
  void add(std::uint32_t context, std::uint64_t object) {
    std::lock_guard lock(mutex_);
    objects_.insert({context, object});
  }
  bool take(std::uint32_t context, std::uint64_t object) {
    std::lock_guard lock(mutex_);
    return objects_.erase({context, object}) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<std::uint32_t, std::uint64_t>> objects_;
};

live_objects& textures() {
  static auto* o = new live_objects;
  return *o;
}
live_objects& surfaces() {
  static auto* o = new live_objects;
  return *o;
}

template <class List>
bool resource_from(call_context& c, const List& list, CUDA_RESOURCE_DESC& d) {
  if (list.size() != 1) return false;
  const auto& r = list.front();
  d.resType = static_cast<CUresourcetype>(r.type);
  d.flags = r.flags;
  switch (d.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      d.res.array.hArray = c.native<handle_kind::array>(r.place);
      return true;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      d.res.mipmap.hMipmappedArray = c.native<handle_kind::mipmapped_array>(r.place);
      return true;
    case CU_RESOURCE_TYPE_LINEAR:
      d.res.linear.devPtr = r.place;
      d.res.linear.format = static_cast<CUarray_format>(r.format);
      d.res.linear.numChannels = r.channels;
      d.res.linear.sizeInBytes = r.bytes;
      return true;
    case CU_RESOURCE_TYPE_PITCH2D:
      d.res.pitch2D.devPtr = r.place;
      d.res.pitch2D.format = static_cast<CUarray_format>(r.format);
      d.res.pitch2D.numChannels = r.channels;
      d.res.pitch2D.width = r.width;
      d.res.pitch2D.height = r.height;
      d.res.pitch2D.pitchInBytes = r.pitch;
      return true;
    default:
      return false;
  }
}

template <class Settings>
CUDA_TEXTURE_DESC settings_from(const Settings& t) {
  CUDA_TEXTURE_DESC d{};
  d.addressMode[0] = static_cast<CUaddress_mode>(t.address_x);
  d.addressMode[1] = static_cast<CUaddress_mode>(t.address_y);
  d.addressMode[2] = static_cast<CUaddress_mode>(t.address_z);
  d.filterMode = static_cast<CUfilter_mode>(t.filter);
  d.flags = t.flags;
  d.maxAnisotropy = t.anisotropy;
  d.mipmapFilterMode = static_cast<CUfilter_mode>(t.level_filter);
  d.mipmapLevelBias = t.level_bias;
  d.minMipmapLevelClamp = t.level_min;
  d.maxMipmapLevelClamp = t.level_max;
  d.borderColor[0] = t.border_0;
  d.borderColor[1] = t.border_1;
  d.borderColor[2] = t.border_2;
  d.borderColor[3] = t.border_3;
  return d;
}

template <class View>
CUDA_RESOURCE_VIEW_DESC view_from(const View& v) {
  CUDA_RESOURCE_VIEW_DESC d{};
  d.format = static_cast<CUresourceViewFormat>(v.format);
  d.width = v.width;
  d.height = v.height;
  d.depth = v.depth;
  d.firstMipmapLevel = v.first_level;
  d.lastMipmapLevel = v.last_level;
  d.firstLayer = v.first_layer;
  d.lastLayer = v.last_layer;
  return d;
}

}  // namespace

outcome texture_create(call_context& c, const msg::texture_create::request& q) {
  using call = msg::texture_create;
  CUDA_RESOURCE_DESC resource{};
  if (!resource_from(c, q.resource, resource) || q.settings.size() != 1 || q.view.size() > 1)
    return c.malformed();
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuTexObjectCreate == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto settings = settings_from(q.settings.front());
  CUDA_RESOURCE_VIEW_DESC view{};
  if (!q.view.empty()) view = view_from(q.view.front());
  CUtexObject object = 0;
  const auto result = c.driver().cuTexObjectCreate(&object, &resource, &settings,
                                                   q.view.empty() ? nullptr : &view);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    textures().add(c.ticket().context, object);
    r.object = object;
  }
  return c.finish<call>(result, r);
}

outcome surface_create(call_context& c, const msg::surface_create::request& q) {
  using call = msg::surface_create;
  CUDA_RESOURCE_DESC resource{};
  if (!resource_from(c, q.resource, resource)) return c.malformed();
  if (c.failed()) return c.finish<call>(c.failure(), {});
  if (c.driver().cuSurfObjectCreate == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  CUsurfObject object = 0;
  const auto result = c.driver().cuSurfObjectCreate(&object, &resource);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    surfaces().add(c.ticket().context, object);
    r.object = object;
  }
  return c.finish<call>(result, r);
}

outcome cuTexObjectDestroy(call_context& c, const msg::cuTexObjectDestroy::request& q) {
  using call = msg::cuTexObjectDestroy;
  if (c.driver().cuTexObjectDestroy == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (!textures().take(c.ticket().context, q.texObject))
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto result = c.driver().cuTexObjectDestroy(q.texObject);
  if (result != CUDA_SUCCESS) textures().add(c.ticket().context, q.texObject);
  return c.finish<call>(result, {});
}

outcome cuSurfObjectDestroy(call_context& c, const msg::cuSurfObjectDestroy::request& q) {
  using call = msg::cuSurfObjectDestroy;
  if (c.driver().cuSurfObjectDestroy == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  if (!surfaces().take(c.ticket().context, q.surfObject))
    return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto result = c.driver().cuSurfObjectDestroy(q.surfObject);
  if (result != CUDA_SUCCESS) surfaces().add(c.ticket().context, q.surfObject);
  return c.finish<call>(result, {});
}

}  // namespace gpuwire::daemon::custom
