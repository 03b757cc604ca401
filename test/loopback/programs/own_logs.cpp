// SPDX-License-Identifier: Apache-2.0
// What the driver keeps for the program that made the calls: logs of failed calls, core dump settings, checkpoints,
// notifications; and the questions that have an answer on every device.
#include <unistd.h>

#include <cstring>
#include <string>

#include "test/loopback/programs/common.hpp"

struct seen {
  int count = 0;
  std::string last;
};

static void remember(void* data, CUlogLevel level, char* message, size_t length) {
  auto* s = static_cast<seen*>(data);
  if (level == CU_LOG_LEVEL_ERROR) ++s->count;
  s->last.assign(message, length);
}

static void logs() {
  seen s;
  CUlogsCallbackHandle handle = nullptr;
  CUlogIterator before = 0, after = 0;
  CHECK(cuLogsRegisterCallback(remember, &s, &handle));
  CHECK(cuLogsCurrent(&before, 0));
  CUdevice device;
  EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 12'345));
  CHECK(cuLogsCurrent(&after, 0));
  REQUIRE(after != before && s.count >= 1);
  char text[4'096];
  size_t size = sizeof text;
  CUlogIterator from = before;
  CHECK(cuLogsDumpToMemory(&from, text, &size, 0));
  REQUIRE(size == std::strlen(text) && from == after);
  REQUIRE(std::strstr(text, "cuDeviceGet") != nullptr);
  size = sizeof text;
  CHECK(cuLogsDumpToMemory(&from, text, &size, 0));
  REQUIRE(size == 0);
  CHECK(cuLogsUnregisterCallback(handle));
  const int told = s.count;
  EXPECT_RESULT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 12'345));
  REQUIRE(s.count == told);
  char path[] = "/tmp/gpuwire-logs-XXXXXX";
  const int descriptor = mkstemp(path);
  REQUIRE(descriptor >= 0);
  from = before;
  CHECK(cuLogsDumpToFile(&from, path, 0));
  const auto bytes = read(descriptor, text, sizeof text - 1);
  REQUIRE(bytes > 0);
  text[bytes] = 0;
  REQUIRE(std::strstr(text, "cuDeviceGet") != nullptr);
  close(descriptor);
  std::remove(path);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLogsCurrent(nullptr, 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuLogsRegisterCallback(nullptr, nullptr, nullptr));
  std::printf("logs of failed calls\n");
}

static void core_dumps() {
  bool enabled = true;
  size_t size = sizeof enabled;
  CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, &enabled, &size));
  REQUIRE(!enabled);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuCoredumpGetAttributeGlobal(CU_COREDUMP_MAX, &enabled, &size));
  std::printf("core dumps are off\n");
}

static void never(CUasyncNotificationInfo*, void*, CUasyncCallbackHandle) { std::abort(); }

static void notifications(CUdevice device) {
  CUasyncCallbackHandle handle = nullptr;
  CHECK(cuDeviceRegisterAsyncNotification(device, never, nullptr, &handle));
  REQUIRE(handle != nullptr);
  CHECK(cuDeviceUnregisterAsyncNotification(device, handle));
  std::printf("a notification was registered and taken back\n");
}

static void questions(CUdevice device) {
  size_t elements = 0;
  const CUresult width = cuDeviceGetTexture1DLinearMaxWidth(&elements, CU_AD_FORMAT_FLOAT, 1, device);
  REQUIRE(width == CUDA_ERROR_NOT_SUPPORTED || (width == CUDA_SUCCESS && elements > 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuCtxGetExecAffinity(nullptr, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  EXPECT_RESULT(CUDA_ERROR_INVALID_HANDLE, cuGraphicsUnregisterResource(reinterpret_cast<CUgraphicsResource>(std::uintptr_t{0})));
  std::printf("questions answered\n");
}

// Waits and writes in one call: the writes happen in order, behind a wait that the host satisfies.
static void batches(CUdeviceptr place) {
  CUstream first, second;
  CHECK(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
  CHECK(cuMemsetD32(place, 0, 4));
  CUstreamBatchMemOpParams list[3] = {};
  list[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  list[0].waitValue.address = place;
  list[0].waitValue.value = 5;
  list[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  list[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  list[1].writeValue.address = place + 4;
  list[1].writeValue.value = 6;
  list[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
  list[2].writeValue.address = place + 8;
  list[2].writeValue.value64 = 0x700000008ull;
  CHECK(cuStreamBatchMemOp(first, 3, list, 0));
  EXPECT_RESULT(CUDA_ERROR_NOT_READY, cuStreamQuery(first));
  CHECK(cuStreamWriteValue32(second, place, 5, 0));
  CHECK(cuStreamSynchronize(first));
  unsigned values[4] = {};
  CHECK(cuMemcpyDtoH(values, place, sizeof values));
  REQUIRE(values[0] == 5 && values[1] == 6 && values[2] == 8 && values[3] == 7);
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(first, 0, list, 0));
  EXPECT_RESULT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(first, 1, nullptr, 0));
  CHECK(cuStreamDestroy(first));
  CHECK(cuStreamDestroy(second));
  std::printf("batches of waits and writes\n");
}

int main() {
  gpu g;
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 4096));
  logs();
  core_dumps();
  notifications(g.device);
  questions(g.device);
  batches(place);
  CHECK(cuMemFree(place));
  std::printf("PASSED\n");
}
