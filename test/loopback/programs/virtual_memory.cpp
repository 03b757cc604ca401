// SPDX-License-Identifier: Apache-2.0
// Virtual memory management as expandable segments use it: reserve, create, map, grant, use, unmap, release, piece by piece.
// Runs natively as well.
#include "test/loopback/programs/common.hpp"

static void say(const char* what, CUresult r) { std::printf("%s: %s\n", what, name_of(r)); }

static std::size_t unit;
static CUmemAllocationProp properties{};
static CUmemAccessDesc access_here{};

static CUmemGenericAllocationHandle create(std::size_t bytes) {
  CUmemGenericAllocationHandle handle = 0;
  CHECK(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

static void segments(const gpu& g) {
  CUdeviceptr base = 0;
  constexpr unsigned pieces = 4;
  CHECK(cuMemAddressReserve(&base, unit * 64, 0, 0, 0));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const auto count = static_cast<unsigned>(pieces * unit / sizeof(int));
  std::vector<int> seen(count), sent(count);
  for (int round = 0; round < 3; ++round) {
    for (unsigned i = 0; i < pieces; ++i) {
      const auto handle = create(unit);
      CHECK(cuMemMap(base + i * unit, unit, 0, handle, 0));
      CHECK(cuMemRelease(handle));  // the mapping keeps it
    }
    CHECK(cuMemSetAccess(base, pieces * unit, &access_here, 1));
    // One kernel and one copy through all the pieces.
    g.launch_fill(base, 7 + round, count, stream);
    CHECK(cuMemcpyDtoHAsync(seen.data(), base, seen.size() * sizeof(int), stream));
    CHECK(cuStreamSynchronize(stream));
    for (const int v : seen) REQUIRE(v == 7 + round);
    for (unsigned i = 0; i < count; ++i) sent[i] = static_cast<int>(i * 3u) + round;
    CHECK(cuMemcpyHtoDAsync(base, sent.data(), sent.size() * sizeof(int), stream));
    CHECK(cuMemcpyHtoDAsync(base + unit - 8, sent.data(), 16, stream));  // over a seam
    CHECK(cuMemcpyDtoHAsync(seen.data(), base, seen.size() * sizeof(int), stream));
    CHECK(cuStreamSynchronize(stream));
    const auto seam = unit / sizeof(int) - 2;
    for (unsigned i = 0; i < count; ++i)
      REQUIRE(seen[i] == (i >= seam && i < seam + 4 ? sent[i - seam] : sent[i]));
    CHECK(cuCtxSynchronize());
    for (unsigned i = 0; i < pieces; ++i) CHECK(cuMemUnmap(base + i * unit, unit));
  }
  say("copying to what is not mapped any more", cuMemcpyHtoD(base, sent.data(), 64));
  say("copying from what is not mapped any more", cuMemcpyDtoH(seen.data(), base, 64));
  say("freeing part of a range", cuMemAddressFree(base, unit));
  CHECK(cuMemAddressFree(base, unit * 64));
  CHECK(cuStreamDestroy(stream));
  std::printf("segments grow and shrink\n");
}

// Where an allocation was, a range may lie later.
static void where_an_allocation_was() {
  CUdeviceptr old = 0, base = 0;
  CHECK(cuMemAlloc(&old, 4 * unit));
  CHECK(cuMemFree(old));
  CHECK(cuMemAddressReserve(&base, 2 * unit, 0, (old + unit - 1) / unit * unit, 0));
  const auto handle = create(2 * unit);
  CHECK(cuMemMap(base, 2 * unit, 0, handle, 0));
  CHECK(cuMemSetAccess(base, 2 * unit, &access_here, 1));
  CHECK(cuMemsetD32(base, 42, unit / sizeof(int)));
  int seen = 0;
  CHECK(cuMemcpyDtoH(&seen, base, sizeof seen));
  REQUIRE(seen == 42);
  CHECK(cuMemUnmap(base, 2 * unit));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(base, 2 * unit));
  std::printf("a range lies where an allocation was\n");
}

static void details(const gpu& g) {
  CUdeviceptr base = 0;
  CHECK(cuMemAddressReserve(&base, unit * 4, 0, 0, 0));
  const auto handle = create(2 * unit);
  CHECK(cuMemMap(base + unit, 2 * unit, 0, handle, 0));
  unsigned long long flags = 99;
  CHECK(cuMemGetAccess(&flags, &access_here.location, base + unit));
  std::printf("access before it is granted: %llu\n", flags);
  CHECK(cuMemSetAccess(base + unit, 2 * unit, &access_here, 1));
  CHECK(cuMemGetAccess(&flags, &access_here.location, base + unit));
  std::printf("and after: %llu\n", flags);

  CUmemorytype type{};
  int device = -1, managed = -1;
  CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base + unit + 5));
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, base + unit + 5));
  CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base + unit + 5));
  std::printf("type %d, device %d, managed %d\n", type, device == g.device ? 0 : 1, managed & 1);
  say("the type of what is only reserved", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));

  CUmemGenericAllocationHandle again = 0;
  CHECK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(base + unit)));
  std::printf("retained: %s handle\n", again == handle ? "the same" : "another");
  CUmemAllocationProp seen{};
  CHECK(cuMemGetAllocationPropertiesFromHandle(&seen, again));
  REQUIRE(seen.type == CU_MEM_ALLOCATION_TYPE_PINNED && seen.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
          seen.location.id == g.device);
  CHECK(cuMemRelease(again));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemsetD32(base + unit, 5, unit / 4));
  CHECK(cuMemUnmap(base + unit, 2 * unit));
  say("releasing once too often", cuMemRelease(handle));
  CHECK(cuMemAddressFree(base, unit * 4));

  // Two ranges for one allocation.
  CUdeviceptr other = 0;
  CHECK(cuMemAddressReserve(&base, unit, 0, 0, 0));
  CHECK(cuMemAddressReserve(&other, unit, 0, 0, 0));
  const auto shared = create(unit);
  CHECK(cuMemMap(base, unit, 0, shared, 0));
  CHECK(cuMemMap(other, unit, 0, shared, 0));
  CHECK(cuMemRelease(shared));
  CHECK(cuMemSetAccess(base, unit, &access_here, 1));
  CHECK(cuMemSetAccess(other, unit, &access_here, 1));
  unsigned value = 0;
  CHECK(cuMemsetD32(base + 16, 1234, 1));
  CHECK(cuMemcpyDtoH(&value, other + 16, sizeof value));
  REQUIRE(value == 1234);
  CHECK(cuMemUnmap(base, unit));
  CHECK(cuMemUnmap(other, unit));
  CHECK(cuMemAddressFree(base, unit));
  CHECK(cuMemAddressFree(other, unit));
  std::printf("one allocation, two ranges\n");
}

