// SPDX-License-Identifier: Apache-2.0
// mbarrier: barriers in shared memory that count arrivals and bytes.
#include "mbarrier.hpp"

#include <optional>

#include "builder.hpp"
#include "memory_access.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

enum class action : std::uint8_t {
  initialise,
  arrive,
  arrive_drop,
  expect,
  complete,
  test,
  test_parity
};

constexpr std::uint32_t expects_bytes = 1, returns_state = 2;

// o = [result,] address, value. The result is a state, or a predicate.
template <class Space>
void act(executor& x, const instruction& i, std::uint32_t lanes) {
  Space space(x, i);
  const auto what = static_cast<action>(i.extra);
  const lane_addresses address(x, i.o[i.count], i);
  const std::byte* values = x.in(i.o[i.count + 1u]);
  std::uint32_t done = 0;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    std::byte* place = space.at(address(l), l, 8, true);
    if (place == nullptr) return;
    barrier_object b = load_barrier(place);
    const barrier_object before = b;
    const auto value = get<std::uint32_t>(values, l);
    switch (what) {
      case action::initialise:
        b = {};
        b.pending = b.expected = value;
        break;
      case action::arrive:
      case action::arrive_drop: {
        const bool bytes = (i.sub & expects_bytes) != 0;
        const std::uint32_t arrivals = bytes ? 1 : value;
        if (bytes) b.bytes += value;
        if (what == action::arrive_drop) b.expected -= arrivals;
        b.pending -= arrivals;
        b.advance();
        break;
      }
      case action::expect:
        b.bytes += value;
        break;
      case action::complete:
        b.bytes -= value;
        b.advance();
        break;
      case action::test: {
        barrier_object state;
        const auto bits = get<std::uint64_t>(values, l);
        state = load_barrier(&bits);
        done |= static_cast<std::uint32_t>(b.phase != state.phase) << l;
        continue;
      }
      case action::test_parity:
        done |= static_cast<std::uint32_t>(b.phase != (value & 1)) << l;
        continue;
    }
    std::memcpy(place, &b, sizeof b);
    if ((i.sub & returns_state) != 0) {
      std::uint64_t bits;
      std::memcpy(&bits, &before, sizeof bits);
      put(x.out(i.o[0]), l, bits);
    }
  }
  if (what == action::test || what == action::test_parity) {
    x.spend(256);
    x.set_predicate(i.o[0], lanes, done);
  }
}

instruction& emit(builder& b, const form& f, action what, std::vector<std::uint32_t> definitions,
                  const address_operand& a, std::uint32_t value, std::uint32_t flags) {
  const bool shared = f.has("shared") || f.has("shared::cta") || f.has("shared::cluster");
  const std::uint32_t uses[] = {a.base, value};
  instruction& i =
      b.emit(shared ? act<shared_space> : act<generic_space>, definitions, uses, flow::checked);
  i.count = static_cast<std::uint8_t>(definitions.size());
  i.extra = static_cast<std::uint8_t>(what);
  i.immediate = a.addend;
  i.sub = flags | (a.narrow ? lane_addresses::narrow_flag : 0);
  return i;
}

bool decode_arrive(builder& b, const form& f, action what) {
  // With a state or a sink in front, or, for other blocks' barriers, without.
  const bool result = f.operand(0).kind != syntax::operand::form::address;
  const std::size_t at = result ? 1 : 0;
  const auto a = decode_address(b, f.operand(at));
  const bool bytes = f.has("expect_tx");
  const auto value = f.operand_count() > at + 1 ? b.source(f.operand(at + 1), type::u32)
                                                : b.constant(type::u32, 1);
  std::vector<std::uint32_t> definitions;
  if (result) definitions.push_back(b.destination(f.operand(0), type::b64));
  emit(b, f, what, definitions, a, value,
       (bytes ? expects_bytes : 0) | (result ? returns_state : 0));
  return true;
}

void pending_arrivals(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const auto bits = get<std::uint64_t>(x.in(i.o[1]), l);
    put(x.out(i.o[0]), l, static_cast<std::uint32_t>(load_barrier(&bits).pending));
  }
}

bool decode_barrier(builder& b, const form& f) {
  if (f.has("inval")) return true;
  if (f.has("pending_count")) {
    b.emit(pending_arrivals, {b.destination(f.operand(0), type::u32)},
           {b.source(f.operand(1), type::b64)});
    return true;
  }
  if (f.has("init")) {
    emit(b, f, action::initialise, {}, decode_address(b, f.operand(0)),
         b.source(f.operand(1), type::u32), 0);
    return true;
  }
  if (f.has("arrive")) return decode_arrive(b, f, action::arrive);
  if (f.has("arrive_drop")) return decode_arrive(b, f, action::arrive_drop);
  if (f.has("expect_tx") || f.has("complete_tx")) {
    emit(b, f, f.has("expect_tx") ? action::expect : action::complete, {},
         decode_address(b, f.operand(0)), b.source(f.operand(1), type::u32), 0);
    return true;
  }
  if (!f.has("test_wait") && !f.has("try_wait")) return false;
  const bool parity = f.has("parity");
  const auto a = decode_address(b, f.operand(1));
  const auto value = b.source(f.operand(2), parity ? type::u32 : type::b64);
  emit(b, f, parity ? action::test_parity : action::test, {b.destination(f.operand(0), type::pred)},
       a, value, 0);
  return true;
}

// cp.async.mbarrier.arrive: the copies are done, so without .noinc the count goes up and down
// again.
bool decode_copy_arrive(builder& b, const form& f) {
  if (!f.has("async") || !f.has("mbarrier") || !f.has("arrive")) return false;
  if (f.has("noinc"))
    emit(b, f, action::arrive, {}, decode_address(b, f.operand(0)), b.constant(type::u32, 1), 0);
  return true;
}

constexpr decode_entry entries[] = {
    {"mbarrier", decode_barrier},
    {"cp", decode_copy_arrive},
};

}  // namespace

decode_table mbarrier_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
