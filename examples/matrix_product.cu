// SPDX-License-Identifier: Apache-2.0
// C = A B with 16 x 16 tiles in shared memory and a two-dimensional grid; no side is a multiple of the tile.
#include <cmath>
#include <vector>

#include "check.hpp"

constexpr int tile = 16;

__global__ void product(const float* a, const float* b, float* c, int rows, int inner, int columns) {
  __shared__ float tile_a[tile][tile], tile_b[tile][tile];
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < inner; start += tile) {
    int k_a = start + threadIdx.x, k_b = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < rows && k_a < inner ? a[row * inner + k_a] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = k_b < inner && column < columns ? b[k_b * columns + column] : 0.0f;
    __syncthreads();
    for (int k = 0; k < tile; ++k) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = sum;
}

int main() {
  const int rows = 60, inner = 70, columns = 50;
  std::vector<float> a(rows * inner), b(inner * columns), c(rows * columns);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) - 8;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) * 0.25f;

  float *device_a, *device_b, *device_c;
  CHECK(cudaMalloc(&device_a, a.size() * sizeof(float)));
  CHECK(cudaMalloc(&device_b, b.size() * sizeof(float)));
  CHECK(cudaMalloc(&device_c, c.size() * sizeof(float)));
  CHECK(cudaMemcpy(device_a, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device_b, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
  dim3 grid((columns + tile - 1) / tile, (rows + tile - 1) / tile), block(tile, tile);
  product<<<grid, block>>>(device_a, device_b, device_c, rows, inner, columns);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), device_c, c.size() * sizeof(float), cudaMemcpyDeviceToHost));

  double worst = 0;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      double expected = 0;
      for (int k = 0; k < inner; ++k) expected += double(a[row * inner + k]) * b[k * columns + column];
      worst = std::fmax(worst, std::fabs(expected - c[row * columns + column]));
    }
  }
  std::printf("matrix_product: %d x %d x %d, largest error %g\n", rows, inner, columns, worst);
  CHECK(cudaFree(device_a));
  CHECK(cudaFree(device_b));
  CHECK(cudaFree(device_c));
  return verdict(worst < 1e-3);
}
