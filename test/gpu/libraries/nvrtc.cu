// SPDX-License-Identifier: Apache-2.0
// NVRTC and nvJitLink: a kernel compiled at run time; two sources linked, as relocatable code and by link-time optimisation.
#include <cuda.h>
#include <nvJitLink.h>
#include <nvrtc.h>

#include <string>

#include "check.hpp"

static const char* const main_source = R"(
extern "C" __device__ float twist(float value);
extern "C" __global__ void apply(float* values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = twist(values[i]) + 1.0f;
})";
static const char* const helper_source = R"(
extern "C" __device__ float twist(float value) { return value * 3.0f; })";

static std::vector<char> compiled(const char* source, std::vector<const char*> options, bool lto, bool cubin) {
  nvrtcProgram program;
  CHECK(nvrtcCreateProgram(&program, source, "source.cu", 0, nullptr, nullptr));
  const auto status = nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t bytes = 0;
  if (status != NVRTC_SUCCESS) {
    CHECK(nvrtcGetProgramLogSize(program, &bytes));
    std::vector<char> log(bytes);
    CHECK(nvrtcGetProgramLog(program, log.data()));
    std::printf("%s\n", log.data());
    CHECK(status);
  }
  std::vector<char> image;
  if (lto) {
    CHECK(nvrtcGetLTOIRSize(program, &bytes));
    image.resize(bytes);
    CHECK(nvrtcGetLTOIR(program, image.data()));
  } else if (cubin) {
    CHECK(nvrtcGetCUBINSize(program, &bytes));
    image.resize(bytes);
    CHECK(nvrtcGetCUBIN(program, image.data()));
  } else {
    CHECK(nvrtcGetPTXSize(program, &bytes));
    image.resize(bytes);
    CHECK(nvrtcGetPTX(program, image.data()));
  }
  CHECK(nvrtcDestroyProgram(&program));
  return image;
}

static void run(const char* name, const void* image) {
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, image));
  CHECK(cuModuleGetFunction(&function, module, "apply"));
  constexpr int count = 1000;
  const auto values = some_numbers(count, 1);
  device_buffer<float> data(values);
  float* address = data.get();
  int number = count;
  void* arguments[] = {&address, &number};
  CHECK(cuLaunchKernel(function, 8, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr));
  std::vector<float> wanted;
  for (float value : values) wanted.push_back(value * 3.0f + 1.0f);
  compare(name, data.read(), wanted, 1e-6);
  CHECK(cuModuleUnload(module));
}

static void linked(const char* name, nvJitLinkInputType type, std::vector<char> first, std::vector<char> second,
                   std::vector<const char*> options) {
  nvJitLinkHandle link;
  CHECK(nvJitLinkCreate(&link, static_cast<int>(options.size()), options.data()));
  CHECK(nvJitLinkAddData(link, type, first.data(), first.size(), "first"));
  CHECK(nvJitLinkAddData(link, type, second.data(), second.size(), "second"));
  const auto status = nvJitLinkComplete(link);
  if (status != NVJITLINK_SUCCESS) {
    std::size_t bytes = 0;
    CHECK(nvJitLinkGetErrorLogSize(link, &bytes));
    std::vector<char> log(bytes + 1);
    CHECK(nvJitLinkGetErrorLog(link, log.data()));
    std::printf("%s\n", log.data());
    CHECK(status);
  }
  std::size_t bytes = 0;
  CHECK(nvJitLinkGetLinkedCubinSize(link, &bytes));
  std::vector<char> cubin(bytes);
  CHECK(nvJitLinkGetLinkedCubin(link, cubin.data()));
  CHECK(nvJitLinkDestroy(&link));
  run(name, cubin.data());
}

int main() {
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaFree(nullptr));  // the primary context is current from here on
  const std::string number = std::to_string(properties.major * 10 + properties.minor);
  const std::string real = "--gpu-architecture=sm_" + number, virtual_one = "--gpu-architecture=compute_" + number,
                    link_arch = "-arch=sm_" + number;
  const std::string whole = std::string(helper_source) + main_source;
  run("PTX", compiled(whole.c_str(), {virtual_one.c_str()}, false, false).data());
  run("cubin", compiled(whole.c_str(), {real.c_str()}, false, true).data());
  const auto relocatable = [&](const char* source) { return compiled(source, {real.c_str(), "-rdc=true"}, false, true); };
  linked("linked cubins", NVJITLINK_INPUT_CUBIN, relocatable(main_source), relocatable(helper_source), {link_arch.c_str()});
  const auto intermediate = [&](const char* source) { return compiled(source, {virtual_one.c_str(), "-rdc=true", "-dlto"}, true, false); };
  linked("link-time optimisation", NVJITLINK_INPUT_LTOIR, intermediate(main_source), intermediate(helper_source), {link_arch.c_str(), "-lto"});

  // The driver's own linker.
  const auto first = compiled(main_source, {virtual_one.c_str(), "-rdc=true"}, false, false);
  const auto second = compiled(helper_source, {virtual_one.c_str(), "-rdc=true"}, false, false);
  std::vector<char> log(4096);
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
  void* option_values[] = {log.data(), reinterpret_cast<void*>(log.size())};
  CUlinkState state;
  void* cubin = nullptr;
  std::size_t bytes = 0;
  CHECK(cuLinkCreate(2, options, option_values, &state));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(first.data()), first.size(), "first", 0, nullptr, nullptr));
  CHECK(cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char*>(second.data()), second.size(), "second", 0, nullptr, nullptr));
  CHECK(cuLinkComplete(state, &cubin, &bytes));
  run("cuLink", cubin);
  CHECK(cuLinkDestroy(state));
  return verdict();
}
