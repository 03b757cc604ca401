// SPDX-License-Identifier: Apache-2.0
// Constant and device symbols: initial values, copies to and from symbols with an offset, a symbol's address as a pointer.
#include "check.hpp"

__constant__ float coefficients[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__device__ int counter = 5;
__device__ double table[8];

__global__ void evaluate(const float* x, float* y, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 8) table[i] += i;
  if (i >= count) return;
  y[i] = ((coefficients[3] * x[i] + coefficients[2]) * x[i] + coefficients[1]) * x[i] + coefficients[0];
  atomicAdd(&counter, 2);
}

int main() {
  const int count = 96;
  float x[count], y[count], *device_x, *device_y;
  for (int i = 0; i < count; ++i) x[i] = static_cast<float>(i % 9);
  CHECK(cudaMalloc(&device_x, sizeof(x)));
  CHECK(cudaMalloc(&device_y, sizeof(y)));
  CHECK(cudaMemcpy(device_x, x, sizeof(x), cudaMemcpyHostToDevice));
  float last = -2.0f;
  CHECK(cudaMemcpyToSymbol(coefficients, &last, sizeof(last), 3 * sizeof(float)));
  double* table_address = nullptr;
  size_t table_bytes = 0;
  CHECK(cudaGetSymbolAddress(reinterpret_cast<void**>(&table_address), table));
  CHECK(cudaGetSymbolSize(&table_bytes, table));
  const double start[8] = {10, 20, 30, 40, 50, 60, 70, 80};
  CHECK(cudaMemcpy(table_address, start, sizeof(start), cudaMemcpyHostToDevice));

  evaluate<<<(count + 31) / 32, 32>>>(device_x, device_y, count);
  CHECK(cudaGetLastError());
  int counted = 0;
  double after[8];
  float coefficient[4];
  CHECK(cudaMemcpy(y, device_y, sizeof(y), cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof(counted)));
  CHECK(cudaMemcpyFromSymbol(after, table, sizeof(after)));
  CHECK(cudaMemcpyFromSymbol(coefficient, coefficients, sizeof(coefficient)));

  int wrong = table_bytes != sizeof(after);
  for (int i = 0; i < count; ++i) wrong += y[i] != ((-2.0f * x[i] + 3.0f) * x[i] + 2.0f) * x[i] + 1.0f;
  for (int i = 0; i < 8; ++i) wrong += after[i] != start[i] + i;
  for (int i = 0; i < 4; ++i) wrong += coefficient[i] != (i == 3 ? -2.0f : i + 1.0f);
  std::printf("constant_symbols: counter %d, expected %d, %d wrong\n", counted, 5 + 2 * count, wrong);
  CHECK(cudaFree(device_x));
  CHECK(cudaFree(device_y));
  return verdict(wrong == 0 && counted == 5 + 2 * count);
}