static void codes(const gpu&) {
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp wrong = properties;
  say("reserving nothing", cuMemAddressReserve(&base, 0, 0, 0, 0));
  say("reserving an odd size", cuMemAddressReserve(&base, 12345, 0, 0, 0));
  say("reserving nowhere", cuMemAddressReserve(nullptr, unit, 0, 0, 0));
  say("reserving with flags", cuMemAddressReserve(&base, unit, 0, 0, 1));
  say("creating nothing", cuMemCreate(&handle, 0, &properties, 0));
  say("creating an odd size", cuMemCreate(&handle, 12345, &properties, 0));
  say("creating with flags", cuMemCreate(&handle, unit, &properties, 1));
  wrong.location.id = 99;
  say("creating on no device", cuMemCreate(&handle, unit, &wrong, 0));
  wrong = properties;
  wrong.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  say("creating of no type", cuMemCreate(&handle, unit, &wrong, 0));
  say("creating without properties", cuMemCreate(&handle, unit, nullptr, 0));
  say("releasing nothing", cuMemRelease(0));
  CHECK(cuMemAddressReserve(&base, 2 * unit, 0, 0, 0));
  handle = create(unit);
  say("mapping outside of a range", cuMemMap(base + 16 * unit, unit, 0, handle, 0));
  say("mapping more than there is", cuMemMap(base, 2 * unit, 0, handle, 0));
  say("mapping an odd size", cuMemMap(base, unit / 2, 0, handle, 0));
  CHECK(cuMemMap(base, unit, 0, handle, 0));
  say("mapping over a mapping", cuMemMap(base, unit, 0, handle, 0));
  say("granting what is not mapped", cuMemSetAccess(base + unit, unit, &access_here, 1));
  say("granting nothing", cuMemSetAccess(base, unit, nullptr, 0));
  say("unmapping what is not mapped", cuMemUnmap(base + unit, unit));
  CHECK(cuMemUnmap(base, unit));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(base, 2 * unit));
  say("freeing what is none", cuMemAddressFree(base, 2 * unit));
}

int main() {
  gpu g;
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, g.device));
  REQUIRE(supported == 1);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, g.device};
  access_here.location = properties.location;
  access_here.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  std::printf("granularity %zu\n", unit);
  segments(g);
  where_an_allocation_was();
  details(g);
  codes(g);
  std::printf("PASSED\n");
  return 0;
}
