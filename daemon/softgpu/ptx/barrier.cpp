// SPDX-License-Identifier: Apache-2.0
// Barriers of the block: bar and barrier with all their forms, and fences.
#include <atomic>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// Kept in instruction::extra, apart from the kinds of jump.
enum class barrier_kind : std::uint8_t { sync = 32, arrive, reduce_and, reduce_or, reduce_count };

// o = [result,] id, count, vote. `count` (of the instruction) is the index of id; `sub` says
// whether a count is given.
void meet(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto kind = static_cast<barrier_kind>(i.extra);
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
  const auto id = get<std::uint32_t>(x.in(i.o[i.count]), lane);
  if (id >= x.barriers_.size())
    return x.raise(fault_kind::illegal_instruction, i,
                   "barrier " + std::to_string(id) + " does not exist");
  barrier_state& b = x.barriers_[id];
  b.expected = i.sub != 0 ? get<std::uint32_t>(x.in(i.o[i.count + 1u]), lane) : 0;
  if (kind == barrier_kind::arrive) {
    // A whole warp arrives as 32 threads, also when its last lanes do not exist.
    b.arrived +=
        lanes == x.warp_->live ? warp_lanes : static_cast<std::uint32_t>(std::popcount(lanes));
    x.next();
    x.check_barriers();
    return;
  }
  if (kind != barrier_kind::sync) {
    const std::uint32_t votes = x.predicate(i.o[i.count + 2u]) & lanes;
    b.votes += static_cast<std::uint32_t>(std::popcount(votes));
    b.voters += static_cast<std::uint32_t>(std::popcount(lanes));
  }
  x.save_group(x.pc_ + 1);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1)
    x.warp_->pc[static_cast<std::size_t>(std::countr_zero(m))] = x.pc_;
  b.waiting[x.warp_->index] |= lanes;
  x.park(lanes);
  x.reschedule();
  x.check_barriers();
}

void finish(frame& f, const instruction& i, std::uint32_t lane, const barrier_state& b) {
  const auto kind = static_cast<barrier_kind>(i.extra);
  if (kind == barrier_kind::reduce_count) {
    put(f.registers.get() + i.o[0], lane, b.votes);
  } else if (kind == barrier_kind::reduce_and || kind == barrier_kind::reduce_or) {
    const bool result = kind == barrier_kind::reduce_and ? b.votes == b.voters : b.votes != 0;
    std::uint32_t bits;
    std::memcpy(&bits, f.registers.get() + i.o[0], sizeof bits);
    bits = (bits & ~(1u << lane)) | static_cast<std::uint32_t>(result) << lane;
    std::memcpy(f.registers.get() + i.o[0], &bits, sizeof bits);
  }
}

bool emit(builder& b, barrier_kind kind, std::vector<std::uint32_t> definitions,
          const syntax::operand& id, const syntax::operand* count, std::uint32_t vote) {
  const auto which = b.source(id, type::u32);
  const auto threads = count != nullptr ? b.source(*count, type::u32) : constant_tag;
  const std::uint32_t uses[] = {which, threads, vote};
  instruction& i = b.emit(meet, definitions, uses, flow::control);
  i.count = static_cast<std::uint8_t>(definitions.size());
  i.extra = static_cast<std::uint8_t>(kind);
  i.sub = count != nullptr ? 1 : 0;
  return true;
}

bool decode_reduce(builder& b, const form& f) {
  const bool count = f.has("popc");
  const auto d = b.destination(f.operand(0), count ? type::u32 : type::pred);
  const auto kind = count          ? barrier_kind::reduce_count
                    : f.has("and") ? barrier_kind::reduce_and
                                   : barrier_kind::reduce_or;
  const bool with_count = f.operand_count() == 4;
  const auto vote = b.predicate_source(f.operand(with_count ? 3 : 2));
  return emit(b, kind, {d}, f.operand(1), with_count ? &f.operand(2) : nullptr, vote);
}

bool decode_barrier(builder& b, const form& f) {
  if (f.has("warp")) return false;
  if (f.has("cluster")) return decode_cluster_barrier(b, f);
  if (f.has("red")) return decode_reduce(b, f);
  const syntax::operand* count = f.operand_count() > 1 ? &f.operand(1) : nullptr;
  if (f.has("arrive"))
    return count != nullptr && emit(b, barrier_kind::arrive, {}, f.operand(0), count, constant_tag);
  if (!f.has("sync")) return false;
  return emit(b, barrier_kind::sync, {}, f.operand(0), count, constant_tag);
}

void fence(executor&, const instruction&, std::uint32_t) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
}
bool decode_fence(builder& b, const form&) {
  b.emit(fence, {}, {});
  return true;
}

constexpr decode_entry entries[] = {
    {"bar", decode_barrier},
    {"barrier", decode_barrier},
    {"membar", decode_fence},
    {"fence", decode_fence},
};

}  // namespace

std::uint32_t executor::arrived_threads(const barrier_state& b) const {
  std::uint32_t threads = b.arrived;
  for (const warp& w : warps_) {
    const std::uint32_t waiting = b.waiting[w.index];
    const bool whole = b.expected != 0 && waiting == w.live && waiting != 0;
    threads += whole ? warp_lanes : static_cast<std::uint32_t>(std::popcount(waiting));
  }
  return threads;
}

// Called when a thread arrives at a barrier or exits; an exited thread is waited for by nobody.
void executor::check_barriers() {
  for (std::uint32_t id = 0; id < barriers_.size(); ++id) {
    barrier_state& b = barriers_[id];
    const std::uint32_t arrived = arrived_threads(b);
    if (arrived == 0) continue;
    if (arrived >= (b.expected != 0 ? b.expected : live_threads_)) release_barrier(id);
  }
}

void executor::release_barrier(std::uint32_t id) {
  barrier_state& b = barriers_[id];
  for (warp& w : warps_) {
    std::uint32_t& waiting = b.waiting[w.index];
    for (std::uint32_t m = waiting; m != 0; m &= m - 1) {
      const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
      frame& f = *w.frames[lane];
      finish(f, f.code->instructions[w.pc[lane]], lane, b);
      ++w.pc[lane];
    }
    w.runnable |= waiting;
    waiting = 0;
  }
  b.arrived = b.votes = b.voters = b.expected = 0;
}

decode_table barrier_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
