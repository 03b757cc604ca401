// SPDX-License-Identifier: Apache-2.0
// cp.async in its plain and bulk forms. Copies happen at once, which is one of the orders that
// their definition allows; so committing and waiting for groups has nothing to do.
#include "builder.hpp"
#include "mbarrier.hpp"
#include "memory_access.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

void copy_bytes(std::byte* to, const std::byte* from, std::uint32_t bytes) {
  for (std::uint32_t n = 0; n < bytes; n += 4) {
    const auto word =
        __atomic_load_n(reinterpret_cast<const std::uint32_t*>(from + n), __ATOMIC_RELAXED);
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(to + n), word, __ATOMIC_RELAXED);
  }
}

// o = shared destination, global source, source size. `immediate` holds both addends, `count` the
// size.
void copy_small(executor& x, const instruction& i, std::uint32_t lanes) {
  shared_space to_space(x, i);
  global_space from_space(x, i);
  const auto to_addend = static_cast<std::int32_t>(i.immediate >> 32),
             from_addend = static_cast<std::int32_t>(i.immediate);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::uint64_t base = (i.sub & lane_addresses::narrow_flag) != 0
                                   ? get<std::uint32_t>(x.in(i.o[0]), l)
                                   : get<std::uint64_t>(x.in(i.o[0]), l);
    std::byte* to =
        to_space.at(base + static_cast<std::uint64_t>(std::int64_t{to_addend}), l, i.count, true);
    if (to == nullptr) return;
    const std::uint32_t bytes =
        std::min<std::uint32_t>(get<std::uint32_t>(x.in(i.o[2]), l), i.count) & ~3u;
    std::memset(to, 0, i.count);
    if (bytes == 0) continue;
    const std::uint64_t from_address =
        get<std::uint64_t>(x.in(i.o[1]), l) + static_cast<std::uint64_t>(std::int64_t{from_addend});
    const std::byte* from = from_space.at(from_address, l, i.count, false);
    if (from == nullptr) return;
    copy_bytes(to, from, bytes);
  }
}

bool decode_small(builder& b, const form& f) {
  const auto to = decode_address(b, f.operand(0)), from = decode_address(b, f.operand(1));
  const auto size = f.operand(2).bits;
  if (!b.is_immediate(f.operand(2)) || (size != 4 && size != 8 && size != 16)) return false;
  std::uint32_t source_size = b.constant(type::u32, size);
  if (f.operand_count() > 3) {
    if (b.declared_type(f.operand(3)) == type::pred) return false;
    source_size = b.source(f.operand(3), type::u32);
  }
  instruction& i = b.emit(copy_small, {}, {to.base, from.base, source_size}, flow::checked);
  i.immediate = static_cast<std::int64_t>(static_cast<std::uint64_t>(to.addend) << 32 |
                                          static_cast<std::uint32_t>(from.addend));
  i.count = static_cast<std::uint8_t>(size);
  i.sub = to.narrow ? lane_addresses::narrow_flag : 0;
  return true;
}

// o = destination, source, bytes, barrier: all as generic addresses of 64 bits.
void copy_bulk(executor& x, const instruction& i, std::uint32_t lanes) {
  generic_space space(x, i);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto bytes = get<std::uint32_t>(x.in(i.o[2]), l);
    const auto to_address = get<std::uint64_t>(x.in(i.o[0]), l),
               from_address = get<std::uint64_t>(x.in(i.o[1]), l);
    for (std::uint32_t n = 0; n < bytes; n += 16) {
      const std::byte* from = space.at(from_address + n, l, 16, false);
      std::byte* to = from != nullptr ? space.at(to_address + n, l, 16, true) : nullptr;
      if (to == nullptr) return;
      copy_bytes(to, from, 16);
    }
    if (i.extra == 0) continue;
    std::byte* barrier = space.at(get<std::uint64_t>(x.in(i.o[3]), l), l, 8, true);
    if (barrier == nullptr) return;
    complete_bytes(barrier, bytes);
  }
}

void add_constant(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  const lane_addresses address(x, i.o[1], i);
  const std::uint64_t window = std::uint64_t{i.extra} << 56;
  for_lanes(lanes, [=](std::uint32_t l) { put(d, l, address(l) + window); });
}

std::uint32_t generic_address(builder& b, const syntax::operand& o, std::uint64_t window) {
  const address_operand a = decode_address(b, o);
  const auto result = b.temporary(type::u64);
  instruction& i = b.emit(add_constant, {result}, {a.base});
  i.immediate = a.addend;
  i.sub = a.narrow ? lane_addresses::narrow_flag : 0;
  i.extra = static_cast<std::uint8_t>(window >> 56);
  return result;
}

bool decode_bulk(builder& b, const form& f) {
  if (f.has("commit_group") || f.has("wait_group") || f.has("prefetch")) return true;
  if (f.has("tensor") || f.has("reduce") || f.operand_count() < 3) return false;
  // The first space named is the destination's.
  const bool to_global =
      !f.words.empty() &&
      std::find(f.words.begin(), f.words.end(), "global") <
          std::find_if(
              f.words.begin(), f.words.end(),
              [](auto w) { return w == "shared::cluster" || w == "shared::cta"; });
  const auto shared_or = [](bool global) { return global ? std::uint64_t{0} : shared_window; };
  const bool from_global = !to_global && f.has("global");
  const auto to = generic_address(b, f.operand(0), shared_or(to_global));
  const auto from = generic_address(b, f.operand(1), shared_or(from_global));
  const auto bytes = b.source(f.operand(2), type::u32);
  const bool signals = f.operand_count() > 3 && f.operand(3).kind == syntax::operand::form::address;
  const auto barrier = signals ? generic_address(b, f.operand(3), shared_window) : constant_tag;
  b.emit(copy_bulk, {}, {to, from, bytes, barrier}, flow::checked).extra = signals ? 1 : 0;
  return true;
}

bool decode_copy(builder& b, const form& f) {
  if (!f.has("async")) return false;
  if (f.has("bulk")) return decode_bulk(b, f);
  if (f.has("commit_group") || f.has("wait_group") || f.has("wait_all")) return true;
  if (f.has("mbarrier")) return false;
  return decode_small(b, f);
}

constexpr decode_entry entries[] = {{"cp", decode_copy}};

}  // namespace

std::uint32_t add_to_address(builder& b, const address_operand& a) {
  const auto result = b.temporary(type::u64);
  instruction& i = b.emit(add_constant, {result}, {a.base});
  i.immediate = a.addend;
  i.sub = a.narrow ? lane_addresses::narrow_flag : 0;
  return result;
}

decode_table copy_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
