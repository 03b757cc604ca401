// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects. Their numbers are the driver's, since kernels get them as arguments; what they were made of
// is remembered here, because the driver gives back what it was told.
#include <map>
#include <mutex>
#include <optional>

#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

struct description {
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC settings{};
  std::optional<CUDA_RESOURCE_VIEW_DESC> view;
};

// By context and number. Any thread.
class object_book {
 public:
  void keep(std::uint64_t object, const description& d) {
    std::lock_guard lock(mutex_);
    objects_[key(object)] = d;
  }
  std::optional<description> find(std::uint64_t object) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(key(object));
    if (found == objects_.end()) return std::nullopt;
    return found->second;
  }
  void forget(std::uint64_t object) {
    std::lock_guard lock(mutex_);
    objects_.erase(key(object));
  }

 private:
  using place = std::pair<std::uint32_t, std::uint64_t>;
  static place key(std::uint64_t object) { return {self().context_index(), object}; }
  std::mutex mutex_;
  std::map<place, description> objects_;
};

object_book& textures() {
  static auto* b = new object_book;
  return *b;
}
object_book& surfaces() {
  static auto* b = new object_book;
  return *b;
}

template <class List>
bool put_resource(List& list, const CUDA_RESOURCE_DESC& d) {
  list.resize(1);
  auto& r = list[0];
  r.type = static_cast<std::uint32_t>(d.resType);
  r.flags = d.flags;
  switch (d.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      r.place = id_of(d.res.array.hArray);
      return true;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      r.place = id_of(d.res.mipmap.hMipmappedArray);
      return true;
    case CU_RESOURCE_TYPE_LINEAR:
      r.place = d.res.linear.devPtr;
      r.format = static_cast<std::uint32_t>(d.res.linear.format);
      r.channels = d.res.linear.numChannels;
      r.bytes = d.res.linear.sizeInBytes;
      return true;
    case CU_RESOURCE_TYPE_PITCH2D:
      r.place = d.res.pitch2D.devPtr;
      r.format = static_cast<std::uint32_t>(d.res.pitch2D.format);
      r.channels = d.res.pitch2D.numChannels;
      r.width = d.res.pitch2D.width;
      r.height = d.res.pitch2D.height;
      r.pitch = d.res.pitch2D.pitchInBytes;
      return true;
    default:
      return false;
  }
}

template <class List>
void put_settings(List& list, const CUDA_TEXTURE_DESC& d) {
  list.resize(1);
  auto& t = list[0];
  t.address_x = static_cast<std::uint32_t>(d.addressMode[0]);
  t.address_y = static_cast<std::uint32_t>(d.addressMode[1]);
  t.address_z = static_cast<std::uint32_t>(d.addressMode[2]);
  t.filter = static_cast<std::uint32_t>(d.filterMode);
  t.flags = d.flags;
  t.anisotropy = d.maxAnisotropy;
  t.level_filter = static_cast<std::uint32_t>(d.mipmapFilterMode);
  t.level_bias = d.mipmapLevelBias;
  t.level_min = d.minMipmapLevelClamp;
  t.level_max = d.maxMipmapLevelClamp;
  t.border_0 = d.borderColor[0];
  t.border_1 = d.borderColor[1];
  t.border_2 = d.borderColor[2];
  t.border_3 = d.borderColor[3];
}

template <class List>
void put_view(List& list, const CUDA_RESOURCE_VIEW_DESC& d) {
  list.resize(1);
  auto& v = list[0];
  v.format = static_cast<std::uint32_t>(d.format);
  v.width = d.width;
  v.height = d.height;
  v.depth = d.depth;
  v.first_level = d.firstMipmapLevel;
  v.last_level = d.lastMipmapLevel;
  v.first_layer = d.firstLayer;
  v.last_layer = d.lastLayer;
}

// What the driver says of an object: its description, or why there is none.
template <class Give>
CUresult describe(object_book& book, std::uint64_t object, const void* out, Give&& give) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto d = book.find(object);
  return d ? give(*d) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace custom {

CUresult cuTexObjectCreate(CUtexObject* pTexObject, const CUDA_RESOURCE_DESC* pResDesc,
                           const CUDA_TEXTURE_DESC* pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC* pResViewDesc) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pTexObject == nullptr || pResDesc == nullptr || pTexDesc == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  msg::texture_create::request q;
  if (!put_resource(q.resource, *pResDesc)) return CUDA_ERROR_INVALID_VALUE;
  put_settings(q.settings, *pTexDesc);
  if (pResViewDesc != nullptr) put_view(q.view, *pResViewDesc);
  const auto a = call<msg::texture_create>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  description d{*pResDesc, *pTexDesc, std::nullopt};
  if (pResViewDesc != nullptr) d.view = *pResViewDesc;
  textures().keep(a.body.object, d);
  *pTexObject = a.body.object;
  return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  msg::cuTexObjectDestroy::request q;
  q.texObject = texObject;
  const CUresult r = call<msg::cuTexObjectDestroy>(q).result;
  if (r == CUDA_SUCCESS) textures().forget(texObject);
  return r;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUtexObject texObject) {
  return describe(textures(), texObject, pResDesc, [&](const description& d) {
    *pResDesc = d.resource;
    return CUDA_SUCCESS;
  });
}
CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC* pTexDesc, CUtexObject texObject) {
  return describe(textures(), texObject, pTexDesc, [&](const description& d) {
    *pTexDesc = d.settings;
    return CUDA_SUCCESS;
  });
}
CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC* pResViewDesc,
                                        CUtexObject texObject) {
  return describe(textures(), texObject, pResViewDesc, [&](const description& d) {
    if (!d.view) return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = *d.view;
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfObjectCreate(CUsurfObject* pSurfObject, const CUDA_RESOURCE_DESC* pResDesc) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pSurfObject == nullptr || pResDesc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  msg::surface_create::request q;
  if (!put_resource(q.resource, *pResDesc)) return CUDA_ERROR_INVALID_VALUE;
  const auto a = call<msg::surface_create>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  surfaces().keep(a.body.object, {*pResDesc, {}, std::nullopt});
  *pSurfObject = a.body.object;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  msg::cuSurfObjectDestroy::request q;
  q.surfObject = surfObject;
  const CUresult r = call<msg::cuSurfObjectDestroy>(q).result;
  if (r == CUDA_SUCCESS) surfaces().forget(surfObject);
  return r;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC* pResDesc, CUsurfObject surfObject) {
  return describe(surfaces(), surfObject, pResDesc, [&](const description& d) {
    *pResDesc = d.resource;
    return CUDA_SUCCESS;
  });
}

}  // namespace custom
}  // namespace gpuwire::shim
