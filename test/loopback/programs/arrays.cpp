// SPDX-License-Identifier: Apache-2.0
// Arrays and copies of boxes, small and large, packed and with gaps, on every pair of sides; texture and surface objects as
// far as making them goes. Every byte is compared with what a plain loop gives. Runs natively as well.
#include <cstring>

#include "test/loopback/programs/common.hpp"

static void say(const char* what, CUresult r) { std::printf("%s: %s\n", what, name_of(r)); }

using bytes = std::vector<unsigned char>;

static bytes pattern(std::size_t count, unsigned seed) {
  bytes b(count);
  for (std::size_t i = 0; i < count; ++i) b[i] = static_cast<unsigned char>((i * 131 + seed) >> 3 ^ i);
  return b;
}

struct strided {
  std::size_t pitch, height, x, y, z;
  std::size_t at(std::size_t i, std::size_t j, std::size_t k) const {
    return ((z + k) * height + y + j) * pitch + x + i;
  }
  std::size_t bytes_for(std::size_t depth) const { return pitch * height * (z + depth); }
};

// Host to device with gaps, device to device, device to host with other gaps; all that lies between stays as it was.
static void boxes(std::size_t w, std::size_t h, std::size_t d, bool in_stream) {
  const strided a{w + 13, h + 2, 5, 1, 1}, b{w + 64, h + 1, 16, 0, 1}, c{w + 3, h + 3, 2, 3, 0};
  const bytes sent = pattern(a.bytes_for(d), 7);
  bytes seen = pattern(c.bytes_for(d), 9);
  const bytes before = seen;
  CUdeviceptr first, second;
  CHECK(cuMemAlloc(&first, b.bytes_for(d)));
  CHECK(cuMemAlloc(&second, c.bytes_for(d)));
  CHECK(cuMemsetD8(first, 0xee, b.bytes_for(d)));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuCtxSynchronize());
  const auto copy = [&](const strided& from, const strided& to, auto&& sides) {
    CUDA_MEMCPY3D m{};
    m.srcXInBytes = from.x, m.srcY = from.y, m.srcZ = from.z, m.srcPitch = from.pitch, m.srcHeight = from.height;
    m.dstXInBytes = to.x, m.dstY = to.y, m.dstZ = to.z, m.dstPitch = to.pitch, m.dstHeight = to.height;
    m.WidthInBytes = w, m.Height = h, m.Depth = d;
    sides(m);
    if (in_stream) CHECK(cuMemcpy3DAsync(&m, stream));
    else CHECK(cuMemcpy3D(&m));
  };
  copy(a, b, [&](CUDA_MEMCPY3D& m) {
    m.srcMemoryType = CU_MEMORYTYPE_HOST, m.srcHost = sent.data();
    m.dstMemoryType = CU_MEMORYTYPE_DEVICE, m.dstDevice = first;
  });
  copy(b, c, [&](CUDA_MEMCPY3D& m) {
    m.srcMemoryType = CU_MEMORYTYPE_DEVICE, m.srcDevice = first;
    m.dstMemoryType = CU_MEMORYTYPE_DEVICE, m.dstDevice = second;
  });
  copy(c, c, [&](CUDA_MEMCPY3D& m) {
    m.srcMemoryType = CU_MEMORYTYPE_DEVICE, m.srcDevice = second;
    m.dstMemoryType = CU_MEMORYTYPE_HOST, m.dstHost = seen.data();
  });
  CHECK(cuStreamSynchronize(stream));
  bytes wanted = before;
  for (std::size_t k = 0; k < d; ++k)
    for (std::size_t j = 0; j < h; ++j)
      for (std::size_t i = 0; i < w; ++i) wanted[c.at(i, j, k)] = sent[a.at(i, j, k)];
  REQUIRE(seen == wanted);
  bytes around(b.bytes_for(d));
  CHECK(cuMemcpyDtoH(around.data(), first, around.size()));
  bytes expected(around.size(), 0xee);
  for (std::size_t k = 0; k < d; ++k)
    for (std::size_t j = 0; j < h; ++j)
      for (std::size_t i = 0; i < w; ++i) expected[b.at(i, j, k)] = sent[a.at(i, j, k)];
  REQUIRE(around == expected);
  CHECK(cuStreamDestroy(stream));
  CHECK(cuMemFree(first));
  CHECK(cuMemFree(second));
}

