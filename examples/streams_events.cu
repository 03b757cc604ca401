// SPDX-License-Identifier: Apache-2.0
// Four streams, each with its own copies and kernels on pinned memory; events order one stream behind another and time it.
#include "check.hpp"

__global__ void scale_and_shift(int* values, int count, int factor, int shift) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = values[i] * factor + shift;
}

int main() {
  const int streams = 4, count = 8'192;
  const size_t bytes = count * sizeof(int);
  cudaStream_t stream[streams];
  cudaEvent_t begin, end[streams];
  int *host[streams], *device[streams];
  CHECK(cudaEventCreate(&begin));
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaStreamCreateWithFlags(&stream[s], cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&end[s]));
    CHECK(cudaMallocHost(&host[s], bytes));
    CHECK(cudaMalloc(&device[s], bytes));
    for (int i = 0; i < count; ++i) host[s][i] = i + s;
  }

  CHECK(cudaEventRecord(begin, stream[0]));
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaMemcpyAsync(device[s], host[s], bytes, cudaMemcpyHostToDevice, stream[s]));
    scale_and_shift<<<(count + 127) / 128, 128, 0, stream[s]>>>(device[s], count, 3, s);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(host[s], device[s], bytes, cudaMemcpyDeviceToHost, stream[s]));
    CHECK(cudaEventRecord(end[s], stream[s]));
  }
  // The last stream waits for the first and then works on the first one's data.
  CHECK(cudaStreamWaitEvent(stream[streams - 1], end[0], 0));
  scale_and_shift<<<(count + 127) / 128, 128, 0, stream[streams - 1]>>>(device[0], count, 10, 1);
  CHECK(cudaGetLastError());
  CHECK(cudaStreamSynchronize(stream[streams - 1]));
  for (int s = 0; s < streams; ++s) CHECK(cudaEventSynchronize(end[s]));
  bool queried = cudaEventQuery(end[0]) == cudaSuccess && cudaStreamQuery(stream[1]) == cudaSuccess;

  int wrong = 0;
  for (int s = 0; s < streams; ++s) {
    for (int i = 0; i < count; ++i) wrong += host[s][i] != (i + s) * 3 + s;
  }
  CHECK(cudaMemcpy(host[0], device[0], bytes, cudaMemcpyDeviceToHost));
  for (int i = 0; i < count; ++i) wrong += host[0][i] != (i * 3) * 10 + 1;
  float elapsed_ms = -1;
  CHECK(cudaEventElapsedTime(&elapsed_ms, begin, end[0]));

  std::printf("streams_events: %d streams, %d wrong, complete when queried: %s, time not negative: %s\n", streams, wrong,
              queried ? "yes" : "no", elapsed_ms >= 0 ? "yes" : "no");
  for (int s = 0; s < streams; ++s) {
    CHECK(cudaStreamDestroy(stream[s]));
    CHECK(cudaEventDestroy(end[s]));
    CHECK(cudaFreeHost(host[s]));
    CHECK(cudaFree(device[s]));
  }
  CHECK(cudaEventDestroy(begin));
  return verdict(wrong == 0 && queried && elapsed_ms >= 0);
}
