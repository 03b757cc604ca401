// SPDX-License-Identifier: Apache-2.0
// From a PTX type to the handler instantiated for the C++ type that holds it.
#pragma once

#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {

// binary_of<Op>::of<T> is a function template's stand-in, so that a selection can take it as a
// template argument.
template <class Op>
struct unary_of {
  template <class T>
  struct of {
    static constexpr handler run = unary<Op, T>;
  };
};
template <class Op>
struct binary_of {
  template <class T>
  struct of {
    static constexpr handler run = binary<Op, T>;
  };
};
template <class Op>
struct ternary_of {
  template <class T>
  struct of {
    static constexpr handler run = ternary<Op, T>;
  };
};

template <template <class> class Handler>
handler select_integer(type t) {
  switch (t) {
    case type::b16:
    case type::u16:
      return Handler<std::uint16_t>::run;
    case type::b32:
    case type::u32:
      return Handler<std::uint32_t>::run;
    case type::b64:
    case type::u64:
      return Handler<std::uint64_t>::run;
    case type::s16:
      return Handler<std::int16_t>::run;
    case type::s32:
      return Handler<std::int32_t>::run;
    case type::s64:
      return Handler<std::int64_t>::run;
    default:
      return nullptr;
  }
}

template <template <class> class Handler>
handler select_bits(type t) {
  switch (bytes_of(t)) {
    case 2:
      return Handler<std::uint16_t>::run;
    case 4:
      return Handler<std::uint32_t>::run;
    case 8:
      return Handler<std::uint64_t>::run;
    default:
      return nullptr;
  }
}

template <template <class> class Handler>
handler select_floating(type t) {
  switch (t) {
    case type::f32:
      return Handler<float>::run;
    case type::f64:
      return Handler<double>::run;
    default:
      return nullptr;
  }
}

}  // namespace gpuwire::softgpu::ptx
