// SPDX-License-Identifier: Apache-2.0
#include "texture_sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "float_math.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

using colour = std::array<float, 4>;

// Coordinates and weights are fixed-point numbers with this many fractional bits.
constexpr std::int64_t one = 256;
constexpr float coordinate_max = 1 << 24;

bool gives_floats(const texture& t) {
  switch (t.format.kind) {
    case channel_kind::f16:
    case channel_kind::f32:
      return true;
    case channel_kind::u32:
    case channel_kind::s32:
      return false;
    default:
      return t.format.always_normalised || !t.read_as_integer;
  }
}

float from_srgb(float v) {
  return v <= 0.04045f ? v / 12.92f : std::pow((v + 0.055f) / 1.055f, 2.4f);
}

template <class T>
T read(const std::byte* from, std::uint32_t channel) {
  T value;
  std::memcpy(&value, from + channel * sizeof(T), sizeof value);
  return value;
}

std::uint32_t bits(float v) {
  return std::bit_cast<std::uint32_t>(v);
}

std::uint32_t channel_value(const texture& t, const std::byte* texel, std::uint32_t n) {
  const bool floats = gives_floats(t);
  switch (t.format.kind) {
    case channel_kind::u8: {
      const auto v = read<std::uint8_t>(texel, n);
      if (!floats) return v;
      const float scaled = static_cast<float>(v) / 255.0f;
      return bits(t.srgb && n < 3 ? from_srgb(scaled) : scaled);
    }
    case channel_kind::u16: {
      const auto v = read<std::uint16_t>(texel, n);
      return floats ? bits(static_cast<float>(v) / 65535.0f) : v;
    }
    case channel_kind::s8: {
      const auto v = read<std::int8_t>(texel, n);
      return floats ? bits(std::max(static_cast<float>(v) / 127.0f, -1.0f))
                    : static_cast<std::uint32_t>(std::int32_t{v});
    }
    case channel_kind::s16: {
      const auto v = read<std::int16_t>(texel, n);
      return floats ? bits(std::max(static_cast<float>(v) / 32767.0f, -1.0f))
                    : static_cast<std::uint32_t>(std::int32_t{v});
    }
    case channel_kind::f16:
      return bits(from_half(read<std::uint16_t>(texel, n)));
    default:
      return read<std::uint32_t>(texel, n);
  }
}

sampled border_of(const texture& t) {
  sampled result{};
  for (std::size_t n = 0; n < 4; ++n) {
    result[n] = gives_floats(t) ? bits(t.border[n])
                                : static_cast<std::uint32_t>(static_cast<std::int64_t>(
                                      std::clamp(t.border[n], -2147483648.0f, 4294967040.0f)));
  }
  return result;
}

// The texel that stands at index i of `count`; -1 is the border.
std::int64_t place(std::int64_t i, std::int64_t count, address_mode mode, bool normalised) {
  if (i >= 0 && i < count) return i;
  // Only coordinates from 0 to 1 can repeat.
  if (!normalised && mode != address_mode::border) mode = address_mode::clamp;
  const auto remainder = [](std::int64_t value, std::int64_t by) { return (value % by + by) % by; };
  switch (mode) {
    case address_mode::wrap:
      return remainder(i, count);
    case address_mode::mirror:
      i = remainder(i, 2 * count);
      return i < count ? i : 2 * count - 1 - i;
    case address_mode::border:
      return -1;
    default:
      return std::clamp<std::int64_t>(i, 0, count - 1);
  }
}

class level_reader {
 public:
  level_reader(const texture& t, const image_level& level, const sample_request& wanted,
               texel_memory& memory)
      : t_(t), level_(level), wanted_(wanted), memory_(memory) {
    extent_ = {level.width, level.height, level.depth};
    plane_ = plane();
  }

  // False once a texel was not there.
  bool good() const { return good_; }

  sampled point() {
    std::array<std::int64_t, 3> i{};
    for (std::uint32_t axis = 0; axis < wanted_.dimensions; ++axis)
      i[axis] = static_cast<std::int64_t>(std::floor(coordinate(axis)));
    return fetch(i);
  }