static void array_there_and_back(std::size_t width, std::size_t height, std::size_t depth, unsigned flags) {
  CUDA_ARRAY3D_DESCRIPTOR wanted{}, told{};
  wanted.Width = width, wanted.Height = height, wanted.Depth = depth;
  wanted.Format = CU_AD_FORMAT_FLOAT, wanted.NumChannels = 4, wanted.Flags = flags;
  CUarray array;
  CHECK(cuArray3DCreate(&array, &wanted));
  CHECK(cuArray3DGetDescriptor(&told, array));
  REQUIRE(told.Width == width && told.Height == height && told.Depth == depth && told.Format == CU_AD_FORMAT_FLOAT &&
          told.NumChannels == 4 && told.Flags == flags);
  const std::size_t row = width * 16, rows = std::max<std::size_t>(height, 1), slices = std::max<std::size_t>(depth, 1);
  const bytes sent = pattern((row + 8) * rows * slices, 3);
  bytes seen((row + 24) * rows * slices, 0x55);
  CUDA_MEMCPY3D m{};
  m.srcMemoryType = CU_MEMORYTYPE_HOST, m.srcHost = sent.data(), m.srcPitch = row + 8, m.srcHeight = rows;
  m.dstMemoryType = CU_MEMORYTYPE_ARRAY, m.dstArray = array;
  m.WidthInBytes = row, m.Height = rows, m.Depth = slices;
  CHECK(cuMemcpy3D(&m));
  CUDA_MEMCPY3D n{};
  n.srcMemoryType = CU_MEMORYTYPE_ARRAY, n.srcArray = array;
  n.dstMemoryType = CU_MEMORYTYPE_HOST, n.dstHost = seen.data(), n.dstPitch = row + 24, n.dstHeight = rows;
  n.WidthInBytes = row, n.Height = rows, n.Depth = slices;
  CHECK(cuMemcpy3D(&n));
  for (std::size_t r = 0; r < rows * slices; ++r)
    REQUIRE(std::memcmp(&seen[r * (row + 24)], &sent[r * (row + 8)], row) == 0 && seen[r * (row + 24) + row] == 0x55);
  CHECK(cuArrayDestroy(array));
}

static void rows_of_arrays() {
  CUDA_ARRAY_DESCRIPTOR wanted{}, told{};
  wanted.Width = 1000, wanted.Height = 0, wanted.Format = CU_AD_FORMAT_UNSIGNED_INT8, wanted.NumChannels = 1;
  CUarray a, b;
  CHECK(cuArrayCreate(&a, &wanted));
  CHECK(cuArrayCreate(&b, &wanted));
  CHECK(cuArrayGetDescriptor(&told, a));
  REQUIRE(told.Width == 1000 && told.Height == 0 && told.NumChannels == 1);
  const bytes sent = pattern(1000, 1);
  bytes seen(1000);
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 1000));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, 0));
  CHECK(cuMemcpyHtoA(a, 0, sent.data(), 1000));
  CHECK(cuMemcpyAtoA(b, 100, a, 50, 700));
  CHECK(cuMemcpyAtoD(memory, b, 100, 700));
  CHECK(cuMemcpyDtoA(a, 300, memory, 700));
  CHECK(cuMemcpyHtoAAsync(a, 0, sent.data() + 5, 20, stream));
  CHECK(cuMemcpyAtoHAsync(seen.data(), a, 0, 1000, stream));
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(std::memcmp(&seen[300], &sent[50], 700) == 0 && std::memcmp(&seen[0], &sent[5], 20) == 0 &&
          std::memcmp(&seen[20], &sent[20], 280) == 0);
  bytes part(10);
  CHECK(cuMemcpyAtoH(part.data(), a, 300, 10));
  REQUIRE(std::memcmp(part.data(), &sent[50], 10) == 0);
  CHECK(cuArrayDestroy(a));
  CHECK(cuArrayDestroy(b));
  CHECK(cuMemFree(memory));
  CHECK(cuStreamDestroy(stream));
}

