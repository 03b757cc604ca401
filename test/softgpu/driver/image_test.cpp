// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "driver.hpp"

namespace {

struct wrapper {
  unsigned magic = 0x466243B1;
  unsigned version = 1;
  const void* data = nullptr;
  const void* filename_or_fatbins = nullptr;
};

// What a program finds in every loadable form of the test kernels.
void check_works(CUmodule module) {
  CUfunction function = nullptr;
  REQUIRE_OK(driver(cuModuleGetFunction)(&function, module, "add"));
  const CUdeviceptr a = device_array<float>({1, 2, 3}), b = device_array<float>({10, 20, 30});
  const CUdeviceptr c = device_array<float>({0, 0, 0});
  REQUIRE_OK(launch(function, 1, 32, nullptr, a, b, c, 3));
  CHECK(host_copy<float>(c, 3) == std::vector<float>{11, 22, 33});
}

// With a log buffer, so that the many refusals of these tests are not printed.
CUresult load(const void* image) {
  CUmodule module = nullptr;
  char log[64];
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  const CUresult result = driver(cuModuleLoadDataEx)(&module, image, 2, options, values);
  if (result == CUDA_SUCCESS) REQUIRE_OK(driver(cuModuleUnload)(module));
  return result;
}

}  // namespace

TEST_CASE("every form in which nvcc embeds PTX loads and runs") {
  test_context context;
  for (const char* name : {"kernels_default.fatbin", "kernels_lz4.fatbin", "kernels_size.fatbin",
                           "kernels_plain.fatbin", "kernels_two.fatbin", "kernels.ptx"}) {
    INFO(name);
    CUmodule module = nullptr;
    REQUIRE_OK(driver(cuModuleLoad)(&module, image_path(name).c_str()));
    check_works(module);
    REQUIRE_OK(driver(cuModuleUnload)(module));

    auto bytes = read_image_bytes(name);
    bytes.push_back('\0');
    REQUIRE_OK(driver(cuModuleLoadData)(&module, bytes.data()));
    check_works(module);
    if (std::string(name).find(".fatbin") == std::string::npos) continue;
    wrapper outer;
    outer.data = bytes.data();
    REQUIRE_OK(driver(cuModuleLoadFatBinary)(&module, &outer));
    check_works(module);
  }
}

TEST_CASE("the linked fat binaries of -rdc=true become one program") {
  test_context context;
  const auto caller = read_image_bytes("linked_caller.fatbin");
  const auto callee = read_image_bytes("linked_callee.fatbin");
  const void* fatbins[] = {caller.data(), callee.data(), nullptr};
  const auto machine = read_image_bytes("kernels_machine.fatbin");
  wrapper outer;
  outer.version = 2;
  outer.data = machine.data();
  outer.filename_or_fatbins = fatbins;
  CUmodule module = nullptr;
  REQUIRE_OK(driver(cuModuleLoadData)(&module, &outer));
  CUfunction function = nullptr;
  REQUIRE_OK(driver(cuModuleGetFunction)(&function, module, "call_other"));
  const CUdeviceptr out = device_array<int>({0});
  REQUIRE_OK(launch(function, 1, 1, nullptr, out, 21));
  CHECK(host_copy<int>(out, 1)[0] == 82);
  REQUIRE_OK(launch(function, 1, 1, nullptr, out, 21));
  CHECK(host_copy<int>(out, 1)[0] == 83);

  fatbins[1] = nullptr;
  CHECK_CODE(load(&outer), CUDA_ERROR_INVALID_PTX);
}

TEST_CASE("machine code and PTX that is too new are no binary for this GPU") {
  test_context context;
  for (const char* name : {"kernels.cubin", "kernels_machine.fatbin", "kernels_new.fatbin"}) {
    INFO(name);
    CHECK_CODE(load(read_image_bytes(name).data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    CUmodule module = nullptr;
    CHECK_CODE(driver(cuModuleLoad)(&module, image_path(name).c_str()),
               CUDA_ERROR_NO_BINARY_FOR_GPU);
  }
}

TEST_CASE("what is no image is refused with the driver's code") {
  test_context context;
  CHECK_CODE(load("hello"), CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(load(""), CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(load(nullptr), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(load(reinterpret_cast<const void*>(0x1000)), CUDA_ERROR_INVALID_IMAGE);
  CUmodule module = nullptr;
  CHECK_CODE(driver(cuModuleLoad)(&module, "/nonexistent/file"), CUDA_ERROR_FILE_NOT_FOUND);
  CHECK_CODE(driver(cuModuleLoadData)(nullptr, "x"), CUDA_ERROR_INVALID_VALUE);
  wrapper outer;
  CHECK_CODE(load(&outer), CUDA_ERROR_INVALID_IMAGE);
  outer.version = 7;
  CHECK_CODE(load(&outer), CUDA_ERROR_INVALID_IMAGE);
}

TEST_CASE("a PTX error fills the error log and sets its size") {
  test_context context;
  const char* text =
      ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k() { bogus.instruction; }\n";
  char log[256] = "untouched";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
  CUmodule module = nullptr;
  CHECK_CODE(driver(cuModuleLoadDataEx)(&module, text, 2, options, values), CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log).find("line 4") != std::string::npos);
  CHECK(reinterpret_cast<std::size_t>(values[1]) == std::strlen(log));

  char small[8];
  values[0] = small;
  values[1] = reinterpret_cast<void*>(sizeof small);
  CHECK_CODE(driver(cuModuleLoadDataEx)(&module, text, 2, options, values), CUDA_ERROR_INVALID_PTX);
  CHECK(std::strlen(small) == sizeof small - 1);

  CHECK_CODE(load(".version 99.0\n.target sm_75\n.address_size 64\n"),
             CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  options[0] = static_cast<CUjit_option>(1000);
  CHECK_CODE(driver(cuModuleLoadDataEx)(&module, text, 1, options, values),
             CUDA_ERROR_INVALID_VALUE);
}

// Goal: no damaged image makes the driver read outside it. Method: the image ends at an
// inaccessible page; it is cut at many places and its bytes are changed at random (fixed seed),
// headers more often than the payload.
TEST_CASE("damaged fat binaries are refused and never crash") {
  test_context context;
  for (const char* name :
       {"kernels_default.fatbin", "kernels_lz4.fatbin", "kernels_plain.fatbin"}) {
    INFO(name);
    const auto good = read_image_bytes(name);
    const std::size_t pages = (good.size() + 4095) / 4096 * 4096;
    auto* area = static_cast<char*>(
        mmap(nullptr, pages + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(area != MAP_FAILED);
    REQUIRE(mprotect(area + pages, 4096, PROT_NONE) == 0);

    for (std::size_t cut = 0; cut < good.size(); cut += cut < 256 ? 7 : good.size() / 5) {
      char* start = area + pages - cut;
      std::memcpy(start, good.data(), cut);
      CHECK_CODE(load(start), CUDA_ERROR_INVALID_IMAGE);
    }
    std::mt19937 random(7);
    char* start = area + pages - good.size();
    for (int round = 0; round < 300; ++round) {
      std::memcpy(start, good.data(), good.size());
      for (int change = 0; change < 4; ++change) {
        const std::size_t range = round % 4 != 0 ? 160 : good.size();
        start[random() % range] = static_cast<char>(random());
      }
      const CUresult result = load(start);
      CHECK((result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_IMAGE ||
             result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
             result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
    }
    munmap(area, pages + 4096);
  }
}
