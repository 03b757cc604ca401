// SPDX-License-Identifier: Apache-2.0
// Instructions by which lanes of a warp meet: shfl, vote, match, redux, elect, bar.warp. Each lane
// brings a value and a member mask, parks, and the exchange happens once every member that has not
// exited is there.
#include <algorithm>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// Which exchange an instruction is; kept in instruction::extra, apart from the kinds of jump.
enum class exchange_kind : std::uint8_t {
  barrier = 16,
  shuffle,
  vote_all,
  vote_any,
  vote_uniform,
  vote_ballot,
  match_any,
  match_all,
  reduce,
  elect,
};
enum class shuffle_mode : std::uint8_t { up, down, butterfly, index };
enum class reduction : std::uint8_t { add, minimum, maximum, conjunction, disjunction, exclusive };

// Everything a lane needs when its exchange completes. `members` took part; `values` are theirs.
struct meeting {
  std::uint32_t members;
  const std::array<std::uint64_t, warp_lanes>& values;
};

// shfl: o = d, p, a, b, c, mask.
void finish_shuffle(frame& f, const instruction& i, std::uint32_t lane, const meeting& m,
                    const executor& x) {
  const auto operand = [&](std::uint32_t o) {
    const std::byte* base = (o & constant_tag) != 0 ? x.bases_[1] : f.registers.get();
    return get<std::uint32_t>(base + (o & ~constant_tag), lane);
  };
  const std::uint32_t b = operand(i.o[3]) & 31, c = operand(i.o[4]);
  const std::uint32_t clamp = c & 31, segment = c >> 8 & 31;
  const std::uint32_t lane_max = (lane & segment) | (clamp & ~segment);
  const std::uint32_t lane_min = lane & segment;
  std::int32_t from = 0;
  bool valid = false;
  switch (static_cast<shuffle_mode>(i.sub)) {
    case shuffle_mode::up:
      from = static_cast<std::int32_t>(lane) - static_cast<std::int32_t>(b);
      valid = from >= static_cast<std::int32_t>(lane_max);
      break;
    case shuffle_mode::down:
      from = static_cast<std::int32_t>(lane + b);
      valid = from <= static_cast<std::int32_t>(lane_max);
      break;
    case shuffle_mode::butterfly:
      from = static_cast<std::int32_t>(lane ^ b);
      valid = from <= static_cast<std::int32_t>(lane_max);
      break;
    case shuffle_mode::index:
      from = static_cast<std::int32_t>(lane_min | (b & ~segment));
      valid = from <= static_cast<std::int32_t>(lane_max);
      break;
  }
  if (!valid) from = static_cast<std::int32_t>(lane);
  put(f.registers.get() + i.o[0], lane,
      static_cast<std::uint32_t>(m.values[static_cast<std::size_t>(from)]));
  std::uint32_t bits;
  std::memcpy(&bits, f.registers.get() + i.o[1], sizeof bits);
  bits = (bits & ~(1u << lane)) | static_cast<std::uint32_t>(valid) << lane;
  std::memcpy(f.registers.get() + i.o[1], &bits, sizeof bits);
}

void set_bit(frame& f, std::uint32_t operand, std::uint32_t lane, bool value) {
  std::uint32_t bits;
  std::memcpy(&bits, f.registers.get() + operand, sizeof bits);
  bits = (bits & ~(1u << lane)) | static_cast<std::uint32_t>(value) << lane;
  std::memcpy(f.registers.get() + operand, &bits, sizeof bits);
}

std::uint32_t lanes_with(const meeting& m, std::uint64_t value) {
  std::uint32_t result = 0;
  for (std::uint32_t rest = m.members; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(rest));
    result |= static_cast<std::uint32_t>(m.values[l] == value) << l;
  }
  return result;
}

std::uint32_t reduce(const meeting& m, std::uint32_t sub) {
  const auto op = static_cast<reduction>(sub & 0xFF);
  const bool is_signed_type = (sub & 0x100) != 0;
  bool first = true;
  std::uint32_t result = 0;
  for (std::uint32_t rest = m.members; rest != 0; rest &= rest - 1) {
    const auto v =
        static_cast<std::uint32_t>(m.values[static_cast<std::size_t>(std::countr_zero(rest))]);
    if (first) {
      result = v;
      first = false;
      continue;
    }
    const bool less = is_signed_type
                          ? static_cast<std::int32_t>(v) < static_cast<std::int32_t>(result)
                          : v < result;
    switch (op) {
      case reduction::add:
        result += v;
        break;
      case reduction::minimum:
        result = less ? v : result;
        break;
      case reduction::maximum:
        result = less ? result : v;
        break;
      case reduction::conjunction:
        result &= v;
        break;
      case reduction::disjunction:
        result |= v;
        break;
      case reduction::exclusive:
        result ^= v;
        break;
    }
  }
  return result;
}

