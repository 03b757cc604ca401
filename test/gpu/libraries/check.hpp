// SPDX-License-Identifier: Apache-2.0
// What the library programs share: errors that say where they are, numbers that come out the same natively and through
// gpuwire, and a comparison with what the host computes itself.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

inline bool all_good = true;

template <class Status>
void require(Status status, const char* what, int line) {
  if (static_cast<int>(status) == 0) return;
  std::printf("line %d: %s gave %d\nFAILED\n", line, what, static_cast<int>(status));
  std::exit(1);
}
// Every library of the toolkit has 0 for success.
#define CHECK(call) require((call), #call, __LINE__)

// The same numbers on every machine: a small congruential generator, values in [-1, 1).
inline std::vector<float> some_numbers(std::size_t count, std::uint32_t seed) {
  std::vector<float> numbers(count);
  for (float& number : numbers) {
    seed = seed * 1664525u + 1013904223u;
    number = static_cast<float>(static_cast<std::int32_t>(seed >> 8) - (1 << 23)) / (1 << 23);
  }
  return numbers;
}

template <class T>
class device_buffer {
 public:
  explicit device_buffer(std::size_t count) : count_(count) { CHECK(cudaMalloc(&data_, count * sizeof(T))); }
  explicit device_buffer(const std::vector<T>& values) : device_buffer(values.size()) { put(values); }
  device_buffer(const device_buffer&) = delete;
  ~device_buffer() { cudaFree(data_); }
  T* get() { return data_; }
  void put(const std::vector<T>& values) {
    CHECK(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

// Prints a line that does not depend on rounding, and remembers a difference beyond the tolerance, which is relative to
// the largest value wanted.
template <class T, class U>
void compare(const char* name, const std::vector<T>& got, const std::vector<U>& wanted, double tolerance) {
  double largest = 1e-30, worst = 0;
  for (const U& value : wanted) largest = std::fmax(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - static_cast<double>(wanted[i])) / largest;
    if (!(error <= worst)) worst = error;  // a NaN is worse than everything
  }
  const bool good = got.size() == wanted.size() && worst <= tolerance;
  all_good = all_good && good;
  if (good) {
    std::printf("%s: %zu values right\n", name, wanted.size());
  } else {
    std::printf("%s: WRONG, error %g of %g allowed\n", name, worst, tolerance);
  }
}

inline void expect(bool good, const char* what) {
  all_good = all_good && good;
  std::printf("%s: %s\n", what, good ? "right" : "WRONG");
}

inline int verdict() {
  std::printf(all_good ? "PASSED\n" : "FAILED\n");
  return all_good ? 0 : 1;
}
