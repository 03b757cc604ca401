// SPDX-License-Identifier: Apache-2.0
// Whole programs, as nvcc compiled them: programs.cu for compute capabilities 7.5 and 9.0.
#include <algorithm>
#include <numeric>

#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {
namespace {

// Each test runs once with the code for either architecture.
std::string program_text() {
  return read_golden(GENERATE("programs_sm75.ptx", "programs_sm90.ptx"));
}

struct recorded {
  const char* kernel;
  std::uint64_t hash;
};

// FNV-1a of the 8 KiB that the kernel stores, recorded on a GPU of compute capability 9.0.
constexpr recorded recordings[] = {
    {"group_operations", 0x17649061d428200c}, {"shared_reduction", 0x8984b2fefa3bc125},
    {"recursion", 0x707f1a5a22cb3522},        {"virtual_calls", 0x8ffa83ef3effd4e8},
    {"local_arrays", 0xadf28311c24913d6},     {"divergence", 0x35d31f17ca058ed3},
    {"wide_integers", 0xbbb9994d72e81a4c},    {"constants", 0x6fbc9a6899400c34},
    {"double_functions", 0x1d36b0d4bf5dee4a}, {"half_functions", 0x6846a9daa5a98bf0},
};

}  // namespace

TEST_CASE("compiled kernels store what they store on the hardware") {
  machine m(program_text());
  const std::string operands = read_golden("operands.bin");
  const auto in = m.upload(std::vector<char>(operands.begin(), operands.end()));
  constexpr std::size_t bytes = 256 * 32;
  const auto out = m.upload(std::vector<std::byte>(bytes));
  for (const recorded& r : recordings) {
    INFO(r.kernel);
    std::memset(reinterpret_cast<void*>(out), 0, bytes);
    CHECK(m.run(r.kernel, {.grid = {2, 1, 1}, .block = {128, 1, 1}}, in, out).text == "");
    CHECK(hash(reinterpret_cast<const std::byte*>(out), bytes) == r.hash);
  }
}

TEST_CASE("a templated transposition goes through shared memory") {
  machine m(program_text());
  std::vector<float> values(256);
  std::iota(values.begin(), values.end(), 0.0f);
  const auto at = m.upload(values);
  REQUIRE(m.run("transpose_16", {.grid = {}, .block = {16, 16, 1}}, at).text == "");
  const auto result = m.download<float>(at, 256);
  for (std::size_t n = 0; n < 256; ++n) CHECK(result[n] == values[n % 16 * 16 + n / 16]);
}

TEST_CASE("atomics of many blocks lose nothing, in dynamic shared memory and in global memory") {
  machine m(program_text());
  std::vector<int> values(10'000);
  for (std::size_t n = 0; n < values.size(); ++n) values[n] = static_cast<int>(n * 7919 % 10'007);
  const auto in = m.upload(values), bins = m.upload(std::vector<int>(64)),
             sum = m.upload(std::vector<float>(1)), largest = m.upload(std::vector<int>(1));
  REQUIRE(m.run("count_atomically",
                {.grid = {8, 1, 1}, .block = {64, 1, 1}, .dynamic_shared_bytes = 256}, in, 10'000,
                bins, sum, largest)
              .text == "");
  std::vector<int> expected(64);
  for (const int v : values) ++expected[static_cast<std::size_t>(v & 63)];
  CHECK(m.download<int>(bins, 64) == expected);
  CHECK(m.download<float>(sum, 1)[0] == 10'000.0f);
  CHECK(m.download<int>(largest, 1)[0] == *std::max_element(values.begin(), values.end()));
}

TEST_CASE("device printf formats as the driver does") {
  machine m(program_text());
  struct {
    char c = 'Q';
    double d = 3.14159;
    short s[3] = {-2, -1, 7};
  } mixed;
  REQUIRE(m.run("print_things", {.grid = {}, .block = {2, 1, 1}}, mixed, 42).text == "");
  const std::string line =
      "42|   42|42   |00042|2a|1234567890123|Q|text|%|3.14|3.14159|3.141590e+00\n";
  CHECK(m.printed() == line + line + "shorts -2 65535\n");
}

TEST_CASE("a failed assertion stops the kernel with the driver's words") {
  machine m(program_text());
  const auto even = m.upload(std::vector<int>{0, 2, 4, 6}),
             odd = m.upload(std::vector<int>{0, 2, 5, 6});
  CHECK(m.run("assert_even", {.grid = {}, .block = {4, 1, 1}}, even).kind == fault_kind::none);
  const fault f = m.run("assert_even", {.grid = {}, .block = {4, 1, 1}}, odd);
  CHECK(f.kind == fault_kind::assertion);
  CHECK(f.text.find("programs.cu:") != std::string::npos);
  CHECK(f.text.find(
            ": block: [0,0,0], thread: [2,0,0] Assertion `in[threadIdx.x] % 2 == 0` failed.") !=
        std::string::npos);
}

TEST_CASE("kernels allocate and free") {
  machine m(program_text());
  const auto out = m.upload(std::vector<int>(40));
  REQUIRE(m.run("allocate_list", {.grid = {}, .block = {40, 1, 1}}, out, 10).text == "");
  CHECK(m.download<int>(out, 40) == std::vector<int>(40, 45));
}

TEST_CASE("a cooperative grid meets, and only a cooperative one is valid") {
  machine m(program_text());
  const auto parts = m.upload(std::vector<int>(128)), out = m.upload(std::vector<int>(128));
  REQUIRE(m.run("grid_sums", {.grid = {4, 1, 1}, .block = {32, 1, 1}}, parts, out).text == "");
  CHECK(m.download<int>(out, 128) == std::vector<int>(128));
  machine::options o{.grid = {4, 1, 1}, .block = {32, 1, 1}};
  o.cooperative = true;
  REQUIRE(m.run("grid_sums", o, parts, out).text == "");
  CHECK(m.download<int>(out, 128) == std::vector<int>(128, 127 * 64));
}

TEST_CASE("lanes of one warp take a lock in turn") {
  machine m(program_text());
  const auto lock = m.upload(std::vector<int>(1)), counter = m.upload(std::vector<int>(1));
  REQUIRE(m.run("lock_in_turn", {.grid = {3, 1, 1}, .block = {64, 1, 1}}, lock, counter).text ==
          "");
  CHECK(m.download<int>(counter, 1)[0] == 192);
}

TEST_CASE("a lane may wait for another lane of its warp") {
  machine m(program_text());
  const auto flags = m.upload(std::vector<int>(32));
  REQUIRE(m.run("wait_for_neighbour", {.grid = {}, .block = {32, 1, 1}}, flags).text == "");
  const auto result = m.download<int>(flags, 32);
  for (std::size_t n = 0; n < 32; ++n) CHECK(result[n] == (n % 2 == 0 ? 2 : 1));
}

}  // namespace gpuwire::softgpu::ptx::test