static void plain_2d() {
  const std::size_t w = 300, h = 40;
  CUdeviceptr memory;
  std::size_t pitch = 0;
  CHECK(cuMemAllocPitch(&memory, &pitch, w, h, 4));
  const bytes sent = pattern(w * h, 11);
  bytes seen(w * h);
  CUDA_MEMCPY2D m{};
  m.srcMemoryType = CU_MEMORYTYPE_HOST, m.srcHost = sent.data(), m.srcPitch = w;
  m.dstMemoryType = CU_MEMORYTYPE_DEVICE, m.dstDevice = memory, m.dstPitch = pitch;
  m.WidthInBytes = w, m.Height = h;
  CHECK(cuMemcpy2D(&m));
  CUDA_MEMCPY2D n{};
  n.srcMemoryType = CU_MEMORYTYPE_UNIFIED, n.srcDevice = memory, n.srcPitch = pitch;
  n.dstMemoryType = CU_MEMORYTYPE_HOST, n.dstHost = seen.data(), n.dstPitch = w;
  n.WidthInBytes = w, n.Height = h;
  CHECK(cuMemcpy2DUnaligned(&n));
  REQUIRE(seen == sent);
  m.srcPitch = w - 1;
  say("a pitch below the width", cuMemcpy2D(&m));
  say("no description", cuMemcpy2D(nullptr));
  m.srcPitch = w, m.srcHost = nullptr;
  say("no memory", cuMemcpy2D(&m));
  m.srcHost = sent.data(), m.Height = 0;
  say("no rows", cuMemcpy2D(&m));
  m.Height = h, m.dstMemoryType = static_cast<CUmemorytype>(9);
  say("no kind of memory", cuMemcpy2D(&m));
  CHECK(cuMemFree(memory));
}

static void levels() {
  CUDA_ARRAY3D_DESCRIPTOR wanted{};
  wanted.Width = 64, wanted.Height = 32, wanted.Format = CU_AD_FORMAT_UNSIGNED_INT32, wanted.NumChannels = 1;
  CUmipmappedArray whole;
  CHECK(cuMipmappedArrayCreate(&whole, &wanted, 4));
  for (unsigned level = 0; level < 4; ++level) {
    CUarray part;
    CUDA_ARRAY3D_DESCRIPTOR told{};
    CHECK(cuMipmappedArrayGetLevel(&part, whole, level));
    CHECK(cuArray3DGetDescriptor(&told, part));
    std::printf("level %u: %zu x %zu\n", level, told.Width, told.Height);
    const std::size_t row = told.Width * 4;
    const bytes sent = pattern(row * told.Height, level);
    bytes seen(sent.size());
    CUDA_MEMCPY2D m{};
    m.srcMemoryType = CU_MEMORYTYPE_HOST, m.srcHost = sent.data(), m.srcPitch = row;
    m.dstMemoryType = CU_MEMORYTYPE_ARRAY, m.dstArray = part;
    m.WidthInBytes = row, m.Height = told.Height;
    CHECK(cuMemcpy2D(&m));
    CUDA_MEMCPY2D n{};
    n.srcMemoryType = CU_MEMORYTYPE_ARRAY, n.srcArray = part;
    n.dstMemoryType = CU_MEMORYTYPE_HOST, n.dstHost = seen.data(), n.dstPitch = row;
    n.WidthInBytes = row, n.Height = told.Height;
    CHECK(cuMemcpy2D(&n));
    REQUIRE(seen == sent);
  }
  CUarray none;
  say("a level that is not there", cuMipmappedArrayGetLevel(&none, whole, 9));
  CHECK(cuMipmappedArrayDestroy(whole));
}

