// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include "driver.hpp"

namespace {

// In a fresh process of its own: the code that `body` returns there.
template <typename Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("the soft GPU is told apart from a real driver by its marker") {
  auto* const* marker =
      static_cast<const char* const*>(driver_symbol_or_null("gpuwire_softcuda_v1"));
  REQUIRE(marker != nullptr);
  CHECK(std::string(*marker).find("gpuwire") != std::string::npos);
  CHECK(driver_symbol_or_null("gpuwire_instance_v1") == nullptr);
}

TEST_CASE("what does not exist here is not exported") {
  for (const char* name : {"cuGraphicsMapResources", "cuImportExternalMemory", "cuEGLApiInit",
                           "cuMemAlloc", "cuTensorMapEncodeTiled"}) {
    INFO(name);
    CHECK(driver_symbol_or_null(name) == nullptr);
  }
}

TEST_CASE("cuInit refuses flags, and its repetition changes nothing") {
  CHECK_CODE(driver(cuInit)(1), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuInit)(0));
  REQUIRE_OK(driver(cuInit)(0));
  int version = 0;
  REQUIRE_OK(driver(cuDriverGetVersion)(&version));
  CHECK(version == 13000);
}

TEST_CASE("the child of an initialised process is told that the driver is not initialised") {
  REQUIRE_OK(driver(cuInit)(0));
  CHECK(in_child([] {
          int count = 0;
          return static_cast<int>(driver(cuDeviceGetCount)(&count));
        }) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(in_child([] { return static_cast<int>(driver(cuInit)(0)); }) == CUDA_ERROR_NOT_INITIALIZED);
  int count = 0;
  CHECK_CODE(driver(cuDeviceGetCount)(&count), CUDA_SUCCESS);
}

TEST_CASE("error names and texts are the driver's") {
  const char* text = nullptr;
  REQUIRE_OK(driver(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  REQUIRE_OK(driver(cuGetErrorString)(CUDA_SUCCESS, &text));
  CHECK(std::string(text) == "no error");
  CHECK_CODE(driver(cuGetErrorString)(static_cast<CUresult>(998), &text), CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
  CHECK_CODE(driver(cuGetErrorName)(CUDA_SUCCESS, nullptr), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("cuGetProcAddress finds revisions by version and no other names") {
  REQUIRE_OK(driver(cuInit)(0));
  const auto get = [](const char* name, int version) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status{};
    REQUIRE_OK(driver(cuGetProcAddress_v2)(name, &found, version, 0, &status));
    CHECK((status == CU_GET_PROC_ADDRESS_SUCCESS) == (found != nullptr));
    return found;
  };
  CHECK(get("cuMemAlloc", 12000) == driver_symbol("cuMemAlloc_v2"));
  CHECK(get("cuCtxSynchronize", 12000) == driver_symbol("cuCtxSynchronize"));
  CHECK(get("cuCtxSynchronize", 13000) == driver_symbol("cuCtxSynchronize_v2"));
  CHECK(get("cuCtxCreate", 11040) == driver_symbol("cuCtxCreate_v3"));
  CHECK(get("cuCtxCreate", 13000) == driver_symbol("cuCtxCreate_v4"));
  CHECK(get("cuInit", 12000) == driver_symbol("cuInit"));
  for (const char* unknown :
       {"cuDefinitelyNotReal", "", "cuMemAlloc_v2", "cudaMalloc", "malloc", "cuD3D11GetDevice"}) {
    INFO(unknown);
    CHECK(get(unknown, 12000) == nullptr);
  }
  void* found = nullptr;
  CHECK_CODE(driver(cuGetProcAddress_v2)("cuInit", &found, 14000, 0, nullptr),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuGetProcAddress)("cuDefinitelyNotReal", &found, 12000, 0),
             CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("the variants for per-thread default streams take stream 0 as the thread's own") {
  test_context context;
  test_module module;
  const auto get = [](const char* name, int version = 13000) {
    void* found = nullptr;
    REQUIRE_OK(driver(cuGetProcAddress_v2)(name, &found, version,
                                           CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, nullptr));
    REQUIRE(found != nullptr);
    return found;
  };
  CHECK(get("cuInit") == driver_symbol("cuInit"));
  CHECK(get("cuLaunchKernel") != driver_symbol("cuLaunchKernel"));
  const auto id_of = reinterpret_cast<decltype(&cuStreamGetId)>(get("cuStreamGetId"));
  unsigned long long own = 0, legacy = 0, by_handle = 0;
  REQUIRE_OK(id_of(nullptr, &own));
  REQUIRE_OK(driver(cuStreamGetId)(nullptr, &legacy));
  REQUIRE_OK(driver(cuStreamGetId)(CU_STREAM_PER_THREAD, &by_handle));
  CHECK(own != legacy);
  CHECK(own == by_handle);
  REQUIRE_OK(id_of(CU_STREAM_LEGACY, &own));
  CHECK(own == legacy);

  // A capture can begin there, and takes in what the variants are given.
  const auto begin =
      reinterpret_cast<decltype(&cuStreamBeginCapture_v2)>(get("cuStreamBeginCapture"));
  const auto start = reinterpret_cast<decltype(&cuLaunchKernel)>(get("cuLaunchKernel"));
  const auto end = reinterpret_cast<decltype(&cuStreamEndCapture)>(get("cuStreamEndCapture"));
  REQUIRE_OK(begin(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL));
  REQUIRE_OK(start(module.function("nothing"), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  CUgraph graph = nullptr;
  REQUIRE_OK(end(nullptr, &graph));
  size_t count = 0;
  REQUIRE_OK(driver(cuGraphGetNodes)(graph, nullptr, &count));
  CHECK(count == 1);
  const auto copy = reinterpret_cast<decltype(&cuMemcpyHtoD_v2)>(get("cuMemcpyHtoD"));
  const CUdeviceptr memory = device_array<int>({0});
  const int value = 5;
  REQUIRE_OK(copy(memory, &value, sizeof value));
  CHECK(host_copy<int>(memory, 1)[0] == 5);
}
