// SPDX-License-Identifier: Apache-2.0
// Texture and surface objects, and what kernels read through them.
#include <cstring>
#include <numeric>

#include "driver.hpp"

namespace {

struct float2 {
  float x, y;
  bool operator==(const float2&) const = default;
};
struct float4 {
  float x, y, z, w;
  bool operator==(const float4&) const = default;
};

using extents = CUDA_ARRAY3D_DESCRIPTOR;

template <typename Value>
CUarray filled_array(extents shape, const std::vector<Value>& values) {
  CUarray made = nullptr;
  REQUIRE_OK(driver(cuArray3DCreate_v2)(&made, &shape));
  CUDA_MEMCPY3D fill{};
  fill.srcMemoryType = CU_MEMORYTYPE_HOST;
  fill.srcHost = values.data();
  fill.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  fill.dstArray = made;
  fill.Height = std::max<size_t>(shape.Height, 1);
  fill.Depth = std::max<size_t>(shape.Depth, 1);
  fill.WidthInBytes = values.size() * sizeof(Value) / fill.Height / fill.Depth;
  fill.srcPitch = fill.WidthInBytes;
  fill.srcHeight = fill.Height;
  REQUIRE_OK(driver(cuMemcpy3D_v2)(&fill));
  return made;
}

CUDA_RESOURCE_DESC resource_of(CUarray array) {
  CUDA_RESOURCE_DESC made{};
  made.resType = CU_RESOURCE_TYPE_ARRAY;
  made.res.array.hArray = array;
  return made;
}

CUDA_TEXTURE_DESC sampling(CUaddress_mode mode, CUfilter_mode filter, unsigned flags = 0) {
  CUDA_TEXTURE_DESC made{};
  for (auto& one : made.addressMode) one = mode;
  made.filterMode = filter;
  made.flags = flags;
  return made;
}

CUtexObject texture(const CUDA_RESOURCE_DESC& resource, const CUDA_TEXTURE_DESC& how) {
  CUtexObject made = 0;
  REQUIRE_OK(driver(cuTexObjectCreate)(&made, &resource, &how, nullptr));
  return made;
}

CUsurfObject surface(CUarray array) {
  CUsurfObject made = 0;
  const auto resource = resource_of(array);
  REQUIRE_OK(driver(cuSurfObjectCreate)(&made, &resource));
  return made;
}

// What the kernel gives for each place.
template <typename Result, typename Place>
std::vector<Result> sampled(const test_module& module, const char* kernel, CUtexObject from,
                            const std::vector<Place>& places) {
  const CUdeviceptr at = device_array(places);
  const CUdeviceptr out = device_array(std::vector<Result>(places.size()));
  REQUIRE_OK(launch(module.function(kernel), 1, static_cast<unsigned>(places.size()), nullptr, from,
                    at, out));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  return host_copy<Result>(out, places.size());
}

std::vector<float> counting(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

}  // namespace

TEST_CASE("linear memory is fetched by index, and is 0 outside") {
  test_context context;
  test_module module("textures.ptx");
  std::vector<int> values(100);
  std::iota(values.begin(), values.end(), 1000);
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear.devPtr = device_array(values);
  resource.res.linear.format = CU_AD_FORMAT_SIGNED_INT32;
  resource.res.linear.numChannels = 1;
  resource.res.linear.sizeInBytes = 400;
  const auto how =
      sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT, CU_TRSF_READ_AS_INTEGER);
  const CUtexObject object = texture(resource, how);
  CHECK(sampled<int>(module, "fetch_1d", object, std::vector<int>{0, 99, 50, 100, -1}) ==
        std::vector<int>{1000, 1099, 1050, 0, 0});
  CUDA_RESOURCE_DESC read{};
  REQUIRE_OK(driver(cuTexObjectGetResourceDesc)(&read, object));
  CHECK(read.res.linear.devPtr == resource.res.linear.devPtr);
  CUDA_TEXTURE_DESC read_how{};
  REQUIRE_OK(driver(cuTexObjectGetTextureDesc)(&read_how, object));
  CHECK(read_how.flags == how.flags);
  REQUIRE_OK(driver(cuTexObjectDestroy)(object));
}

