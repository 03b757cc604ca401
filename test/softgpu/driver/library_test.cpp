// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "driver.hpp"

namespace {

CUlibrary load_library() {
  REQUIRE_OK(driver(cuInit)(0));
  static const auto image = read_image_bytes("kernels_default.fatbin");
  CUlibrary library = nullptr;
  CUlibraryOption option = CU_LIBRARY_BINARY_IS_PRESERVED;
  void* value = reinterpret_cast<void*>(1);
  REQUIRE_OK(
      driver(cuLibraryLoadData)(&library, image.data(), nullptr, nullptr, 0, &option, &value, 1));
  return library;
}

}  // namespace

TEST_CASE("a kernel handle is valid wherever a function is wanted") {
  const CUlibrary library = load_library();
  test_context context;
  CUkernel kernel = nullptr;
  REQUIRE_OK(driver(cuLibraryGetKernel)(&kernel, library, "add"));
  const auto function = reinterpret_cast<CUfunction>(kernel);
  const CUdeviceptr a = device_array<float>({1, 2}), b = device_array<float>({3, 4}),
                    c = device_array<float>({0, 0});
  REQUIRE_OK(launch(function, 1, 2, nullptr, a, b, c, 2));
  CHECK(host_copy<float>(c, 2) == std::vector<float>{4, 6});
  int blocks = 0, threads = 0;
  REQUIRE_OK(driver(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, function, 128, 0));
  CHECK(blocks > 0);
  REQUIRE_OK(
      driver(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  CHECK(threads == 1024);
  CUmodule module = nullptr, same = nullptr;
  REQUIRE_OK(driver(cuFuncGetModule)(&module, function));
  REQUIRE_OK(driver(cuLibraryGetModule)(&same, library));
  CHECK(module == same);
  REQUIRE_OK(driver(cuLibraryUnload)(library));
  CHECK_CODE(launch(function, 1, 2, nullptr, a, b, c, 2), CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(driver(cuLibraryUnload)(library), CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a library lists its kernels with names without a context, with parameters in one") {
  const CUlibrary library = load_library();
  unsigned count = 0;
  REQUIRE_OK(driver(cuLibraryGetKernelCount)(&count, library));
  REQUIRE(count >= 15);
  std::vector<CUkernel> kernels(count);
  REQUIRE_OK(driver(cuLibraryEnumerateKernels)(kernels.data(), count, library));
  std::set<std::string> names;
  for (CUkernel kernel : kernels) {
    const char* name = nullptr;
    CUlibrary owner = nullptr;
    REQUIRE_OK(driver(cuKernelGetName)(&name, kernel));
    REQUIRE_OK(driver(cuKernelGetLibrary)(&owner, kernel));
    CHECK(owner == library);
    names.insert(name);
  }
  CHECK(names.count("add") == 1);
  CHECK(names.size() == count);
  CUkernel add = nullptr;
  REQUIRE_OK(driver(cuLibraryGetKernel)(&add, library, "add"));
  size_t offset = 1, bytes = 0;
  CHECK_CODE(driver(cuKernelGetParamInfo)(add, 3, &offset, &bytes), CUDA_ERROR_INVALID_CONTEXT);
  test_context context;
  REQUIRE_OK(driver(cuKernelGetParamInfo)(add, 3, &offset, &bytes));
  CHECK(offset == 24);
  CHECK(bytes == 4);
  CHECK_CODE(driver(cuKernelGetParamInfo)(add, 4, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuLibraryGetKernel)(&add, library, "missing"), CUDA_ERROR_NOT_FOUND);
  REQUIRE_OK(driver(cuLibraryUnload)(library));
}

TEST_CASE("each context has its own variables of a library") {
  const CUlibrary library = load_library();
  test_context first;
  CUdeviceptr in_first = 0, in_second = 0;
  size_t bytes = 0;
  REQUIRE_OK(driver(cuLibraryGetGlobal)(&in_first, &bytes, library, "counter"));
  REQUIRE_OK(driver(cuMemsetD32_v2)(in_first, 100, 1));
  {
    test_context second;
    REQUIRE_OK(driver(cuLibraryGetGlobal)(&in_second, &bytes, library, "counter"));
    CHECK(in_first != in_second);
    CHECK(host_copy<int>(in_second, 1)[0] == 5);
  }
  CHECK(host_copy<int>(in_first, 1)[0] == 100);
  CHECK_CODE(driver(cuLibraryGetGlobal)(&in_first, &bytes, library, "missing"),
             CUDA_ERROR_NOT_FOUND);
  CHECK_CODE(driver(cuLibraryGetManaged)(&in_first, &bytes, library, "counter"),
             CUDA_ERROR_NOT_FOUND);
  REQUIRE_OK(driver(cuLibraryUnload)(library));
}

TEST_CASE("attributes set on a kernel hold for its function on that device") {
  const CUlibrary library = load_library();
  test_context context;
  CUkernel kernel = nullptr;
  CUfunction function = nullptr;
  REQUIRE_OK(driver(cuLibraryGetKernel)(&kernel, library, "sum_shared"));
  REQUIRE_OK(driver(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 90000,
                                          kernel, 0));
  REQUIRE_OK(driver(cuKernelGetFunction)(&function, kernel));
  int value = 0;
  REQUIRE_OK(driver(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        function));
  CHECK(value == 90000);
  REQUIRE_OK(driver(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                          kernel, 1));
  CHECK(value == 48 * 1024);
  CHECK_CODE(driver(cuKernelGetAttribute)(&value, static_cast<CUfunction_attribute>(99), kernel, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_NUM_REGS, 1, kernel, 0),
             CUDA_ERROR_INVALID_VALUE);
  CHECK_CODE(driver(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, 0),
             CUDA_ERROR_INVALID_HANDLE);
  CHECK_CODE(driver(cuKernelGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 9),
             CUDA_ERROR_INVALID_DEVICE);
  CUfunctionLoadingState state{};
  REQUIRE_OK(driver(cuFuncIsLoaded)(&state, function));
  CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
  REQUIRE_OK(driver(cuLibraryUnload)(library));
}
