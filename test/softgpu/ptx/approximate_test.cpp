// SPDX-License-Identifier: Apache-2.0
// The approximate functions stay within the error bounds that PTX states.
#include <cmath>

#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {
namespace {

std::vector<float> results_of(const std::string& operation, const std::vector<float>& values) {
  machine m(
      snippet("ld.global.f32 %f1, [%at];\n" + operation + " %f2, %f1;\nst.global.f32 [%at], %f2;"));
  std::vector<std::uint64_t> words;
  for (const float v : values) words.push_back(std::bit_cast<std::uint32_t>(v));
  const auto buffer = m.upload(words);
  const auto threads = static_cast<std::uint32_t>(values.size());
  REQUIRE(m.run("test", {.grid = {}, .block = {threads, 1, 1}}, buffer).text == "");
  std::vector<float> result;
  for (const auto w : m.download<std::uint64_t>(buffer, values.size()))
    result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(w)));
  return result;
}

void check_near(const std::string& operation, double (*exact)(double), double relative,
                double absolute, float first, float last) {
  INFO(operation);
  std::vector<float> values;
  for (int n = 0; n < 100; ++n)
    values.push_back(first + (last - first) * static_cast<float>(n) / 99.0f);
  const auto result = results_of(operation, values);
  for (std::size_t n = 0; n < values.size(); ++n) {
    const double wanted = exact(values[n]);
    INFO(values[n]);
    CHECK(std::fabs(result[n] - wanted) <= std::max(std::fabs(wanted) * relative, absolute));
  }
}

}  // namespace

TEST_CASE("approximations keep within their bounds") {
  check_near(
      "rcp.approx.f32", [](double v) { return 1 / v; }, 0x1p-23, 0, 0.5f, 300.0f);
  check_near(
      "sqrt.approx.f32", [](double v) { return std::sqrt(v); }, 0x1p-23, 0, 0.0f, 300.0f);
  check_near(
      "rsqrt.approx.f32", [](double v) { return 1 / std::sqrt(v); }, 0x1p-22, 0, 0.1f, 300.0f);
  check_near(
      "lg2.approx.f32", [](double v) { return std::log2(v); }, 0x1p-22, 0x1p-22, 0.1f, 300.0f);
  check_near(
      "ex2.approx.f32", [](double v) { return std::exp2(v); }, 0x1p-22, 0, -20.0f, 20.0f);
  check_near(
      "tanh.approx.f32", [](double v) { return std::tanh(v); }, 0x1p-11, 0, -5.0f, 5.0f);
  check_near(
      "sin.approx.f32", [](double v) { return std::sin(v); }, 0, 0x1p-20, -3.14f, 3.14f);
  check_near(
      "cos.approx.f32", [](double v) { return std::cos(v); }, 0, 0x1p-20, -3.14f, 3.14f);
}

TEST_CASE("approximations of special values are those of the manual") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(results_of("rcp.approx.f32", {0.0f, -0.0f, infinity, -infinity}) ==
        std::vector<float>{infinity, -infinity, 0, -0.0f});
  CHECK(results_of("ex2.approx.f32", {-infinity, 0.0f, infinity}) ==
        std::vector<float>{0, 1, infinity});
  CHECK(results_of("lg2.approx.f32", {0.0f, 1.0f, infinity}) ==
        std::vector<float>{-infinity, 0, infinity});
  CHECK(std::isnan(results_of("sqrt.approx.f32", {-1.0f})[0]));
  CHECK(std::isnan(results_of("sin.approx.f32", {infinity})[0]));
  CHECK(results_of("ex2.approx.ftz.f32", {0x1p-130f, -130.0f}) == std::vector<float>{1, 0});
}

}  // namespace gpuwire::softgpu::ptx::test