TEST_CASE("a linear filter weighs with eight bits of fraction") {
  test_context context;
  test_module module("textures.ptx");
  CUarray array =
      filled_array<float>({4, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}, {0.0f, 256.0f, 512.0f, 1024.0f});
  const CUtexObject object =
      texture(resource_of(array), sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR));
  CHECK(sampled<float>(
            module, "sample_1d", object,
            std::vector<float>{0.0f, 0.5f, 1.0f, 0.75f, 0.501f, 0.503f, 3.0f, 9.0f, 0.50196f}) ==
        std::vector<float>{0, 0, 128, 64, 0, 1, 768, 1024, 1});
}

TEST_CASE("address modes say what lies beyond the edges") {
  test_context context;
  test_module module("textures.ptx");
  CUarray array = filled_array<float>({4, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0}, {1, 2, 3, 4});
  const std::vector<float> places{-0.3f, -0.1f, 0.1f, 0.9f, 1.1f, 1.4f, 2.1f};
  const auto results = [&](CUaddress_mode mode, unsigned flags = CU_TRSF_NORMALIZED_COORDINATES) {
    return sampled<float>(
        module, "sample_1d",
        texture(resource_of(array), sampling(mode, CU_TR_FILTER_MODE_POINT, flags)), places);
  };
  CHECK(results(CU_TR_ADDRESS_MODE_WRAP) == std::vector<float>{3, 4, 1, 4, 1, 2, 1});
  CHECK(results(CU_TR_ADDRESS_MODE_CLAMP) == std::vector<float>{1, 1, 1, 4, 4, 4, 4});
  CHECK(results(CU_TR_ADDRESS_MODE_MIRROR) == std::vector<float>{2, 1, 1, 4, 4, 3, 1});
  CHECK(results(CU_TR_ADDRESS_MODE_BORDER) == std::vector<float>{0, 0, 1, 4, 0, 0, 0});
  // Wrapping needs coordinates from 0 to 1; else it is clamping.
  CHECK(results(CU_TR_ADDRESS_MODE_WRAP, 0) == std::vector<float>{1, 1, 1, 1, 2, 2, 3});
}

TEST_CASE("two dimensions are filtered in both") {
  test_context context;
  test_module module("textures.ptx");
  CUarray array = filled_array<float>({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0}, counting(16));
  const std::vector<float2> places{
      {1.0f, 1.0f}, {0.5f, 0.5f}, {2.5f, 1.0f}, {4.0f, 4.0f}, {1.25f, 2.75f}};
  CHECK(sampled<float>(module, "sample_2d",
                       texture(resource_of(array),
                               sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR)),
                       places) == std::vector<float>{2.5f, 0, 4, 15, 9.75f});
  CHECK(sampled<float>(
            module, "sample_2d",
            texture(resource_of(array), sampling(CU_TR_ADDRESS_MODE_WRAP, CU_TR_FILTER_MODE_LINEAR,
                                                 CU_TRSF_NORMALIZED_COORDINATES)),
            std::vector<float2>{{0.0f, 0.125f}, {0.125f, 1.0f}, {0.5f, 0.5f}}) ==
        std::vector<float>{1.5f, 6, 7.5f});
}

TEST_CASE("bytes are read as integers or as parts of one") {
  test_context context;
  test_module module("textures.ptx");
  std::vector<unsigned char> values(4 * 4);
  for (std::size_t n = 0; n < values.size(); ++n)
    values[n] = static_cast<unsigned char>(n < 4 ? n * 85 : 100 + n);
  CUarray array = filled_array({2, 2, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0}, values);
  const std::vector<float2> places{{0.5f, 0.5f}, {1.5f, 1.5f}};
  CHECK(sampled<float4>(
            module, "sample_2d_bytes",
            texture(resource_of(array), sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT,
                                                 CU_TRSF_READ_AS_INTEGER)),
            places) == std::vector<float4>{{0, 85, 170, 255}, {112, 113, 114, 115}});
  CHECK(sampled<float4>(module, "sample_2d_four",
                        texture(resource_of(array),
                                sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT)),
                        std::vector<float2>{places[0]}) ==
        std::vector<float4>{{0, 85 / 255.0f, 170 / 255.0f, 1}});
}

