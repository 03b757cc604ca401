// SPDX-License-Identifier: Apache-2.0
// cuRAND: the same seed gives the same numbers, from the host and inside a kernel; their statistics are right.
#include <curand.h>
#include <curand_kernel.h>

#include "check.hpp"

__global__ void draw(float* out, unsigned long long seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  curandStatePhilox4_32_10_t state;
  curand_init(seed, i, 0, &state);
  out[i] = curand_uniform(&state);
}

static void statistics(const char* name, const std::vector<float>& values, double mean_wanted, double variance_wanted) {
  double sum = 0, squares = 0;
  std::uint32_t hash = 2166136261u;
  for (float value : values) {
    sum += value;
    squares += double(value) * value;
    std::uint32_t bits;
    __builtin_memcpy(&bits, &value, 4);
    hash = (hash ^ bits) * 16777619u;
  }
  const double mean = sum / values.size(), variance = squares / values.size() - mean * mean;
  std::printf("%s: %zu values, hash %08x\n", name, values.size(), hash);  // equal natively and through gpuwire
  expect(std::fabs(mean - mean_wanted) < 0.01 && std::fabs(variance - variance_wanted) < 0.01, name);
}

int main() {
  constexpr int count = 1 << 18;
  device_buffer<float> numbers(count);
  for (const auto& [type, name] : {std::pair{CURAND_RNG_PSEUDO_XORWOW, "xorwow"}, {CURAND_RNG_PSEUDO_PHILOX4_32_10, "philox"},
                                   {CURAND_RNG_PSEUDO_MT19937, "mt19937"}, {CURAND_RNG_QUASI_SOBOL32, "sobol"}}) {
    curandGenerator_t generator;
    CHECK(curandCreateGenerator(&generator, type));
    if (type != CURAND_RNG_QUASI_SOBOL32) CHECK(curandSetPseudoRandomGeneratorSeed(generator, 1234));
    CHECK(curandGenerateUniform(generator, numbers.get(), count));
    statistics(name, numbers.read(), 0.5, 1.0 / 12);
    if (type == CURAND_RNG_PSEUDO_PHILOX4_32_10) {
      CHECK(curandGenerateNormal(generator, numbers.get(), count, 0, 1));
      statistics("normal", numbers.read(), 0, 1);
    }
    CHECK(curandDestroyGenerator(generator));
  }
  draw<<<count / 256, 256>>>(numbers.get(), 99);
  CHECK(cudaGetLastError());
  statistics("inside a kernel", numbers.read(), 0.5, 1.0 / 12);
  return verdict();
}
