// SPDX-License-Identifier: Apache-2.0
// A launch with each attribute that there is, twice: the first waits for the driver's verdict, the second is only sent. And
// what is asked before a launch: occupancy, with and without a callback, and clusters.
#include "test/loopback/programs/common.hpp"

static constexpr unsigned count = 256;

static CUresult launch_fill(const gpu& g, CUdeviceptr place, int value, CUlaunchAttribute* attributes, unsigned attribute_count,
                            CUstream stream) {
  CUlaunchConfig config{};
  config.gridDimX = 4;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 64;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = attribute_count;
  unsigned elements = count;
  void* parameters[] = {&place, &value, &elements};
  return cuLaunchKernelEx(&config, g.fill, parameters, nullptr);
}

static void expect_filled(CUdeviceptr place, int value, CUstream stream) {
  int values[count];
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuMemcpyDtoH(values, place, sizeof values));
  for (int v : values) REQUIRE(v == value);
}

static void try_attribute(const gpu& g, CUdeviceptr place, CUstream stream, const char* name, CUlaunchAttribute attribute) {
  static int value = 0;
  CUlaunchAttribute list[2] = {};
  list[0].id = CU_LAUNCH_ATTRIBUTE_IGNORE;
  list[1] = attribute;
  for (int round = 0; round < 2; ++round) {
    CHECK(launch_fill(g, place, ++value, list, 2, stream));
    expect_filled(place, value, stream);
  }
  std::printf("%s: launched\n", name);
}

static CUlaunchAttribute with(CUlaunchAttributeID id) {
  CUlaunchAttribute attribute{};
  attribute.id = id;
  return attribute;
}

static void attributes(const gpu& g, CUdeviceptr place) {
  CUstream stream;
  CUevent event;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  CUlaunchAttribute a = with(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  a.value.cooperative = 1;
  try_attribute(g, place, stream, "cooperative", a);
  a = with(CU_LAUNCH_ATTRIBUTE_PRIORITY);
  a.value.priority = 0;
  try_attribute(g, place, stream, "priority", a);
  a = with(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  a.value.programmaticStreamSerializationAllowed = 1;
  try_attribute(g, place, stream, "programmatic stream serialization", a);
  a = with(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT);
  a.value.programmaticEvent.event = event;
  try_attribute(g, place, stream, "programmatic event", a);
  CHECK(cuEventSynchronize(event));
  a = with(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT);
  a.value.launchCompletionEvent.event = event;
  try_attribute(g, place, stream, "launch completion event", a);
  CHECK(cuEventSynchronize(event));
  a = with(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN);
  a.value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
  try_attribute(g, place, stream, "memory synchronisation domain", a);
  a = with(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
  a.value.sharedMemCarveout = 50;
  try_attribute(g, place, stream, "shared memory carve-out", a);
  a = with(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
  try_attribute(g, place, stream, "a node that the device cannot update", a);

  int clusters = 0;
  CHECK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, g.device));
  if (clusters != 0) {
    a = with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    a.value.clusterDim.x = 2;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    try_attribute(g, place, stream, "clusters of two", a);
    a.value.clusterDim.x = 3;  // does not divide the grid
    REQUIRE(launch_fill(g, place, 1, &a, 1, stream) != CUDA_SUCCESS);
  }
  a = with(static_cast<CUlaunchAttributeID>(12'345));
  REQUIRE(launch_fill(g, place, 1, &a, 1, stream) != CUDA_SUCCESS);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, launch_fill(g, place, 1, nullptr, 1, stream));
  CHECK(launch_fill(g, place, 77, nullptr, 0, stream));
  expect_filled(place, 77, stream);
  CHECK(cuEventDestroy(event));
  CHECK(cuStreamDestroy(stream));
}

static int callbacks = 0;
static size_t shared_bytes_of(int block) {
  ++callbacks;
  return static_cast<size_t>(block) * 8;
}

static void occupancy(const gpu& g) {
  int blocks = 0, grid = 0, block = 0, with_callback = 0, value = 0;
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, g.fill, 128, 0));
  REQUIRE(blocks > 0);
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&value, g.fill, 128, 0, CU_OCCUPANCY_DEFAULT));
  REQUIRE(value == blocks);
  CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, g.fill, nullptr, 0, 0));
  REQUIRE(grid > 0 && block > 0 && block % 32 == 0);
  CHECK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &with_callback, g.fill, shared_bytes_of, 0, 256, CU_OCCUPANCY_DEFAULT));
  REQUIRE(callbacks > 0 && with_callback > 0 && with_callback <= 256);
  size_t dynamic = 0;
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, g.fill, 1, 128));
  REQUIRE(dynamic > 0);

  // What was asked before an attribute changed is not answered from memory.
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, g.fill));
  CHECK(cuFuncSetAttribute(g.fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value / 2));
  int changed = 0;
  CHECK(cuFuncGetAttribute(&changed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, g.fill));
  REQUIRE(changed == value / 2);
  CHECK(cuFuncSetAttribute(g.fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, value));
  CHECK(cuFuncSetCacheConfig(g.fill, CU_FUNC_CACHE_PREFER_SHARED));
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
  CUfunc_cache cache;
  CHECK(cuCtxGetCacheConfig(&cache));
  REQUIRE(cache == CU_FUNC_CACHE_PREFER_L1 || cache == CU_FUNC_CACHE_PREFER_NONE);

  int clusters = 0;
  CHECK(cuDeviceGetAttribute(&clusters, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, g.device));
  if (clusters != 0) {
    CUlaunchConfig config{};
    config.gridDimX = 64;
    config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
    config.blockDimX = 128;
    int size = 0, active = 0;
    CHECK(cuOccupancyMaxPotentialClusterSize(&size, g.fill, &config));
    REQUIRE(size >= 1);
    CUlaunchAttribute a = with(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
    a.value.clusterDim.x = 2;
    a.value.clusterDim.y = a.value.clusterDim.z = 1;
    config.attrs = &a;
    config.numAttrs = 1;
    CHECK(cuOccupancyMaxActiveClusters(&active, g.fill, &config));
    REQUIRE(active >= 1);
  }
  CUmodule module;
  CHECK(cuFuncGetModule(&module, g.fill));
  REQUIRE(module == g.module);
  std::printf("occupancy asked\n");
}

int main() {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, count * sizeof(int)));
  attributes(g, place);
  occupancy(g);
  CHECK(cuMemFree(place));
  std::printf("PASSED\n");
}
