// SPDX-License-Identifier: Apache-2.0
// cuSOLVER: a Cholesky factorisation that solves, LU, and eigenvalues of a symmetric matrix.
#include <cusolverDn.h>

#include "check.hpp"

int main() {
  constexpr int n = 128;
  const auto random = some_numbers(n * n, 1);
  std::vector<double> a(n * n), x(n), b(n);
  for (int i = 0; i < n; ++i) {
    x[i] = i - 40;
    for (int j = 0; j < n; ++j) a[i * n + j] = (random[i * n + j] + random[j * n + i]) / 2 + (i == j ? n : 0);
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) b[i] += a[j * n + i] * x[j];

  cusolverDnHandle_t handle;
  CHECK(cusolverDnCreate(&handle));
  device_buffer<int> information(1), pivots(n);
  int count = 0;
  {
    device_buffer<double> da(a), db(b);
    CHECK(cusolverDnDpotrf_bufferSize(handle, CUBLAS_FILL_MODE_LOWER, n, da.get(), n, &count));
    device_buffer<double> workspace(count);
    CHECK(cusolverDnDpotrf(handle, CUBLAS_FILL_MODE_LOWER, n, da.get(), n, workspace.get(), count, information.get()));
    expect(information.read()[0] == 0, "potrf's information");
    CHECK(cusolverDnDpotrs(handle, CUBLAS_FILL_MODE_LOWER, n, 1, da.get(), n, db.get(), n, information.get()));
    compare("Cholesky", db.read(), x, 1e-10);
  }
  {
    device_buffer<double> da(a), db(b);
    CHECK(cusolverDnDgetrf_bufferSize(handle, n, n, da.get(), n, &count));
    device_buffer<double> workspace(count);
    CHECK(cusolverDnDgetrf(handle, n, n, da.get(), n, workspace.get(), pivots.get(), information.get()));
    CHECK(cusolverDnDgetrs(handle, CUBLAS_OP_N, n, 1, da.get(), n, pivots.get(), db.get(), n, information.get()));
    compare("LU", db.read(), x, 1e-10);
  }
  {
    device_buffer<double> da(a), values(n);
    CHECK(cusolverDnDsyevd_bufferSize(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, da.get(), n, values.get(), &count));
    device_buffer<double> workspace(count);
    CHECK(cusolverDnDsyevd(handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n, da.get(), n, values.get(), workspace.get(), count,
                           information.get()));
    const auto eigenvalues = values.read(), vectors = da.read();
    std::vector<double> left(n), right(n);  // A v against lambda v, for the largest one
    for (int i = 0; i < n; ++i) {
      for (int j = 0; j < n; ++j) left[i] += a[j * n + i] * vectors[(n - 1) * n + j];
      right[i] = eigenvalues[n - 1] * vectors[(n - 1) * n + i];
    }
    compare("eigenvector", left, right, 1e-10);
  }
  CHECK(cusolverDnDestroy(handle));
  return verdict();
}
