// SPDX-License-Identifier: Apache-2.0
// Tensor maps: arrays as long as the rank says go in, 128 bytes come out. The program passes them
// to kernels by value, so they must be the driver's own, byte for byte.
#include <cstring>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"

namespace gpuwire::shim {
namespace {

enum class encoding : std::uint8_t { tiled = 0, im2col = 1, im2col_wide = 2, replace_address = 3 };

// The bits of `given`, in the order of the message's arrays.
enum array_bit : std::uint32_t {
  dimensions_bit = 1,
  strides_bit = 2,
  box_bit = 4,
  element_strides_bit = 8,
  lower_bit = 16,
  upper_bit = 32,
};

constexpr std::uint32_t rank_max = 5;
constexpr std::uintptr_t map_alignment = 64;

class encoder {
 public:
  encoder(encoding kind, std::uint32_t rank) {
    q_.kind = static_cast<std::uint8_t>(kind);
    q_.rank = rank;
    // A rank that cannot be is refused by the driver before it looks at an array.
    rank_ = rank <= rank_max ? rank : 0;
  }
  msg::tensor_map::request* operator->() { return &q_; }

  template <class Wire, class Native>
  void array(wire::array_view<Wire>& field, array_bit bit, const Native* values,
             std::uint32_t fewer = 0) {
    static_assert(sizeof(Wire) == sizeof(Native));
    if (values == nullptr) return;
    q_.given |= bit;
    const std::uint32_t count = rank_ > fewer ? rank_ - fewer : 0;
    field = {reinterpret_cast<const Wire*>(values), count};
  }

  CUresult encode(CUtensorMap* map) {
    if (reinterpret_cast<std::uintptr_t>(map) % map_alignment != 0) return CUDA_ERROR_INVALID_VALUE;
    q_.map_given = map != nullptr;
    // Nothing is given to the GPU, so an error of earlier work is not this call's to report.
    const auto a = transact<msg::tensor_map>(q_, {}, errors_first::no);
    if (a.result != CUDA_SUCCESS) return a.result;
    if (map == nullptr || a.body.encoded.size != sizeof *map) return CUDA_ERROR_UNKNOWN;
    std::memcpy(map, a.body.encoded.data, sizeof *map);
    return CUDA_SUCCESS;
  }

 private:
  msg::tensor_map::request q_;
  std::uint32_t rank_;
};

}  // namespace

namespace custom {

CUresult cuTensorMapEncodeTiled(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                cuuint32_t tensorRank, void* globalAddress,
                                const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                const cuuint32_t* boxDim, const cuuint32_t* elementStrides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2Promotion,
                                CUtensorMapFloatOOBfill oobFill) {
  encoder e(encoding::tiled, tensorRank);
  e->data_type = static_cast<std::uint32_t>(tensorDataType);
  e->address = reinterpret_cast<std::uint64_t>(globalAddress);
  e->interleave = static_cast<std::uint32_t>(interleave);
  e->swizzle = static_cast<std::uint32_t>(swizzle);
  e->promotion = static_cast<std::uint32_t>(l2Promotion);
  e->out_of_bounds = static_cast<std::uint32_t>(oobFill);
  e.array(e->dimensions, dimensions_bit, globalDim);
  e.array(e->strides, strides_bit, globalStrides, 1);  // the innermost stride is the element's size
  e.array(e->box, box_bit, boxDim);
  e.array(e->element_strides, element_strides_bit, elementStrides);
  return e.encode(tensorMap);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType,
                                 cuuint32_t tensorRank, void* globalAddress,
                                 const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
                                 const int* pixelBoxLowerCorner, const int* pixelBoxUpperCorner,
                                 cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                 const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                 CUtensorMapFloatOOBfill oobFill) {
  encoder e(encoding::im2col, tensorRank);
  e->data_type = static_cast<std::uint32_t>(tensorDataType);
  e->address = reinterpret_cast<std::uint64_t>(globalAddress);
  e->channels = channelsPerPixel;
  e->pixels = pixelsPerColumn;
  e->interleave = static_cast<std::uint32_t>(interleave);
  e->swizzle = static_cast<std::uint32_t>(swizzle);
  e->promotion = static_cast<std::uint32_t>(l2Promotion);
  e->out_of_bounds = static_cast<std::uint32_t>(oobFill);
  e.array(e->dimensions, dimensions_bit, globalDim);
  e.array(e->strides, strides_bit, globalStrides, 1);
  e.array(e->element_strides, element_strides_bit, elementStrides);
  // Corners exist for the spatial dimensions only: neither for channels nor for images.
  e.array(e->lower, lower_bit, pixelBoxLowerCorner, 2);
  e.array(e->upper, upper_bit, pixelBoxUpperCorner, 2);
  return e.encode(tensorMap);
}

CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap* tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void* globalAddress, const cuuint64_t* globalDim, const cuuint64_t* globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t* elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  encoder e(encoding::im2col_wide, tensorRank);
  e->data_type = static_cast<std::uint32_t>(tensorDataType);
  e->address = reinterpret_cast<std::uint64_t>(globalAddress);
  e->channels = channelsPerPixel;
  e->pixels = pixelsPerColumn;
  e->interleave = static_cast<std::uint32_t>(interleave);
  e->mode = static_cast<std::uint32_t>(mode);
  e->swizzle = static_cast<std::uint32_t>(swizzle);
  e->promotion = static_cast<std::uint32_t>(l2Promotion);
  e->out_of_bounds = static_cast<std::uint32_t>(oobFill);
  e.array(e->dimensions, dimensions_bit, globalDim);
  e.array(e->strides, strides_bit, globalStrides, 1);
  e.array(e->element_strides, element_strides_bit, elementStrides);
  const std::int32_t lower = pixelBoxLowerCornerWidth, upper = pixelBoxUpperCornerWidth;
  e->lower = {&lower, 1};
  e->upper = {&upper, 1};
  return e.encode(tensorMap);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap* tensorMap, void* globalAddress) {
  encoder e(encoding::replace_address, 0);
  e->address = reinterpret_cast<std::uint64_t>(globalAddress);
  if (tensorMap != nullptr)
    e->map = {reinterpret_cast<const std::byte*>(tensorMap), sizeof *tensorMap};
  return e.encode(tensorMap);
}

}  // namespace custom
}  // namespace gpuwire::shim
