// SPDX-License-Identifier: Apache-2.0
// Inputs of links that come as files of other programs: whatever is in them, a link refuses or
// takes them.
#include <cstring>
#include <string>

#include "driver.hpp"

namespace {

CUresult add(CUlinkState link, CUjitInputType type, const std::string& bytes) {
  return driver(cuLinkAddData_v2)(link, type, const_cast<char*>(bytes.data()), bytes.size(),
                                  "input", 0, nullptr, nullptr);
}

CUlinkState new_link() {
  CUlinkState link = nullptr;
  REQUIRE_OK(driver(cuLinkCreate_v2)(0, nullptr, nullptr, &link));
  return link;
}

std::string member(const std::string& content) {
  std::string header(60, ' ');
  header.replace(0, 6, "part.o");
  const auto size = std::to_string(content.size());
  header.replace(48, size.size(), size);
  return header + content + (content.size() % 2 != 0 ? "\n" : "");
}

}  // namespace

TEST_CASE("a fat binary is linked like the text in it") {
  REQUIRE_OK(driver(cuInit)(0));
  test_context context;
  const auto fatbin = read_image_bytes("kernels_default.fatbin");
  const CUlinkState link = new_link();
  REQUIRE_OK(add(link, CU_JIT_INPUT_FATBINARY,
                 std::string(reinterpret_cast<const char*>(fatbin.data()), fatbin.size())));
  void* image = nullptr;
  size_t bytes = 0;
  REQUIRE_OK(driver(cuLinkComplete)(link, &image, &bytes));
  CUmodule module = nullptr;
  REQUIRE_OK(driver(cuModuleLoadData)(&module, image));
  REQUIRE_OK(driver(cuLinkDestroy)(link));
  CUfunction function = nullptr;
  CHECK(driver(cuModuleGetFunction)(&function, module, "add") == CUDA_SUCCESS);
}

TEST_CASE("objects and archives that are damaged are refused at every length") {
  REQUIRE_OK(driver(cuInit)(0));
  test_context context;
  const CUlinkState link = new_link();
  CHECK_CODE(add(link, CU_JIT_INPUT_OBJECT, "no object"), CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(add(link, CU_JIT_INPUT_LIBRARY, "no archive"), CUDA_ERROR_INVALID_IMAGE);
  std::string object(4096, '\0');
  std::memcpy(object.data(), "\177ELF\2", 5);
  object[58] = 64;                           // e_shentsize
  object[60] = 3;                            // e_shnum
  std::memset(object.data() + 40, 0xff, 8);  // e_shoff beyond everything
  CHECK_CODE(add(link, CU_JIT_INPUT_OBJECT, object), CUDA_ERROR_INVALID_IMAGE);
  std::memset(object.data() + 40, 0, 8);
  object[40] = 64;
  for (const std::size_t length : {5u, 63u, 64u, 100u, 200u, 4096u})
    CHECK(add(link, CU_JIT_INPUT_OBJECT, object.substr(0, length)) != CUDA_SUCCESS);
  const std::string archive = "!<arch>\n" + member("not even an object") + member(object);
  CHECK_CODE(add(link, CU_JIT_INPUT_LIBRARY, archive),
             CUDA_SUCCESS);  // nothing of it can be needed
  CHECK_CODE(add(link, CU_JIT_INPUT_LIBRARY, archive.substr(0, archive.size() - 10)),
             CUDA_ERROR_INVALID_IMAGE);
  CHECK_CODE(add(link, CU_JIT_INPUT_CUBIN, object), CUDA_ERROR_NO_BINARY_FOR_GPU);
  void* image = nullptr;
  CHECK(driver(cuLinkComplete)(link, &image, nullptr) != CUDA_SUCCESS);
  REQUIRE_OK(driver(cuLinkDestroy)(link));
}
