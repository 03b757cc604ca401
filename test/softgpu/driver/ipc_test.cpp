// SPDX-License-Identifier: Apache-2.0
// Device memory that two processes share.
#include <cstdlib>
#include <cstring>

#include "driver.hpp"

namespace {

std::string as_text(const CUipcMemHandle& handle) {
  std::string text;
  for (const char byte : handle.reserved) {
    text += static_cast<char>('a' + (static_cast<unsigned char>(byte) >> 4));
    text += static_cast<char>('a' + (static_cast<unsigned char>(byte) & 15));
  }
  return text;
}

CUipcMemHandle from_text(const char* text) {
  CUipcMemHandle handle{};
  REQUIRE(std::strlen(text) == 2 * sizeof handle.reserved);
  for (char& byte : handle.reserved) {
    byte = static_cast<char>((text[0] - 'a') << 4 | (text[1] - 'a'));
    text += 2;
  }
  return handle;
}

}  // namespace

TEST_CASE("opened memory", "[.another process]") {
  test_context context;
  test_module module;
  const char* given = std::getenv("TEST_HANDLE");
  REQUIRE(given != nullptr);
  const auto handle = from_text(given);
  CUdeviceptr memory = 0, again = 0;
  CHECK_CODE(driver(cuIpcOpenMemHandle_v2)(&memory, handle, 0), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuIpcOpenMemHandle_v2)(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  REQUIRE_OK(driver(cuIpcOpenMemHandle_v2)(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  CHECK(again == memory);
  CHECK(host_copy<int>(memory, 3) == std::vector<int>{7, 8, 9});
  REQUIRE_OK(launch(module.function("raise"), 1, 1, nullptr, memory + 4));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  CHECK_CODE(driver(cuMemFree_v2)(memory), CUDA_ERROR_INVALID_VALUE);
  REQUIRE_OK(driver(cuIpcCloseMemHandle)(memory));
  REQUIRE_OK(driver(cuIpcCloseMemHandle)(memory));
  CHECK_CODE(driver(cuIpcCloseMemHandle)(memory), CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("another process can open memory by its handle") {
  test_context context;
  device_array(std::vector<int>(100, 1));  // so that the next one does not begin at a page
  const CUdeviceptr memory = device_array<int>({7, 8, 9});
  CUipcMemHandle handle{};
  REQUIRE_OK(driver(cuIpcGetMemHandle)(&handle, memory));
  CHECK(passes_in_another_process("opened memory", {{"TEST_HANDLE", as_text(handle)}}));
  CHECK(host_copy<int>(memory, 3) == std::vector<int>{7, 1, 9});
  CUdeviceptr own = 0;
  CHECK_CODE(driver(cuIpcOpenMemHandle_v2)(&own, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
             CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CODE(
      driver(cuIpcOpenMemHandle_v2)(&own, CUipcMemHandle{}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
      CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuIpcGetMemHandle)(&handle, 12345), CUDA_ERROR_INVALID_VALUE);
}