static void objects() {
  CUDA_ARRAY3D_DESCRIPTOR wanted{};
  wanted.Width = 16, wanted.Height = 16, wanted.Format = CU_AD_FORMAT_FLOAT, wanted.NumChannels = 1;
  wanted.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  CUarray array;
  CHECK(cuArray3DCreate(&array, &wanted));
  CUDA_RESOURCE_DESC resource{}, told{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  CUDA_TEXTURE_DESC settings{}, settings_told{};
  settings.addressMode[0] = settings.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  settings.filterMode = CU_TR_FILTER_MODE_LINEAR;
  settings.flags = CU_TRSF_NORMALIZED_COORDINATES;
  CUtexObject texture;
  CUsurfObject surface;
  CHECK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  CHECK(cuSurfObjectCreate(&surface, &resource));
  CHECK(cuTexObjectGetResourceDesc(&told, texture));
  REQUIRE(told.resType == CU_RESOURCE_TYPE_ARRAY && told.res.array.hArray == array);
  CHECK(cuTexObjectGetTextureDesc(&settings_told, texture));
  REQUIRE(settings_told.filterMode == CU_TR_FILTER_MODE_LINEAR && settings_told.flags == settings.flags);
  CHECK(cuSurfObjectGetResourceDesc(&told, surface));
  REQUIRE(told.res.array.hArray == array);
  CHECK(cuTexObjectDestroy(texture));
  CHECK(cuSurfObjectDestroy(surface));
  CHECK(cuArrayDestroy(array));
  say("a texture of nothing", cuTexObjectCreate(&texture, nullptr, &settings, nullptr));
}

static void batch() {
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr a, b;
  CHECK(cuMemAlloc(&a, 4096));
  CHECK(cuMemAlloc(&b, 4096));
  CHECK(cuMemsetD8(b, 0x22, 4096));
  CHECK(cuCtxSynchronize());
  const bytes sent = pattern(4096, 5);
  bytes seen(4096);
  CUdeviceptr to[] = {a, a + 1024}, from[] = {reinterpret_cast<CUdeviceptr>(sent.data()), b};
  std::size_t sizes[] = {1024, 2048}, first = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  CHECK(cuMemcpyBatchAsync(to, from, sizes, 2, &attributes, &first, 1, stream));
  CHECK(cuMemcpyDtoHAsync(seen.data(), a, 4096, stream));
  CHECK(cuStreamSynchronize(stream));
  REQUIRE(std::memcmp(seen.data(), sent.data(), 1024) == 0 && seen[1024] == 0x22 && seen[3071] == 0x22);
  say("a batch of nothing", cuMemcpyBatchAsync(to, from, sizes, 0, &attributes, &first, 1, stream));
  say("a batch without attributes", cuMemcpyBatchAsync(to, from, sizes, 2, nullptr, &first, 1, stream));
  CHECK(cuMemFree(a));
  CHECK(cuMemFree(b));
  CHECK(cuStreamDestroy(stream));
}

int main() {
  gpu g;
  for (const bool in_stream : {false, true}) {
    boxes(1, 1, 1, in_stream);
    boxes(17, 5, 3, in_stream);
    boxes(1000, 100, 4, in_stream);    // below what travels in a command
    boxes(1333, 700, 5, in_stream);    // several chunks, none of which ends with a row
    boxes(3 << 20, 3, 1, in_stream);   // rows longer than a chunk
  }
  boxes(40000, 1000, 1, false);        // more than is packed at once
  std::printf("boxes arrive whole\n");
  array_there_and_back(64, 0, 0, 0);
  array_there_and_back(100, 37, 0, 0);
  array_there_and_back(128, 500, 20, 0);
  array_there_and_back(33, 20, 6, CUDA_ARRAY3D_LAYERED);
  std::printf("arrays keep what they are given\n");
  rows_of_arrays();
  plain_2d();
  levels();
  objects();
  batch();
  std::printf("PASSED\n");
  return 0;
}
