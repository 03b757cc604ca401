// SPDX-License-Identifier: Apache-2.0
// The source of golden/programs_*.ptx. Kernels that take (in, out) run with two blocks of 128 threads; each thread reads
// words of golden/operands.bin and writes up to four words of its own. program_test.cpp says what they must give.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_fp16.h>

#include <cassert>
#include <cstdio>

namespace cg = cooperative_groups;
using word = unsigned long long;

#define ENTRY extern "C" __global__ void

// operands.bin holds five groups of three times 256 words: integers, floats, doubles, halves, bfloats.
template <class T>
__device__ T operand(const word* in, int group, int which) {
  return *reinterpret_cast<const T*>(in + (group * 3 + which) * 256 + blockIdx.x * 128 + threadIdx.x);
}
__device__ unsigned thread() { return blockIdx.x * 128 + threadIdx.x; }

ENTRY group_operations(const word* in, word* out) {
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<32>(block);
  auto four = cg::tiled_partition<4>(tile);
  int* to = reinterpret_cast<int*>(out + thread() * 4);
  const int value = static_cast<int>(in[thread()]);
  to[0] = cg::reduce(tile, value, cg::plus<int>());
  to[1] = cg::inclusive_scan(tile, value);
  to[2] = cg::exclusive_scan(four, value, cg::greater<int>());
  auto all = cg::coalesced_threads();
  if (value & 1) {
    auto some = cg::coalesced_threads();
    to[3] = cg::reduce(some, value, cg::bit_xor<int>());
    to[4] = some.thread_rank() + some.size() * 100;
    to[5] = some.shfl(value, 0);
  } else if (value & 2) {
    auto some = cg::coalesced_threads();
    to[3] = some.shfl_down(value, 1);
    to[4] = some.size();
    to[5] = some.ballot(value & 4);
  }
  auto alike = cg::labeled_partition(all, value & 3);
  to[6] = alike.size() * 100 + alike.thread_rank();
  to[7] = cg::reduce(alike, value, cg::plus<int>());
}

ENTRY shared_reduction(const word* in, word* out) {
  __shared__ int sums[128];
  __shared__ double largest[128];
  sums[threadIdx.x] = static_cast<int>(in[thread()]);
  largest[threadIdx.x] = operand<double>(in, 2, 0);
  __syncthreads();
  for (int k = 64; k; k >>= 1) {
    if (threadIdx.x < k) {
      sums[threadIdx.x] += sums[threadIdx.x + k];
      largest[threadIdx.x] = fmax(largest[threadIdx.x], largest[threadIdx.x + k]);
    }
    __syncthreads();
  }
  out[thread() * 4] = sums[0];
  reinterpret_cast<double*>(out)[thread() * 4 + 1] = largest[0];
}

__device__ __noinline__ int ackermann(int m, int n) {
  return m == 0 ? n + 1 : (n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1)));
}
__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
ENTRY recursion(const word* in, word* out) {
  out[thread() * 4] = ackermann(in[thread()] & 1, in[256 + thread()] & 7);
  out[thread() * 4 + 1] = fibonacci(in[thread()] & 15);
}

struct shape {
  __device__ virtual int area(int) const = 0;
};
struct square : shape {
  int a;
  __device__ square(int x) : a(x) {}
  __device__ int area(int y) const override { return a * y; }
};
struct house : square {
  __device__ house(int x) : square(x) {}
  __device__ int area(int y) const override { return a + y + square::area(y); }
};
__device__ __noinline__ int area_of(const shape& s, int x) { return s.area(x); }
ENTRY virtual_calls(const word* in, word* out) {
  const int n = in[thread()];
  square s(n);
  house h(n + 1);
  out[thread() * 4] = area_of(n & 1 ? static_cast<const shape&>(s) : static_cast<const shape&>(h), n >> 1);
}

ENTRY local_arrays(const word* in, word* out) {
  int a[32];
  for (int i = 0; i < 32; i++) a[i] = static_cast<int>(in[(thread() + i) & 255]);
  for (int i = 0; i < 31; i++)
    for (int j = 0; j < 31 - i; j++)
      if (a[j] > a[j + 1]) {
        const int t = a[j];
        a[j] = a[j + 1];
        a[j + 1] = t;
      }
  word hash = 0;
  for (int i = 0; i < 32; i++) hash = hash * 31 + a[i];
  out[thread() * 4] = hash;
  unsigned char bytes[64];
  for (int i = 0; i < 64; i++) bytes[i] = in[thread()] >> (i & 7);
  out[thread() * 4 + 1] = bytes[in[256 + thread()] & 63];
  out[thread() * 4 + 2] = *reinterpret_cast<unsigned short*>(bytes + 2 * (in[512 + thread()] & 15));
}

// Lanes go many ways; at the end all of a warp must be together again.
ENTRY divergence(const word* in, word* out) {
  const int n = in[thread()] & 255;
  word h = 1;
  for (int i = 0; i < n; i++) {
    if (in[(thread() + i) & 255] & 1) {
      h = h * 6364136223846793005ull + i;
      if (h & 64) continue;
    } else {
      h ^= h >> 7;
      if ((h & 1023) == 5) break;
    }
    switch (h & 7) {
      case 0: h += 1; break;
      case 1: h *= 3; break;
      case 2: h -= 7; break;
      case 3: h ^= n; break;
      case 4: h = ~h; break;
      case 5: h <<= 1; break;
      default: h += i;
    }
  }
  out[thread() * 4] = h;
  out[thread() * 4 + 1] = __popc(__activemask());
}

