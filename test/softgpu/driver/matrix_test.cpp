// SPDX-License-Identifier: Apache-2.0
// Kernels for tensor cores. All values are small integers, so that every format holds them and
// their sums exactly.
#include <cstdint>
#include <cstring>

#include "driver.hpp"

namespace {

struct tile {
  int m, n, k;
};

int value_a(int row, int column) {
  return (row * 7 + column * 3) % 11 - 5;
}
int value_b(int row, int column) {
  return (row * 5 + column * 2) % 7 - 3;
}

// D = A * B + 1
std::vector<int> expected(const tile& t) {
  std::vector<int> result;
  for (int row = 0; row < t.m; ++row) {
    for (int column = 0; column < t.n; ++column) {
      int sum = 1;
      for (int k = 0; k < t.k; ++k) sum += value_a(row, k) * value_b(k, column);
      result.push_back(sum);
    }
  }
  return result;
}

std::uint16_t as_bfloat(int value) {
  const auto number = static_cast<float>(value);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  return static_cast<std::uint16_t>(bits >> 16);
}

// Integers of up to 11 bits.
std::uint16_t as_half(int value) {
  if (value == 0) return 0;
  const auto magnitude = static_cast<unsigned>(value < 0 ? -value : value);
  const auto exponent = static_cast<unsigned>(31 - __builtin_clz(magnitude));
  const unsigned mantissa = magnitude << (10 - exponent) & 0x3ff;
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 | mantissa);
}

// Runs a kernel of one warp. A lies by rows; B by columns unless `b_by_rows`.
template <typename In, typename Out, typename Convert>
std::vector<Out> product(const char* kernel, const tile& t, Convert convert,
                         bool b_by_rows = false) {
  test_context context;
  test_module module("matrices.ptx");
  std::vector<In> a, b;
  for (int row = 0; row < t.m; ++row)
    for (int k = 0; k < t.k; ++k) a.push_back(static_cast<In>(convert(value_a(row, k))));
  for (int outer = 0; outer < (b_by_rows ? t.k : t.n); ++outer) {
    for (int inner = 0; inner < (b_by_rows ? t.n : t.k); ++inner) {
      b.push_back(
          static_cast<In>(convert(b_by_rows ? value_b(outer, inner) : value_b(inner, outer))));
    }
  }
  const CUdeviceptr da = device_array(a), db = device_array(b);
  const auto count = static_cast<std::size_t>(t.m * t.n);
  const CUdeviceptr dd = device_array(std::vector<Out>(count));
  REQUIRE_OK(launch(module.function(kernel), 1, 32, nullptr, da, db, dd));
  REQUIRE_OK(driver(cuCtxSynchronize)());
  return host_copy<Out>(dd, count);
}

int same(int value) {
  return value;
}

template <typename Out>
std::vector<Out> as(const std::vector<int>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("wmma multiplies tiles of every format") {
  CHECK(product<std::uint16_t, float>("wmma_half", {16, 16, 16}, as_half) ==
        as<float>(expected({16, 16, 16})));
  CHECK(product<std::uint16_t, float>("wmma_half_wide", {8, 32, 16}, as_half) ==
        as<float>(expected({8, 32, 16})));
  CHECK(product<std::uint16_t, float>("wmma_bfloat", {16, 16, 16}, as_bfloat) ==
        as<float>(expected({16, 16, 16})));
  CHECK(product<float, float>("wmma_tf32", {16, 16, 8}, same) == as<float>(expected({16, 16, 8})));
  CHECK(product<signed char, int>("wmma_bytes", {16, 16, 16}, same) == expected({16, 16, 16}));
  CHECK(product<double, double>("wmma_doubles", {8, 8, 4}, same) ==
        as<double>(expected({8, 8, 4})));
}

TEST_CASE("wmma sums in half precision") {
  std::vector<std::uint16_t> halves;
  for (const int value : expected({16, 16, 16})) halves.push_back(as_half(value));
  CHECK(product<std::uint16_t, std::uint16_t>("wmma_half_sum", {16, 16, 16}, as_half) == halves);
}

TEST_CASE("mma multiplies fragments that ldmatrix has loaded") {
  CHECK(product<std::uint16_t, float>("mma_half", {16, 8, 16}, as_half, true) ==
        as<float>(expected({16, 8, 16})));
}

TEST_CASE("mma multiplies bytes") {
  CHECK(product<signed char, int>("mma_bytes", {16, 8, 32}, same) == expected({16, 8, 32}));
}
