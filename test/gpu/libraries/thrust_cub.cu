// SPDX-License-Identifier: Apache-2.0
// Thrust and CUB: sort, scan, reduce, select, with temporary storage from the device's pools.
#include <cub/cub.cuh>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/transform.h>

#include <algorithm>
#include <numeric>

#include "check.hpp"

struct is_even {
  __host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

int main() {
  constexpr int count = 300'000;
  std::vector<int> values(count);
  std::uint32_t seed = 1;
  for (int& value : values) value = static_cast<int>((seed = seed * 1664525u + 1013904223u) >> 12);
  std::vector<int> wanted = values;
  std::sort(wanted.begin(), wanted.end());
  thrust::device_vector<int> on_device(values.begin(), values.end());
  thrust::sort(on_device.begin(), on_device.end());
  std::vector<int> got(count);
  thrust::copy(on_device.begin(), on_device.end(), got.begin());
  expect(got == wanted, "thrust sort");
  expect(thrust::reduce(on_device.begin(), on_device.end(), 0LL) == std::accumulate(values.begin(), values.end(), 0LL), "thrust reduce");
  thrust::device_vector<long long> wide(on_device.begin(), on_device.end());
  thrust::inclusive_scan(wide.begin(), wide.end(), wide.begin());
  std::vector<long long> sums(count), wanted_sums(count);
  std::vector<long long> wide_wanted(wanted.begin(), wanted.end());
  std::partial_sum(wide_wanted.begin(), wide_wanted.end(), wanted_sums.begin());
  thrust::copy(wide.begin(), wide.end(), sums.begin());
  expect(sums == wanted_sums, "thrust scan");

  device_buffer<int> keys(values), sorted(count), selected(count), selected_count(1);
  std::size_t bytes = 0;
  CHECK(cub::DeviceRadixSort::SortKeys(nullptr, bytes, keys.get(), sorted.get(), count));
  void* storage = nullptr;
  CHECK(cudaMallocAsync(&storage, bytes, nullptr));
  CHECK(cub::DeviceRadixSort::SortKeys(storage, bytes, keys.get(), sorted.get(), count));
  CHECK(cudaFreeAsync(storage, nullptr));
  expect(sorted.read() == wanted, "cub radix sort");
  bytes = 0;
  CHECK(cub::DeviceSelect::If(nullptr, bytes, keys.get(), selected.get(), selected_count.get(), count, is_even{}));
  CHECK(cudaMallocAsync(&storage, bytes, nullptr));
  CHECK(cub::DeviceSelect::If(storage, bytes, keys.get(), selected.get(), selected_count.get(), count, is_even{}));
  CHECK(cudaFreeAsync(storage, nullptr));
  auto chosen = selected.read();
  chosen.resize(selected_count.read()[0]);
  std::vector<int> even;
  std::copy_if(values.begin(), values.end(), std::back_inserter(even), is_even{});
  expect(chosen == even, "cub select");
  return verdict();
}
