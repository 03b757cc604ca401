// SPDX-License-Identifier: Apache-2.0
// Kernels that read textures and surfaces in every way that a test asks for.
#include <cuda_runtime.h>

template <typename Value>
__device__ void put(float4* out, Value v) {
  *out = make_float4(v.x, v.y, v.z, v.w);
}

extern "C" {
__global__ void fetch_1d(cudaTextureObject_t from, const int* at, int* out) {
  out[threadIdx.x] = tex1Dfetch<int>(from, at[threadIdx.x]);
}

__global__ void sample_1d(cudaTextureObject_t from, const float* at, float* out) {
  out[threadIdx.x] = tex1D<float>(from, at[threadIdx.x]);
}

__global__ void sample_2d(cudaTextureObject_t from, const float2* at, float* out) {
  out[threadIdx.x] = tex2D<float>(from, at[threadIdx.x].x, at[threadIdx.x].y);
}

__global__ void sample_2d_four(cudaTextureObject_t from, const float2* at, float4* out) {
  out[threadIdx.x] = tex2D<float4>(from, at[threadIdx.x].x, at[threadIdx.x].y);
}

__global__ void sample_2d_bytes(cudaTextureObject_t from, const float2* at, float4* out) {
  put(out + threadIdx.x, tex2D<uchar4>(from, at[threadIdx.x].x, at[threadIdx.x].y));
}

__global__ void sample_2d_level(cudaTextureObject_t from, const float4* at, float* out) {
  const float4 p = at[threadIdx.x];
  out[threadIdx.x] = tex2DLod<float>(from, p.x, p.y, p.z);
}

__global__ void sample_2d_gradient(cudaTextureObject_t from, const float4* at, float* out) {
  const float4 p = at[threadIdx.x];
  out[threadIdx.x] = tex2DGrad<float>(from, p.x, p.y, make_float2(p.z, 0), make_float2(0, p.w));
}

__global__ void gather_2d(cudaTextureObject_t from, const float2* at, float4* out) {
  out[threadIdx.x] = tex2Dgather<float4>(from, at[threadIdx.x].x, at[threadIdx.x].y, 0);
}

__global__ void sample_3d(cudaTextureObject_t from, const float4* at, float* out) {
  const float4 p = at[threadIdx.x];
  out[threadIdx.x] = tex3D<float>(from, p.x, p.y, p.z);
}

__global__ void sample_layers(cudaTextureObject_t from, const float4* at, float* out) {
  const float4 p = at[threadIdx.x];
  out[threadIdx.x] = tex2DLayered<float>(from, p.x, p.y, static_cast<int>(p.z));
}

__global__ void sample_cube(cudaTextureObject_t from, const float4* at, float* out) {
  const float4 p = at[threadIdx.x];
  out[threadIdx.x] = texCubemap<float>(from, p.x, p.y, p.z);
}

__global__ void turn_surface(cudaSurfaceObject_t from, cudaSurfaceObject_t to, int width, int height) {
  const int x = threadIdx.x, y = threadIdx.y;
  if (x >= width || y >= height) return;
  float value;
  surf2Dread(&value, from, x * 4, y);
  surf2Dwrite(value + 100.0f, to, (width - 1 - x) * 4, height - 1 - y);
}

__global__ void surface_edges(cudaSurfaceObject_t on, float* out) {
  out[0] = surf2Dread<float>(on, -4, 0, cudaBoundaryModeZero);
  out[1] = surf2Dread<float>(on, -4, 0, cudaBoundaryModeClamp);
  out[2] = surf2Dread<float>(on, 400, 1, cudaBoundaryModeClamp);
  surf2Dwrite(77.0f, on, 400, 0, cudaBoundaryModeZero);
}

__global__ void surface_layers(cudaSurfaceObject_t on) {
  surf2DLayeredwrite(make_uchar4(threadIdx.x, threadIdx.y, threadIdx.z, 255), on, threadIdx.x * 4, threadIdx.y,
                     threadIdx.z);
}

__global__ void surface_outside(cudaSurfaceObject_t on) { surf2Dwrite(1.0f, on, 4000, 0); }
}
