// SPDX-License-Identifier: Apache-2.0
// Clusters of blocks. Results and codes are those of an H200.
#include "hopper.hpp"

namespace {

CUresult launch_cluster(CUfunction function, dim_of grid, unsigned threads, dim_of cluster,
                        CUdeviceptr out) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = cluster.x;
  attribute.value.clusterDim.y = cluster.y;
  attribute.value.clusterDim.z = 1;
  const CUlaunchConfig config{grid.x, grid.y, 1, threads, 1, 1, 0, nullptr, &attribute, 1};
  void* arguments[] = {&out};
  return driver(cuLaunchKernelEx)(&config, function, arguments, nullptr);
}

int attribute_of(CUfunction function, CUfunction_attribute attribute) {
  int value = -1;
  REQUIRE_OK(driver(cuFuncGetAttribute)(&value, attribute, function));
  return value;
}

}  // namespace

TEST_CASE("blocks of a cluster reach into one another's shared memory") {
  test_context context;
  hopper_module module;
  const CUfunction neighbours = module.function("neighbours");
  const CUdeviceptr out = device_array<int>(std::vector<int>(64));
  REQUIRE_OK(launch_cluster(neighbours, {4, 1}, 32, {2, 1}, out));
  CHECK(host_copy<int>(out, 16) ==
        std::vector<int>{101, 64000, 2, 200, 0, 101, 2, 210, 103, 64002, 2, 200, 2, 103, 2, 210});
  REQUIRE_OK(launch_cluster(neighbours, {4, 2}, 64, {2, 2}, out));
  const auto values = host_copy<int>(out, 32);
  CHECK(std::vector<int>(values.begin(), values.begin() + 4) ==
        std::vector<int>{101, 256000, 4, 200});
  CHECK(values[16 + 4 + 3] == 211);
  REQUIRE_OK(launch_cluster(neighbours, {4, 1}, 32, {4, 1}, out));
  CHECK(host_copy<int>(out, 16) ==
        std::vector<int>{101, 128000, 4, 400, 202, 101, 4, 410, 303, 202, 4, 420, 0, 303, 4, 430});
}

TEST_CASE("a cluster's barrier is one of all its threads, also for one block alone") {
  test_context context;
  hopper_module module;
  const CUdeviceptr out = device_array<int>({0});
  REQUIRE_OK(launch(module.function("alone"), 1, 256, nullptr, out));
  CHECK(host_copy<int>(out, 1)[0] == 7);
}

TEST_CASE("cluster sizes are checked as the real driver does") {
  test_context context;
  hopper_module module;
  const CUfunction free_size = module.function("neighbours"), pairs = module.function("pairs");
  const CUdeviceptr out = device_array<int>(std::vector<int>(64));
  for (const auto& [grid, cluster] :
       {std::pair{3u, 2u}, std::pair{4u, 0u}, std::pair{16u, 16u}, std::pair{9u, 9u}}) {
    INFO(grid << " " << cluster);
    CHECK_CODE(launch_cluster(free_size, {grid, 1}, 32, {cluster, 1}, out),
               CUDA_ERROR_INVALID_CLUSTER_SIZE);
  }
  REQUIRE_OK(driver(cuFuncSetAttribute)(free_size,
                                        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  CHECK_CODE(launch_cluster(free_size, {16, 1}, 32, {16, 1}, out), CUDA_SUCCESS);
  CHECK_CODE(launch_cluster(free_size, {32, 1}, 32, {32, 1}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);

  REQUIRE_OK(launch(pairs, 4, 32, nullptr, out));
  CHECK(host_copy<int>(out, 4) == std::vector<int>{20, 21, 20, 21});
  CHECK_CODE(launch(pairs, 3, 32, nullptr, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_CODE(launch_cluster(pairs, {4, 1}, 32, {4, 1}, out), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CHECK_CODE(launch_cluster(pairs, {4, 1}, 32, {2, 1}, out), CUDA_SUCCESS);
  CHECK(attribute_of(pairs, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) == 1);
  CHECK(attribute_of(pairs, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 2);
  CHECK(attribute_of(free_size, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) == 0);
  CHECK_CODE(driver(cuFuncSetAttribute)(pairs, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4),
             CUDA_ERROR_INVALID_VALUE);
  int most = 0;
  const CUlaunchConfig config{16, 1, 1, 128, 1, 1, 0, nullptr, nullptr, 0};
  REQUIRE_OK(driver(cuOccupancyMaxPotentialClusterSize)(&most, pairs, &config));
  CHECK(most == 8);
  REQUIRE_OK(driver(cuOccupancyMaxPotentialClusterSize)(&most, free_size, &config));
  CHECK(most == 16);
  REQUIRE_OK(driver(cuCtxSynchronize)());
}

TEST_CASE("a function may be given a cluster by its attributes") {
  test_context context;
  hopper_module module;
  const CUfunction neighbours = module.function("neighbours");
  const CUdeviceptr out = device_array<int>(std::vector<int>(64));
  REQUIRE_OK(driver(cuFuncSetAttribute)(neighbours, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 2));
  REQUIRE_OK(driver(cuFuncSetAttribute)(neighbours, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, 1));
  REQUIRE_OK(driver(cuFuncSetAttribute)(neighbours, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, 1));
  REQUIRE_OK(launch(neighbours, 4, 32, nullptr, out));
  CHECK(host_copy<int>(out, 4) == std::vector<int>{101, 64000, 2, 200});
}

TEST_CASE("an endless recursion and a call to nowhere break the context as on hardware") {
  for (const bool deep : {true, false}) {
    test_context context;
    hopper_module module;
    const CUdeviceptr out = device_array<int>({0});
    if (deep) {
      REQUIRE_OK(launch(module.function("overflow"), 1, 1, nullptr, out));
    } else {
      REQUIRE_OK(launch(module.function("call"), 1, 1, nullptr, CUdeviceptr{8}, out));
    }
    CHECK_CODE(driver(cuCtxSynchronize)(),
               deep ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_INVALID_PC);
  }
}
