// SPDX-License-Identifier: Apache-2.0
// Loops over lanes and typed access to lane values. The full-warp loop is written for the
// vectoriser.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "executor.hpp"

#if defined(__clang__)
#define GPUWIRE_INDEPENDENT_LANES _Pragma("clang loop vectorize(assume_safety)")
#else
#define GPUWIRE_INDEPENDENT_LANES _Pragma("GCC ivdep")
#endif

namespace gpuwire::softgpu::ptx {

template <class Function>
inline void for_lanes(std::uint32_t lanes, Function&& function) {
  if (lanes == all_lanes) {
    GPUWIRE_INDEPENDENT_LANES
    for (std::uint32_t lane = 0; lane < warp_lanes; ++lane) function(lane);
    return;
  }
  for (; lanes != 0; lanes &= lanes - 1)
    function(static_cast<std::uint32_t>(std::countr_zero(lanes)));
}

template <std::size_t Bytes>
using unsigned_of = std::conditional_t<
    Bytes == 1, std::uint8_t,
    std::conditional_t<Bytes == 2, std::uint16_t,
                       std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
inline T get(const std::byte* lanes, std::uint32_t lane) {
  if constexpr (sizeof(T) >= 4) {
    T value;
    std::memcpy(&value, lanes + lane * sizeof(T), sizeof value);
    return value;
  } else {
    std::uint32_t word;
    std::memcpy(&word, lanes + lane * 4, sizeof word);
    return std::bit_cast<T>(static_cast<unsigned_of<sizeof(T)>>(word));
  }
}

template <class T>
inline void put(std::byte* lanes, std::uint32_t lane, T value) {
  if constexpr (sizeof(T) >= 4) {
    std::memcpy(lanes + lane * sizeof(T), &value, sizeof value);
  } else {
    const std::uint32_t word = std::bit_cast<unsigned_of<sizeof(T)>>(value);
    std::memcpy(lanes + lane * 4, &word, sizeof word);
  }
}

// d = Op(a), d = Op(a, b), d = Op(a, b, c): Op is a stateless function object.
template <class Op, class D, class A = D>
void unary(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  for_lanes(lanes, [=](std::uint32_t l) { put<D>(d, l, Op{}(get<A>(a, l))); });
}

template <class Op, class D, class A = D, class B = A>
void binary(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const std::byte* b = x.in(i.o[2]);
  for_lanes(lanes, [=](std::uint32_t l) { put<D>(d, l, Op{}(get<A>(a, l), get<B>(b, l))); });
}

template <class Op, class D, class A = D, class B = A, class C = D>
void ternary(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const std::byte* a = x.in(i.o[1]);
  const std::byte* b = x.in(i.o[2]);
  const std::byte* c = x.in(i.o[3]);
  for_lanes(lanes,
            [=](std::uint32_t l) { put<D>(d, l, Op{}(get<A>(a, l), get<B>(b, l), get<C>(c, l))); });
}

}  // namespace gpuwire::softgpu::ptx