  sampled whole_texel() {
    std::array<std::int64_t, 3> i{};
    for (std::uint32_t axis = 0; axis < wanted_.dimensions; ++axis) i[axis] = wanted_.texel[axis];
    if (t_.linear_memory && (i[0] < 0 || i[0] >= level_.width)) return {};
    return fetch(i);
  }

  sampled linear() {
    std::array<std::int64_t, 3> base{}, weight{};
    split(base, weight);
    colour sum{};
    for (std::uint32_t corner = 0; corner < 1u << wanted_.dimensions; ++corner) {
      auto i = base;
      float share = 1;
      for (std::uint32_t axis = 0; axis < wanted_.dimensions; ++axis) {
        const bool upper = (corner >> axis & 1) != 0;
        i[axis] += upper;
        share *=
            static_cast<float>(upper ? weight[axis] : one - weight[axis]) / static_cast<float>(one);
      }
      if (share == 0) continue;
      const auto texel = fetch(i);
      for (std::size_t n = 0; n < 4; ++n) sum[n] += share * std::bit_cast<float>(texel[n]);
    }
    return {bits(sum[0]), bits(sum[1]), bits(sum[2]), bits(sum[3])};
  }

  sampled gather(std::uint32_t channel) {
    std::array<std::int64_t, 3> base{}, weight{};
    split(base, weight);
    const auto at = [&](std::int64_t x, std::int64_t y) {
      return fetch({base[0] + x, base[1] + y, 0})[channel];
    };
    return {at(0, 1), at(1, 1), at(1, 0), at(0, 0)};
  }

 private:
  float coordinate(std::uint32_t axis) const {
    float v = wanted_.at[axis];
    if (std::isnan(v)) return 0;
    if (t_.normalised_coordinates || wanted_.cube) {
      // Whole turns are taken off first: they would cost precision.
      if (t_.modes[axis] == address_mode::wrap) v -= std::floor(v);
      if (t_.modes[axis] == address_mode::mirror) v -= 2 * std::floor(v / 2);
      v *= static_cast<float>(extent_[axis]);
    }
    return std::clamp(v, -coordinate_max, coordinate_max);
  }

  // The lower texel of each pair, and the weight of the upper one.
  void split(std::array<std::int64_t, 3>& base, std::array<std::int64_t, 3>& weight) const {
    for (std::uint32_t axis = 0; axis < wanted_.dimensions; ++axis) {
      const auto fixed = static_cast<std::int64_t>(
          std::floor((double{coordinate(axis)} - 0.5) * double{one} + 0.5));
      base[axis] = fixed >> 8;
      weight[axis] = fixed & (one - 1);
    }
  }

  // A layer beyond the last one is the last one.
  std::uint64_t plane() const {
    if (wanted_.dimensions == 3) return 0;
    return std::min<std::uint64_t>(wanted_.layer, level_.depth - 1);
  }

  sampled fetch(const std::array<std::int64_t, 3>& i) {
    std::array<std::int64_t, 3> at{};
    for (std::uint32_t axis = 0; axis < wanted_.dimensions; ++axis) {
      const bool clamped = wanted_.cube;
      at[axis] = place(i[axis], extent_[axis], clamped ? address_mode::clamp : t_.modes[axis],
                       t_.normalised_coordinates);
      if (at[axis] < 0) return border_of(t_);
    }
    const std::uint64_t slice =
        wanted_.dimensions == 3 ? static_cast<std::uint64_t>(at[2]) : plane_;
    const std::byte* texel = level_.data + slice * level_.slice +
                             static_cast<std::uint64_t>(at[1]) * level_.pitch +
                             static_cast<std::uint64_t>(at[0]) * t_.format.bytes();
    if (t_.device_memory)
      texel = memory_.at(reinterpret_cast<std::uint64_t>(texel), t_.format.bytes());
    if (texel == nullptr) {
      good_ = false;
      return {};
    }
    sampled result{};  // channels that the format does not have read as 0
    for (std::uint32_t n = 0; n < t_.format.channels; ++n) result[n] = channel_value(t_, texel, n);
    return result;
  }

  const texture& t_;
  const image_level& level_;
  const sample_request& wanted_;
  texel_memory& memory_;
  std::array<std::int64_t, 3> extent_{};
  std::uint64_t plane_ = 0;
  bool good_ = true;
};

