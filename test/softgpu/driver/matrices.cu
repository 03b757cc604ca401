// SPDX-License-Identifier: Apache-2.0
// Kernels for the tensor cores: D = A * B + C for one tile, by wmma and by mma.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <typename In, typename Held, typename Out, int M, int N, int K>
__device__ void multiply(const Held* a, const Held* b, Out* d, int stride_a, int stride_b) {
  wmma::fragment<wmma::matrix_a, M, N, K, In, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, In, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Out> fd;
  wmma::fill_fragment(fd, Out(1));
  wmma::load_matrix_sync(fa, a, stride_a);
  wmma::load_matrix_sync(fb, b, stride_b);
  wmma::mma_sync(fd, fa, fb, fd);
  wmma::store_matrix_sync(d, fd, N, wmma::mem_row_major);
}

extern "C" {
__global__ void wmma_half(const half* a, const half* b, float* d) {
  multiply<half, half, float, 16, 16, 16>(a, b, d, 16, 16);
}
__global__ void wmma_half_wide(const half* a, const half* b, float* d) {
  multiply<half, half, float, 8, 32, 16>(a, b, d, 16, 16);
}
__global__ void wmma_bfloat(const __nv_bfloat16* a, const __nv_bfloat16* b, float* d) {
  multiply<__nv_bfloat16, __nv_bfloat16, float, 16, 16, 16>(a, b, d, 16, 16);
}
__global__ void wmma_tf32(const float* a, const float* b, float* d) {
  multiply<wmma::precision::tf32, float, float, 16, 16, 8>(a, b, d, 8, 8);
}
__global__ void wmma_bytes(const signed char* a, const signed char* b, int* d) {
  multiply<signed char, signed char, int, 16, 16, 16>(a, b, d, 16, 16);
}
__global__ void wmma_doubles(const double* a, const double* b, double* d) {
  multiply<double, double, double, 8, 8, 4>(a, b, d, 4, 4);
}
__global__ void wmma_half_sum(const half* a, const half* b, half* d) {
  multiply<half, half, half, 16, 16, 16>(a, b, d, 16, 16);
}

// A is 16 x 16 by rows, B 16 x 8 by rows: the one is loaded as it lies, the other transposed.
__global__ void mma_half(const half* a, const half* b, float* d) {
  __shared__ __align__(16) half sa[16 * 16], sb[16 * 8];
  const int lane = threadIdx.x;
  for (int n = lane; n < 256; n += 32) sa[n] = a[n];
  for (int n = lane; n < 128; n += 32) sb[n] = b[n];
  __syncwarp();
  unsigned ra[4], rb[2];
  const unsigned at_a = static_cast<unsigned>(__cvta_generic_to_shared(sa + lane % 16 * 16 + lane / 16 * 8));
  const unsigned at_b = static_cast<unsigned>(__cvta_generic_to_shared(sb + lane % 16 * 8));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(at_a));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(at_b));
  float c[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  const int row = lane / 4, column = lane % 4 * 2;
  d[row * 8 + column] = c[0];
  d[row * 8 + column + 1] = c[1];
  d[(row + 8) * 8 + column] = c[2];
  d[(row + 8) * 8 + column + 1] = c[3];
}

// A is 16 x 32 by rows, B 32 x 8 by columns.
__global__ void mma_bytes(const unsigned* a, const unsigned* b, int* d) {
  const int lane = threadIdx.x, row = lane / 4, part = lane % 4;
  const unsigned a0 = a[row * 8 + part], a1 = a[(row + 8) * 8 + part], a2 = a[row * 8 + part + 4],
                 a3 = a[(row + 8) * 8 + part + 4];
  const unsigned b0 = b[row * 8 + part], b1 = b[row * 8 + part + 4];
  int c[4] = {1, 1, 1, 1};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  d[row * 8 + part * 2] = c[0];
  d[row * 8 + part * 2 + 1] = c[1];
  d[(row + 8) * 8 + part * 2] = c[2];
  d[(row + 8) * 8 + part * 2 + 1] = c[3];
}
}