TEST_CASE("levels of detail are chosen and mixed") {
  test_context context;
  test_module module("textures.ptx");
  CUDA_ARRAY3D_DESCRIPTOR shape{8, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  CUmipmappedArray pyramid = nullptr;
  REQUIRE_OK(driver(cuMipmappedArrayCreate)(&pyramid, &shape, 4));
  for (unsigned level = 0; level < 4; ++level) {
    CUarray part = nullptr;
    REQUIRE_OK(driver(cuMipmappedArrayGetLevel)(&part, pyramid, level));
    const size_t side = 8u >> level;
    const std::vector<float> values(side * side, static_cast<float>(level) * 10);
    CUDA_MEMCPY2D fill{};
    fill.srcMemoryType = CU_MEMORYTYPE_HOST;
    fill.srcHost = values.data();
    fill.srcPitch = side * 4;
    fill.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    fill.dstArray = part;
    fill.WidthInBytes = side * 4;
    fill.Height = side;
    REQUIRE_OK(driver(cuMemcpy2D_v2)(&fill));
  }
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = pyramid;
  auto how =
      sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR, CU_TRSF_NORMALIZED_COORDINATES);
  how.maxMipmapLevelClamp = 3;
  const std::vector<float4> places{{0.5f, 0.5f, 0, 0},
                                   {0.5f, 0.5f, 1, 0},
                                   {0.5f, 0.5f, 1.25f, 0},
                                   {0.5f, 0.5f, 1.75f, 0},
                                   {0.5f, 0.5f, 7, 0}};
  CHECK(sampled<float>(module, "sample_2d_level", texture(resource, how), places) ==
        std::vector<float>{0, 10, 10, 20, 30});
  how.mipmapFilterMode = CU_TR_FILTER_MODE_LINEAR;
  CHECK(sampled<float>(module, "sample_2d_level", texture(resource, how), places) ==
        std::vector<float>{0, 10, 12.5f, 17.5f, 30});
  // A step of two texels of the first level in each direction is the second level.
  CHECK(sampled<float>(module, "sample_2d_gradient", texture(resource, how),
                       std::vector<float4>{{0.5f, 0.5f, 0.25f, 0.25f}}) == std::vector<float>{10});
  how.maxMipmapLevelClamp = 1;
  CHECK(sampled<float>(module, "sample_2d_level", texture(resource, how), places) ==
        std::vector<float>{0, 10, 10, 10, 10});
  REQUIRE_OK(driver(cuMipmappedArrayDestroy)(pyramid));
}

TEST_CASE("a gather gives the four texels around") {
  test_context context;
  test_module module("textures.ptx");
  CUarray array = filled_array<float>({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
                                      counting(16));
  CHECK(sampled<float4>(module, "gather_2d",
                        texture(resource_of(array),
                                sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT)),
                        std::vector<float2>{{2.0f, 1.0f}}) == std::vector<float4>{{5, 6, 2, 1}});
}

TEST_CASE("solids, layers and cubes are sampled") {
  test_context context;
  test_module module("textures.ptx");
  const auto how = sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_LINEAR);
  CUarray solid = filled_array<float>({2, 2, 2, CU_AD_FORMAT_FLOAT, 1, 0}, counting(8));
  CHECK(sampled<float>(module, "sample_3d", texture(resource_of(solid), how),
                       std::vector<float4>{{1, 1, 1, 0}, {0.5f, 0.5f, 1.5f, 0}}) ==
        std::vector<float>{3.5f, 4});
  CUarray layers =
      filled_array<float>({2, 2, 3, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED}, counting(12));
  CHECK(sampled<float>(module, "sample_layers", texture(resource_of(layers), how),
                       std::vector<float4>{{1, 1, 0, 0}, {1, 1, 2, 0}, {0.5f, 0.5f, 9, 0}}) ==
        std::vector<float>{1.5f, 9.5f, 8});
  CUarray cube = filled_array<float>({1, 1, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
                                     {10, 11, 12, 13, 14, 15});
  CHECK(sampled<float>(
            module, "sample_cube",
            texture(resource_of(cube), sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT,
                                                CU_TRSF_NORMALIZED_COORDINATES)),
            std::vector<float4>{{1, 0.2f, 0, 0},
                                {-1, 0, 0.3f, 0},
                                {0, 1, 0, 0},
                                {0.1f, -1, 0, 0},
                                {0, 0, 1, 0},
                                {0.5f, 0, -1, 0}}) == std::vector<float>{10, 11, 12, 13, 14, 15});
}