// A direction becomes a face, which is a layer, and a place on it.
sample_request on_face(const sample_request& direction) {
  const float x = direction.at[0], y = direction.at[1], z = direction.at[2];
  const float ax = std::fabs(x), ay = std::fabs(y), az = std::fabs(z);
  std::uint32_t face = 0;
  float s = 0, t = 0, major = 1;
  if (ax > ay && ax > az) {
    face = x < 0;
    s = x < 0 ? z : -z;
    t = -y;
    major = ax;
  } else if (ay > az) {
    face = 2 + (y < 0);
    s = x;
    t = y < 0 ? -z : z;
    major = ay;
  } else {
    face = 4 + (z < 0);
    s = z < 0 ? -x : x;
    t = -y;
    major = az;
  }
  sample_request flat = direction;
  flat.dimensions = 2;
  flat.cube = true;
  flat.layer = direction.layer * 6 + face;
  flat.at = {major == 0 ? 0.5f : (s / major + 1) / 2, major == 0 ? 0.5f : (t / major + 1) / 2, 0};
  return flat;
}

float level_of(const texture& t, const sample_request& wanted) {
  float level = 0;
  if (wanted.choice == sample_request::level_choice::given) level = wanted.level;
  if (wanted.choice == sample_request::level_choice::gradients) {
    const auto& base = t.levels.front();
    const float extent[3] = {static_cast<float>(base.width), static_cast<float>(base.height),
                             static_cast<float>(base.depth)};
    float longest_x = 0, longest_y = 0;
    for (std::uint32_t axis = 0; axis < wanted.dimensions; ++axis) {
      const float scale = t.normalised_coordinates ? extent[axis] : 1.0f;
      longest_x += wanted.dx[axis] * scale * wanted.dx[axis] * scale;
      longest_y += wanted.dy[axis] * scale * wanted.dy[axis] * scale;
    }
    level = 0.5f * std::log2(std::max(longest_x, longest_y));
  }
  if (std::isnan(level)) level = 0;
  level = std::clamp(level + t.level_bias, t.level_min, std::max(t.level_min, t.level_max));
  return std::clamp(level, 0.0f, static_cast<float>(t.levels.size() - 1));
}

std::optional<sampled> sample_level(const texture& t, std::size_t level,
                                    const sample_request& wanted, texel_memory& memory) {
  level_reader reader(t, t.levels[level], wanted, memory);
  sampled result{};
  if (wanted.integer) {
    result = reader.whole_texel();
  } else if (t.linear_filter && gives_floats(t) && !t.linear_memory) {
    result = reader.linear();
  } else {
    result = reader.point();
  }
  return reader.good() ? std::optional(result) : std::nullopt;
}

}  // namespace

std::optional<sampled> sample(const texture& from, const sample_request& asked,
                              texel_memory& memory) {
  const sample_request wanted = asked.cube ? on_face(asked) : asked;
  const float level = level_of(from, wanted);
  if (!from.linear_mipmaps || !gives_floats(from))
    return sample_level(from, static_cast<std::size_t>(std::floor(level + 0.5f)), wanted, memory);
  const auto fixed = static_cast<std::int64_t>(std::floor(level * static_cast<float>(one) + 0.5f));
  const auto lower = static_cast<std::size_t>(fixed / one);
  const float share = static_cast<float>(fixed % one) / static_cast<float>(one);
  auto result = sample_level(from, lower, wanted, memory);
  if (!result || share == 0) return result;
  const auto upper = sample_level(from, lower + 1, wanted, memory);
  if (!upper) return std::nullopt;
  for (std::size_t n = 0; n < 4; ++n) {
    const float a = std::bit_cast<float>((*result)[n]), b = std::bit_cast<float>((*upper)[n]);
    (*result)[n] = bits(a * (1 - share) + b * share);
  }
  return result;
}

std::optional<sampled> gather(const texture& from, const sample_request& asked,
                              std::uint32_t channel, texel_memory& memory) {
  const sample_request wanted = asked.cube ? on_face(asked) : asked;
  level_reader reader(from, from.levels.front(), wanted, memory);
  const sampled result = reader.gather(channel);
  return reader.good() ? std::optional(result) : std::nullopt;
}

}  // namespace gpuwire::softgpu::ptx