ENTRY wide_integers(const word* in, word* out) {
  using s64 = long long;
  __int128 q = static_cast<__int128>(static_cast<s64>(in[thread()])) * static_cast<s64>(in[256 + thread()]);
  const s64 d = in[512 + thread()];
  q /= (d ? d : 1);
  out[thread() * 4] = q;
  out[thread() * 4 + 1] = q >> 64;
  unsigned __int128 u = in[thread()];
  u = (u << (in[256 + thread()] & 127)) % (in[512 + thread()] | 1);
  out[thread() * 4 + 2] = u;
  out[thread() * 4 + 3] = (static_cast<s64>(in[thread()]) >> (in[512 + thread()] & 63)) +
                          in[thread()] / (in[256 + thread()] | 1) +
                          static_cast<s64>(in[thread()]) % (static_cast<s64>(in[256 + thread()] | 1));
}

__constant__ int table[16] = {5, 3, 1, 7, 9, 11, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20};
__device__ int values[4] = {1, 2, 3, 4};
__device__ int* second_value = values + 1;
ENTRY constants(const word* in, word* out) {
  out[thread() * 4] = table[in[thread()] & 15] + second_value[in[thread()] & 1];
}

ENTRY double_functions(const word* in, word* out) {
  const double x = operand<double>(in, 2, 0), y = operand<double>(in, 2, 1);
  double* to = reinterpret_cast<double*>(out + thread() * 4);
  to[0] = sin(x);
  to[1] = cos(x);
  to[2] = exp(x);
  to[3] = pow(x, y);
}

ENTRY half_functions(const word* in, word* out) {
  const __half x = operand<__half>(in, 3, 0), y = operand<__half>(in, 3, 1), z = operand<__half>(in, 3, 2);
  __half* to = reinterpret_cast<__half*>(out + thread() * 4);
  to[0] = x + y;
  to[1] = x * y;
  to[2] = x - y;
  to[3] = x / y;
  to[4] = __hfma(x, y, z);
  to[5] = __hmax(x, y);
  to[6] = __hmin(x, y);
  to[7] = -x;
  to[8] = x < y ? x : z;
}

// What follows takes arguments of its own.

template <int N>
__device__ void transpose(float* a) {
  __shared__ float tile[N][N + 1];
  tile[threadIdx.y][threadIdx.x] = a[threadIdx.y * N + threadIdx.x];
  __syncthreads();
  a[threadIdx.y * N + threadIdx.x] = tile[threadIdx.x][threadIdx.y];
}
ENTRY transpose_16(float* a) { transpose<16>(a); }

ENTRY count_atomically(const int* in, int n, int* bins, float* sum, int* largest) {
  extern __shared__ int own[];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&own[in[i] & 63], 1);
    atomicAdd(sum, 1.0f);
    atomicMax(largest, in[i]);
  }
  __syncthreads();
  if (own[threadIdx.x]) atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

struct mixed {
  char c;
  double d;
  short s[3];
};
ENTRY print_things(mixed m, int n) {
  printf("%d|%5d|%-5d|%05u|%x|%lld|%c|%s|%%|%.2f|%g|%e\n", n, n, n, n, n, 1234567890123ll, m.c, "text", m.d, m.d, m.d);
  if (threadIdx.x == 1) printf("shorts %hd %hu\n", m.s[0], static_cast<unsigned short>(m.s[1]));
}

ENTRY assert_even(const int* in) { assert(in[threadIdx.x] % 2 == 0); }

struct node {
  node* next;
  int value;
};
ENTRY allocate_list(int* out, int n) {
  node* head = nullptr;
  for (int i = 0; i < n; i++) {
    node* fresh = static_cast<node*>(malloc(sizeof(node)));
    fresh->next = head;
    fresh->value = i;
    head = fresh;
  }
  int sum = 0;
  while (head) {
    sum += head->value;
    node* gone = head;
    head = head->next;
    free(gone);
  }
  out[threadIdx.x] = sum;
}

// Every block adds what all blocks wrote before the grid met.
ENTRY grid_sums(int* parts, int* out) {
  auto grid = cg::this_grid();
  if (!grid.is_valid()) return;
  parts[grid.thread_rank()] = grid.thread_rank();
  grid.sync();
  int sum = 0;
  for (unsigned i = 0; i < grid.size(); ++i) sum += parts[i];
  grid.sync();
  out[grid.thread_rank()] = sum;
}

// Each lane takes the same lock in turn.
ENTRY lock_in_turn(int* lock, int* counter) {
  for (bool done = false; !done;) {
    if (atomicCAS(lock, 0, 1) == 0) {
      counter[0] = counter[0] + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

// A lane waits for a later lane of its own warp.
ENTRY wait_for_neighbour(volatile int* flags) {
  if (threadIdx.x % 2 == 0) {
    while (flags[threadIdx.x + 1] == 0) {
    }
    flags[threadIdx.x] = 2;
  } else {
    flags[threadIdx.x] = 1;
  }
}