// o = d, p (one of which may be unused), then sources.
void finish(frame& f, const instruction& i, std::uint32_t lane, const meeting& m,
            const executor& x) {
  const auto put_word = [&](std::uint32_t v) { put(f.registers.get() + i.o[0], lane, v); };
  switch (static_cast<exchange_kind>(i.extra)) {
    case exchange_kind::barrier:
      break;
    case exchange_kind::shuffle:
      finish_shuffle(f, i, lane, m, x);
      break;
    case exchange_kind::vote_all:
      set_bit(f, i.o[0], lane, lanes_with(m, 1) == m.members);
      break;
    case exchange_kind::vote_any:
      set_bit(f, i.o[0], lane, lanes_with(m, 1) != 0);
      break;
    case exchange_kind::vote_uniform: {
      const auto yes = lanes_with(m, 1);
      set_bit(f, i.o[0], lane, yes == 0 || yes == m.members);
      break;
    }
    case exchange_kind::vote_ballot:
      put_word(lanes_with(m, 1));
      break;
    case exchange_kind::match_any:
      put_word(lanes_with(m, m.values[lane]));
      break;
    case exchange_kind::match_all: {
      const bool all = lanes_with(m, m.values[lane]) == m.members;
      put_word(all ? m.members : 0);
      set_bit(f, i.o[1], lane, all);
      break;
    }
    case exchange_kind::reduce:
      put_word(reduce(m, i.sub));
      break;
    case exchange_kind::elect: {
      const auto leader = static_cast<std::uint32_t>(std::countr_zero(m.members));
      put_word(leader);
      set_bit(f, i.o[1], lane, lane == leader);
      break;
    }
  }
}

// Brings this group's values and masks, then sees whether the exchange is complete. `count` holds
// the operand index of the value, `target` that of the member mask (operand_count_max: the running
// lanes).
void arrive(executor& x, const instruction& i, std::uint32_t lanes) {
  warp& w = *x.warp_;
  const auto kind = static_cast<exchange_kind>(i.extra);
  const bool votes = kind >= exchange_kind::vote_all && kind <= exchange_kind::vote_ballot;
  const bool wide = kind == exchange_kind::match_any || kind == exchange_kind::match_all;
  const std::uint32_t vote = votes ? x.predicate(i.o[i.count]) : 0;
  const std::byte* value = x.in(i.o[i.count]);
  const std::byte* mask = i.target < operand_count_max ? x.in(i.o[i.target]) : nullptr;
  bool converged = true;  // everybody that each lane waits for is in this group
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(rest));
    if (votes)
      w.exchange[l] = vote >> l & 1;
    else if (wide && i.sub == 8)
      w.exchange[l] = get<std::uint64_t>(value, l);
    else
      w.exchange[l] = get<std::uint32_t>(value, l);
    const std::uint32_t members = mask != nullptr ? get<std::uint32_t>(mask, l) | 1u << l : lanes;
    w.member_masks[l] = members;
    converged &= (members & w.live) == lanes;
  }
  if (converged) {
    const meeting m{lanes, w.exchange};
    for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
      finish(*x.frame_, i, static_cast<std::uint32_t>(std::countr_zero(rest)), m, x);
    x.next();
    return;
  }
  x.save_group(x.pc_ + 1);
  for (std::uint32_t rest = lanes; rest != 0; rest &= rest - 1)
    w.pc[static_cast<std::size_t>(std::countr_zero(rest))] = x.pc_;
  w.parked |= lanes;
  x.park(lanes);
  x.reschedule();
  x.complete_exchanges(w);
}

bool emit(builder& b, exchange_kind kind, std::vector<std::uint32_t> definitions,
          std::uint32_t value, std::initializer_list<std::uint32_t> more, std::uint32_t mask,
          std::uint32_t sub = 0) {
  std::vector<std::uint32_t> uses{value};
  uses.insert(uses.end(), more);
  uses.push_back(mask);
  const auto first = static_cast<std::uint8_t>(definitions.size());
  const auto last = static_cast<std::uint32_t>(definitions.size() + uses.size() - 1);
  instruction& i = b.emit(arrive, definitions, uses, flow::control);
  i.count = first;
  i.target = last;
  i.extra = static_cast<std::uint8_t>(kind);
  i.sub = sub;
  return true;
}

bool decode_shuffle(builder& b, const form& f) {
  std::optional<shuffle_mode> mode;
  if (f.has("up")) mode = shuffle_mode::up;
  if (f.has("down")) mode = shuffle_mode::down;
  if (f.has("bfly")) mode = shuffle_mode::butterfly;
  if (f.has("idx")) mode = shuffle_mode::index;
  if (!mode || !f.has("sync") || f.operand_count() != 5) return false;
  const auto& to = f.operand(0);
  const bool pair = to.kind == syntax::operand::form::pair;
  const auto d = b.destination(pair ? to.items[0] : to, type::b32);
  const auto p = pair ? b.destination(to.items[1], type::pred) : b.temporary(type::pred);
  const auto a = b.source(f.operand(1), type::b32), lane = b.source(f.operand(2), type::b32),
             clamp = b.source(f.operand(3), type::b32), mask = b.source(f.operand(4), type::b32);
  return emit(b, exchange_kind::shuffle, {d, p}, a, {lane, clamp}, mask,
              static_cast<std::uint32_t>(*mode));
}

