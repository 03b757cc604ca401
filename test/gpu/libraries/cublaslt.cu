// SPDX-License-Identifier: Apache-2.0
// cuBLASLt: bf16 with an epilogue and fp8, which use clusters and tensor maps on Hopper.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "check.hpp"

struct problem {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t operation;
  cublasLtMatrixLayout_t a, b, d;
  void* workspace;
  std::size_t workspace_bytes;
};

static void run(problem& p, const void* a, const void* b, void* d) {
  cublasLtMatmulPreference_t preference;
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &p.workspace_bytes,
                                             sizeof(p.workspace_bytes)));
  cublasLtMatmulHeuristicResult_t found[4];
  int count = 0;
  CHECK(cublasLtMatmulAlgoGetHeuristic(p.handle, p.operation, p.a, p.b, p.d, p.d, preference, 4, found, &count));
  if (count == 0) expect(false, "an algorithm");
  const float one = 1, zero = 0;
  if (count > 0) {
    CHECK(cublasLtMatmul(p.handle, p.operation, &one, a, p.a, b, p.b, &zero, d, p.d, d, p.d, &found[0].algo, p.workspace,
                         p.workspace_bytes, nullptr));
  }
  CHECK(cudaDeviceSynchronize());
  CHECK(cublasLtMatmulPreferenceDestroy(preference));
}

// D = A^T * B with the values as the narrow type rounds them.
template <class T>
static std::vector<float> product(const std::vector<T>& a, const std::vector<T>& b, int m, int n, int k) {
  std::vector<float> result(m * n);
  std::vector<float> wide_a(a.size()), wide_b(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) wide_a[i] = float(a[i]);
  for (std::size_t i = 0; i < b.size(); ++i) wide_b[i] = float(b[i]);
  for (int column = 0; column < n; ++column)
    for (int row = 0; row < m; ++row) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += double(wide_a[row * k + i]) * wide_b[column * k + i];
      result[column * m + row] = float(sum);
    }
  return result;
}

template <class T>
static void multiply(cublasLtHandle_t handle, cudaDataType_t type, bool epilogue, const char* name, int m, int n, int k) {
  std::vector<T> a, b;
  for (float value : some_numbers(std::size_t(m) * k, 5)) a.push_back(T(value));
  for (float value : some_numbers(std::size_t(k) * n, 6)) b.push_back(T(value));
  std::vector<__nv_bfloat16> bias;
  for (float value : some_numbers(m, 7)) bias.push_back(__nv_bfloat16(value * 4));
  device_buffer<T> da(a), db(b);
  device_buffer<__nv_bfloat16> dd(std::size_t(m) * n), dbias(bias);
  problem p{};
  p.handle = handle;
  p.workspace_bytes = 32 << 20;
  CHECK(cudaMalloc(&p.workspace, p.workspace_bytes));
  CHECK(cublasLtMatmulDescCreate(&p.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t transposed = CUBLAS_OP_T;
  CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof(transposed)));
  if (epilogue) {
    const cublasLtEpilogue_t relu_bias = CUBLASLT_EPILOGUE_RELU_BIAS;
    const void* address = dbias.get();
    CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &relu_bias, sizeof(relu_bias)));
    CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address, sizeof(address)));
  }
  CHECK(cublasLtMatrixLayoutCreate(&p.a, type, k, m, k));
  CHECK(cublasLtMatrixLayoutCreate(&p.b, type, k, n, k));
  CHECK(cublasLtMatrixLayoutCreate(&p.d, CUDA_R_16BF, m, n, m));
  run(p, da.get(), db.get(), dd.get());
  std::vector<float> wanted = product(a, b, m, n, k), got;
  if (epilogue)
    for (int column = 0; column < n; ++column)
      for (int row = 0; row < m; ++row) {
        float& value = wanted[column * m + row];
        value = std::fmax(0.0f, value + float(bias[row]));
      }
  for (const __nv_bfloat16& value : dd.read()) got.push_back(float(value));
  compare(name, got, wanted, 1e-2);
  CHECK(cublasLtMatrixLayoutDestroy(p.a));
  CHECK(cublasLtMatrixLayoutDestroy(p.b));
  CHECK(cublasLtMatrixLayoutDestroy(p.d));
  CHECK(cublasLtMatmulDescDestroy(p.operation));
  CHECK(cudaFree(p.workspace));
}

int main() {
  cublasLtHandle_t handle;
  CHECK(cublasLtCreate(&handle));
  multiply<__nv_bfloat16>(handle, CUDA_R_16BF, false, "bf16", 256, 128, 512);
  multiply<__nv_bfloat16>(handle, CUDA_R_16BF, true, "bf16 with bias and relu", 512, 256, 256);
  multiply<__nv_bfloat16>(handle, CUDA_R_16BF, false, "bf16, large", 1024, 512, 256);
  multiply<__nv_fp8_e4m3>(handle, CUDA_R_8F_E4M3, false, "fp8", 256, 128, 512);
  multiply<__nv_fp8_e4m3>(handle, CUDA_R_8F_E4M3, false, "fp8, large", 1024, 512, 256);
  CHECK(cublasLtDestroy(handle));
  return verdict();
}
