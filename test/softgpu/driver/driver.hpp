// SPDX-License-Identifier: Apache-2.0
// The driver under test, loaded as the daemon loads it. driver(f) is the function f of the library.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>

#include <cstddef>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "test/catch.hpp"

void* driver_symbol(const char* name);  // throws when it is not exported
void* driver_symbol_or_null(const char* name);

// Looked up once per place of use.
#define driver(function)                                                                        \
  (*[] {                                                                                        \
    static auto* const found = reinterpret_cast<decltype(&function)>(driver_symbol(#function)); \
    return found;                                                                               \
  }())

// The requirement names the code, so that a failure says more than "1 == 0".
#define CHECK_CODE(expression, code) CHECK(static_cast<int>(expression) == static_cast<int>(code))
#define REQUIRE_CODE(expression, code) \
  REQUIRE(static_cast<int>(expression) == static_cast<int>(code))
#define REQUIRE_OK(expression) REQUIRE_CODE(expression, CUDA_SUCCESS)

std::string image_path(const std::string& name);
std::vector<char> read_image_bytes(const std::string& name);

// A current context of device 0 for one test; destroyed at its end, whatever state it is in.
class test_context {
 public:
  explicit test_context(CUdevice device = 0);
  ~test_context();
  test_context(const test_context&) = delete;
  test_context& operator=(const test_context&) = delete;
  CUcontext handle = nullptr;
};

// The test kernels as a module of the current context.
class test_module {
 public:
  explicit test_module(const char* image = "kernels_default.fatbin");
  CUfunction function(const char* name) const;
  CUmodule handle = nullptr;
};

template <typename... Arguments>
CUresult launch(CUfunction function, unsigned grid, unsigned block, CUstream stream,
                Arguments... arguments) {
  void* pointers[sizeof...(arguments) + 1] = {&arguments..., nullptr};
  return driver(cuLaunchKernel)(function, grid, 1, 1, block, 1, 1, 0, stream, pointers, nullptr);
}

template <typename Value>
CUdeviceptr device_array(const std::vector<Value>& values) {
  CUdeviceptr address = 0;
  REQUIRE_OK(driver(cuMemAlloc_v2)(&address, values.size() * sizeof(Value)));
  REQUIRE_OK(driver(cuMemcpyHtoD_v2)(address, values.data(), values.size() * sizeof(Value)));
  return address;
}

template <typename Value>
std::vector<Value> host_copy(CUdeviceptr address, std::size_t count) {
  std::vector<Value> values(count);
  REQUIRE_OK(driver(cuMemcpyDtoH_v2)(values.data(), address, count * sizeof(Value)));
  return values;
}

// Runs the hidden test case `name` of this program in another process, with `variables` set in its
// environment. Returns whether it passed.
bool passes_in_another_process(const std::string& name,
                               const std::vector<std::pair<std::string, std::string>>& variables);
