// SPDX-License-Identifier: Apache-2.0
// cuBLAS: products in several precisions, batched, and scalars in host and in device memory.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "check.hpp"

// Column-major C = A * B for square matrices.
static std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int n) {
  std::vector<float> c(n * n);
  for (int column = 0; column < n; ++column)
    for (int row = 0; row < n; ++row) {
      double sum = 0;
      for (int k = 0; k < n; ++k) sum += double(a[k * n + row]) * b[column * n + k];
      c[column * n + row] = static_cast<float>(sum);
    }
  return c;
}

template <class T>
static std::vector<T> narrowed(const std::vector<float>& values) {
  std::vector<T> result;
  for (float value : values) result.push_back(T(value));
  return result;
}

template <class T>
static std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> result;
  for (const T& value : values) result.push_back(static_cast<float>(value));
  return result;
}

template <class T>
static void half_product(cublasHandle_t handle, cudaDataType_t type, const char* name, int n) {
  const auto a = narrowed<T>(some_numbers(n * n, 3)), b = narrowed<T>(some_numbers(n * n, 4));
  device_buffer<T> da(a), db(b), dc(n * n);
  const float one = 1, zero = 0;
  CHECK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, da.get(), type, n, db.get(), type, n, &zero, dc.get(),
                     type, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  compare(name, widened(dc.read()), product(widened(a), widened(b), n), 8e-3);
}

int main() {
  constexpr int n = 192;
  cublasHandle_t handle;
  CHECK(cublasCreate(&handle));
  int version = 0;
  CHECK(cublasGetVersion(handle, &version));
  std::printf("version %d\n", version);
  const auto a = some_numbers(n * n, 1), b = some_numbers(n * n, 2);
  const auto wanted = product(a, b, n);
  const float one = 1, zero = 0;
  {
    device_buffer<float> da(a), db(b), dc(n * n);
    CHECK(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, da.get(), n, db.get(), n, &zero, dc.get(), n));
    compare("sgemm", dc.read(), wanted, 1e-5);
    float dot = 0, dot_wanted = 0;
    CHECK(cublasSdot(handle, n, da.get(), 1, db.get(), 1, &dot));
    for (int i = 0; i < n; ++i) dot_wanted += a[i] * b[i];
    compare("dot, result on the host", std::vector<float>{dot}, std::vector<float>{dot_wanted}, 1e-5);
    device_buffer<float> result(1);
    CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    CHECK(cublasSdot(handle, n, da.get(), 1, db.get(), 1, result.get()));
    CHECK(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_HOST));
    compare("dot, result on the device", result.read(), std::vector<float>{dot_wanted}, 1e-5);
    CHECK(cublasSgemmStridedBatched(handle, CUBLAS_OP_N, CUBLAS_OP_N, n / 2, n / 2, n / 2, &one, da.get(), n, n / 2 * n,
                                    db.get(), n, n / 2 * n, &zero, dc.get(), n, n / 2 * n, 2));
    std::vector<float> got = dc.read();
    double sum = 0;
    for (int k = 0; k < n / 2; ++k) sum += double(a[n / 2 * n + k * n]) * b[n / 2 * n + k];
    compare("batched, second matrix", std::vector<float>{got[n / 2 * n]}, std::vector<double>{sum}, 1e-4);
  }
  {
    const std::vector<double> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
    device_buffer<double> da(wide_a), db(wide_b), dc(n * n);
    const double wide_one = 1, wide_zero = 0;
    CHECK(cublasDgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &wide_one, da.get(), n, db.get(), n, &wide_zero, dc.get(), n));
    compare("dgemm", dc.read(), wanted, 1e-6);
  }
  half_product<__nv_bfloat16>(handle, CUDA_R_16BF, "gemmEx bf16", n);
  half_product<__nv_bfloat16>(handle, CUDA_R_16BF, "gemmEx bf16, large", 512);
  half_product<__half>(handle, CUDA_R_16F, "gemmEx fp16", n);
  {
    // Lower triangular, with a heavy diagonal.
    auto triangle = a;
    for (int i = 0; i < n; ++i) triangle[i * n + i] = 8;
    device_buffer<float> dt(triangle), dx(b);
    CHECK(cublasStrsm(handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, n, &one, dt.get(), n,
                      dx.get(), n));
    for (int column = 0; column < n; ++column)
      for (int row = 0; row <= column; ++row)
        if (row < column) triangle[column * n + row] = 0;
    compare("trsm, put in again", product(triangle, dx.read(), n), b, 1e-3);
  }
  CHECK(cublasDestroy(handle));
  return verdict();
}
