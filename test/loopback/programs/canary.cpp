// SPDX-License-Identifier: Apache-2.0
// Every subset of NULL optional out-parameters, followed by a call whose answer is known: a reply that is encoded for the
// wrong subset would shift what comes after it.
#include <cstring>
#include <functional>

#include "test/loopback/programs/common.hpp"

static size_t total_memory = 0;

static void canary(const char* after, unsigned subset) {
  size_t available = 0, total = 0;
  CUresult result = cuMemGetInfo(&available, &total);
  if (result == CUDA_SUCCESS && total == total_memory && available <= total) return;
  std::printf("after %s with subset %u: %s, total %zu instead of %zu\n", after, subset, name_of(result), total, total_memory);
  std::exit(1);
}

// call(given): bit i says whether optional parameter i is given. Any code is fine but not for the full set.
static void subsets(const char* name, int parameters, const std::function<CUresult(const bool*)>& call) {
  for (unsigned subset = 0; subset < 1u << parameters; ++subset) {
    bool given[8] = {};
    for (int i = 0; i < parameters; ++i) given[i] = (subset >> i) & 1;
    CUresult result = call(given);
    if (subset == (1u << parameters) - 1 && result != CUDA_SUCCESS) stop(name, result, __LINE__);
    canary(name, subset);
  }
}

#define OPTIONAL(index, variable) (given[index] ? &(variable) : nullptr)

static void memory_and_modules(const gpu& g, CUdeviceptr place) {
  subsets("cuMemGetInfo", 2, [](const bool* given) {
    size_t available, total;
    return cuMemGetInfo(OPTIONAL(0, available), OPTIONAL(1, total));
  });
  subsets("cuMemGetAddressRange", 2, [&](const bool* given) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    CUresult result = cuMemGetAddressRange(OPTIONAL(0, base), OPTIONAL(1, bytes), place + 4);
    if (result == CUDA_SUCCESS && given[0]) REQUIRE(base == place);
    if (result == CUDA_SUCCESS && given[1]) REQUIRE(bytes == 64);
    return result;
  });
  subsets("cuFuncGetParamInfo", 2, [&](const bool* given) {
    size_t offset = 0, bytes = 0;
    CUresult result = cuFuncGetParamInfo(g.store, 1, OPTIONAL(0, offset), OPTIONAL(1, bytes));
    if (result == CUDA_SUCCESS && given[0]) REQUIRE(offset == 8);
    if (result == CUDA_SUCCESS && given[1]) REQUIRE(bytes == 4);
    return result;
  });
  static const char with_global[] =
      ".version 7.0\n.target sm_52\n.address_size 64\n.visible .global .align 4 .b8 table[40];\n";
  CUmodule module;
  CHECK(cuModuleLoadData(&module, with_global));
  subsets("cuModuleGetGlobal", 2, [&](const bool* given) {
    CUdeviceptr address = 0;
    size_t bytes = 0;
    CUresult result = cuModuleGetGlobal(OPTIONAL(0, address), OPTIONAL(1, bytes), module, "table");
    if (result == CUDA_SUCCESS && given[0]) REQUIRE(address != 0);
    if (result == CUDA_SUCCESS && given[1]) REQUIRE(bytes == 40);
    return result;
  });
  CHECK(cuModuleUnload(module));
}

static void contexts_and_streams(const gpu& g) {
  subsets("cuCtxGetStreamPriorityRange", 2, [](const bool* given) {
    int least, greatest;
    return cuCtxGetStreamPriorityRange(OPTIONAL(0, least), OPTIONAL(1, greatest));
  });
  subsets("cuDevicePrimaryCtxGetState", 2, [&](const bool* given) {
    unsigned flags;
    int active = 0;
    CUresult result = cuDevicePrimaryCtxGetState(g.device, OPTIONAL(0, flags), OPTIONAL(1, active));
    if (result == CUDA_SUCCESS && given[1]) REQUIRE(active == 1);
    return result;
  });
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  subsets("cuStreamGetFlags", 1, [&](const bool* given) {
    unsigned flags;
    return cuStreamGetFlags(stream, OPTIONAL(0, flags));
  });
  subsets("cuStreamGetPriority", 1, [&](const bool* given) {
    int priority;
    return cuStreamGetPriority(stream, OPTIONAL(0, priority));
  });
  subsets("cuStreamGetCtx", 1, [&](const bool* given) {
    CUcontext context = nullptr;
    CUresult result = cuStreamGetCtx(stream, OPTIONAL(0, context));
    if (result == CUDA_SUCCESS) REQUIRE(context == g.context);
    return result;
  });
  CUevent begin, end;
  CHECK(cuEventCreate(&begin, CU_EVENT_DEFAULT));
  CHECK(cuEventCreate(&end, CU_EVENT_DEFAULT));
  CHECK(cuEventRecord(begin, stream));
  CHECK(cuEventRecord(end, stream));
  CHECK(cuStreamSynchronize(stream));
  subsets("cuEventElapsedTime", 1, [&](const bool* given) {
    float elapsed_ms;
    return cuEventElapsedTime(OPTIONAL(0, elapsed_ms), begin, end);
  });
  CHECK(cuEventDestroy(begin));
  CHECK(cuEventDestroy(end));
  CHECK(cuStreamDestroy(stream));
}

static void creations(const gpu& g) {
  subsets("cuMemAlloc", 1, [](const bool* given) {
    CUdeviceptr place = 0;
    CUresult result = cuMemAlloc(OPTIONAL(0, place), 256);
    if (place != 0) CHECK(cuMemFree(place));
    return result;
  });
  subsets("cuStreamCreate", 1, [](const bool* given) {
    CUstream stream = nullptr;
    CUresult result = cuStreamCreate(OPTIONAL(0, stream), CU_STREAM_DEFAULT);
    if (stream != nullptr) CHECK(cuStreamDestroy(stream));
    return result;
  });
  subsets("cuEventCreate", 1, [](const bool* given) {
    CUevent event = nullptr;
    CUresult result = cuEventCreate(OPTIONAL(0, event), CU_EVENT_DEFAULT);
    if (event != nullptr) CHECK(cuEventDestroy(event));
    return result;
  });
  subsets("cuModuleGetFunction", 1, [&](const bool* given) {
    CUfunction function = nullptr;
    return cuModuleGetFunction(OPTIONAL(0, function), g.module, "busy");
  });
  subsets("cuFuncGetAttribute", 1, [&](const bool* given) {
    int value;
    return cuFuncGetAttribute(OPTIONAL(0, value), CU_FUNC_ATTRIBUTE_NUM_REGS, g.store);
  });
  subsets("cuDeviceGetUuid", 1, [&](const bool* given) {
    CUuuid uuid;
    return cuDeviceGetUuid_v2(OPTIONAL(0, uuid), g.device);
  });
}

int main() {
  gpu g;
  size_t available;
  CHECK(cuMemGetInfo(&available, &total_memory));
  REQUIRE(total_memory > 0);
  CUdeviceptr place;
  CHECK(cuMemAlloc(&place, 64));
  memory_and_modules(g, place);
  contexts_and_streams(g);
  creations(g);
  CHECK(cuMemFree(place));
  std::printf("PASSED\n");
}