TEST_CASE("surfaces are read and written by bytes") {
  test_context context;
  test_module module("textures.ptx");
  const extents shape{8, 4, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
  CUarray from = filled_array(shape, counting(32)), to = filled_array(shape, counting(32));
  const CUsurfObject reading = surface(from), writing = surface(to);
  void* arguments[] = {const_cast<CUsurfObject*>(&reading), const_cast<CUsurfObject*>(&writing),
                       nullptr, nullptr};
  int width = 8, height = 4;
  arguments[2] = &width;
  arguments[3] = &height;
  REQUIRE_OK(driver(cuLaunchKernel)(module.function("turn_surface"), 1, 1, 1, 8, 4, 1, 0, nullptr,
                                    arguments, nullptr));
  std::vector<float> back(32);
  CUDA_MEMCPY2D read{};
  read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  read.srcArray = to;
  read.dstMemoryType = CU_MEMORYTYPE_HOST;
  read.dstHost = back.data();
  read.dstPitch = 32;
  read.WidthInBytes = 32;
  read.Height = 4;
  REQUIRE_OK(driver(cuMemcpy2D_v2)(&read));
  CHECK(back.front() == 131);
  CHECK(back.back() == 100);
  CHECK(back[8] == 123);

  const CUdeviceptr out = device_array(std::vector<float>(3, -1.0f));
  REQUIRE_OK(launch(module.function("surface_edges"), 1, 1, nullptr, reading, out));
  CHECK(host_copy<float>(out, 3) == std::vector<float>{0, 0, 15});
  REQUIRE_OK(launch(module.function("surface_outside"), 1, 1, nullptr, reading));
  CHECK(driver(cuCtxSynchronize)() != CUDA_SUCCESS);
}

TEST_CASE("layers of a surface hold bytes") {
  test_context context;
  test_module module("textures.ptx");
  CUarray array = nullptr;
  extents shape{
      4, 2, 3, CU_AD_FORMAT_UNSIGNED_INT8, 4, CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_LAYERED};
  REQUIRE_OK(driver(cuArray3DCreate_v2)(&array, &shape));
  CUsurfObject object = surface(array);
  void* arguments[] = {&object};
  REQUIRE_OK(driver(cuLaunchKernel)(module.function("surface_layers"), 1, 1, 1, 4, 2, 3, 0, nullptr,
                                    arguments, nullptr));
  std::vector<unsigned char> back(4);
  CUDA_MEMCPY3D read{};
  read.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  read.srcArray = array;
  read.srcXInBytes = 12;
  read.srcY = 1;
  read.srcZ = 2;
  read.dstMemoryType = CU_MEMORYTYPE_HOST;
  read.dstHost = back.data();
  read.WidthInBytes = 4;
  read.Height = 1;
  read.Depth = 1;
  REQUIRE_OK(driver(cuMemcpy3D_v2)(&read));
  CHECK(back == std::vector<unsigned char>{3, 1, 2, 255});
}

TEST_CASE("objects that cannot be are refused") {
  test_context context;
  CUarray array = filled_array<float>({4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0}, counting(16));
  auto resource = resource_of(array);
  auto how = sampling(CU_TR_ADDRESS_MODE_CLAMP, CU_TR_FILTER_MODE_POINT);
  CUtexObject object = 0;
  CHECK_CODE(driver(cuTexObjectCreate)(nullptr, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuTexObjectCreate)(&object, nullptr, &how, nullptr), CUDA_ERROR_INVALID_VALUE);
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {device_array(counting(16)) + 4, CU_AD_FORMAT_FLOAT, 1, 32};
  CHECK_CODE(driver(cuTexObjectCreate)(&object, &resource, &how, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CUDA_TEXTURE_DESC read{};
  CHECK_CODE(driver(cuTexObjectGetTextureDesc)(&read, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a kernel that uses what is no texture faults") {
  test_context context;
  test_module module("textures.ptx");
  const CUdeviceptr places = device_array(counting(1)), out = device_array(counting(1));
  CUtexObject nothing = 0x12345;
  REQUIRE_OK(launch(module.function("sample_1d"), 1, 1, nullptr, nothing, places, out));
  CHECK(driver(cuCtxSynchronize)() != CUDA_SUCCESS);
}