bool decode_vote(builder& b, const form& f) {
  if (!f.has("sync") || f.operand_count() != 3) return false;
  const auto a = b.predicate_source(f.operand(1));
  const auto mask = b.source(f.operand(2), type::b32);
  if (f.has("ballot"))
    return emit(b, exchange_kind::vote_ballot, {b.destination(f.operand(0), type::b32)}, a, {},
                mask);
  const auto kind = f.has("all")   ? exchange_kind::vote_all
                    : f.has("any") ? exchange_kind::vote_any
                                   : exchange_kind::vote_uniform;
  if (kind == exchange_kind::vote_uniform && !f.has("uni")) return false;
  return emit(b, kind, {b.destination(f.operand(0), type::pred)}, a, {}, mask);
}

bool decode_match(builder& b, const form& f) {
  if (f.operand_count() != 3) return false;
  const auto a = b.source(f.operand(1), f.t());
  const auto mask = b.source(f.operand(2), type::b32);
  const auto bytes = bytes_of(f.t());
  const auto& to = f.operand(0);
  if (f.has("any"))
    return emit(b, exchange_kind::match_any, {b.destination(to, type::b32)}, a, {}, mask, bytes);
  if (!f.has("all")) return false;
  const bool pair = to.kind == syntax::operand::form::pair;
  const auto d = b.destination(pair ? to.items[0] : to, type::b32);
  const auto p = pair ? b.destination(to.items[1], type::pred) : b.temporary(type::pred);
  return emit(b, exchange_kind::match_all, {d, p}, a, {}, mask, bytes);
}

bool decode_reduce(builder& b, const form& f) {
  std::optional<reduction> op;
  if (f.has("add")) op = reduction::add;
  if (f.has("min")) op = reduction::minimum;
  if (f.has("max")) op = reduction::maximum;
  if (f.has("and")) op = reduction::conjunction;
  if (f.has("or")) op = reduction::disjunction;
  if (f.has("xor")) op = reduction::exclusive;
  if (!op || bytes_of(f.t()) != 4 || is_floating(f.t())) return false;
  const auto a = b.source(f.operand(1), f.t());
  const auto mask = b.source(f.operand(2), type::b32);
  return emit(b, exchange_kind::reduce, {b.destination(f.operand(0), f.t())}, a, {}, mask,
              static_cast<std::uint32_t>(*op) | (is_signed(f.t()) ? 0x100 : 0));
}

bool decode_elect(builder& b, const form& f) {
  const auto& to = f.operand(0);
  const bool pair = to.kind == syntax::operand::form::pair;
  if (!pair) return false;
  const auto d = b.destination(to.items[0], type::b32);
  const auto p = b.destination(to.items[1], type::pred);
  return emit(b, exchange_kind::elect, {d, p}, constant_tag, {}, b.source(f.operand(1), type::b32));
}

bool decode_warp_barrier(builder& b, const form& f) {
  if (!f.has("warp")) return false;
  return emit(b, exchange_kind::barrier, {}, constant_tag, {}, b.source(f.operand(0), type::b32));
}

void active_lanes(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  for_lanes(lanes, [=](std::uint32_t l) { put(d, l, lanes); });
}

bool decode_active_mask(builder& b, const form& f) {
  b.emit(active_lanes, {b.destination(f.operand(0), type::b32)}, {});
  return true;
}

constexpr decode_entry entries[] = {
    {"shfl", decode_shuffle},         {"vote", decode_vote},
    {"match", decode_match},          {"redux", decode_reduce},
    {"elect", decode_elect},          {"bar", decode_warp_barrier},
    {"barrier", decode_warp_barrier}, {"activemask", decode_active_mask},
};

}  // namespace

void emit_warp_barrier(builder& b) {
  emit(b, exchange_kind::barrier, {}, constant_tag, {}, b.constant(type::b32, all_lanes));
}

// A lane whose members have all parked (or exited) meets them. Lanes may stand at different
// instructions of one kind, as when the compiler has copied code.
void executor::complete_exchanges(warp& w) {
  for (std::uint32_t rest = w.parked; rest != 0;) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(rest));
    rest &= rest - 1;
    const std::uint32_t members = w.member_masks[lane] & w.live;
    if ((members & ~w.parked) != 0) continue;
    bool agreed = true;
    for (std::uint32_t m = members; m != 0; m &= m - 1)
      agreed &= (w.member_masks[static_cast<std::size_t>(std::countr_zero(m))] & w.live) == members;
    if (!agreed) continue;
    const auto values = w.exchange;
    const meeting together{members, values};
    for (std::uint32_t m = members; m != 0; m &= m - 1) {
      const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
      frame& f = *w.frames[l];
      finish(f, f.code->instructions[w.pc[l]], l, together, *this);
      ++w.pc[l];
    }
    w.parked &= ~members;
    w.runnable |= members;
    rest &= ~members;
  }
}

decode_table warp_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
