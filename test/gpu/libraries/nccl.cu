// SPDX-License-Identifier: Apache-2.0
// NCCL with as many ranks as there are devices, in one process.
#include <nccl.h>

#include "check.hpp"

int main() {
  int devices = 0;
  CHECK(cudaGetDeviceCount(&devices));
  std::vector<ncclComm_t> communicators(devices);
  CHECK(ncclCommInitAll(communicators.data(), devices, nullptr));
  constexpr int count = 1 << 20;
  std::vector<float*> data(devices);
  std::vector<cudaStream_t> streams(devices);
  std::vector<float> wanted(count);
  for (int i = 0; i < devices; ++i) {
    const auto values = some_numbers(count, i + 1);
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamCreate(&streams[i]));
    CHECK(cudaMalloc(&data[i], count * sizeof(float)));
    CHECK(cudaMemcpy(data[i], values.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    for (int k = 0; k < count; ++k) wanted[k] += values[k];
  }
  for (int round = 0; round < 3; ++round) {  // the second and third make the sum of equal parts
    CHECK(ncclGroupStart());
    for (int i = 0; i < devices; ++i)
      CHECK(ncclAllReduce(data[i], data[i], count, ncclFloat, round == 0 ? ncclSum : ncclAvg, communicators[i], streams[i]));
    CHECK(ncclGroupEnd());
  }
  CHECK(ncclGroupStart());
  for (int i = 0; i < devices; ++i) CHECK(ncclBroadcast(data[i], data[i], count, ncclFloat, 0, communicators[i], streams[i]));
  CHECK(ncclGroupEnd());
  for (int i = 0; i < devices; ++i) {
    CHECK(cudaSetDevice(i));
    CHECK(cudaStreamSynchronize(streams[i]));
    std::vector<float> got(count);
    CHECK(cudaMemcpy(got.data(), data[i], count * sizeof(float), cudaMemcpyDeviceToHost));
    compare("all-reduce", got, wanted, 1e-5);
  }
  for (auto communicator : communicators) CHECK(ncclCommDestroy(communicator));
  return verdict();
}
