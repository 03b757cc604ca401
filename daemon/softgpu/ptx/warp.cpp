// SPDX-License-Identifier: Apache-2.0
// The warp scheduler. Among the groups of a warp it runs the one deepest in calls, then the one
// furthest behind, up to the place where the next group waits: so lanes meet again where control
// flow joins. A group that holds the others up for long gives way to the one that has waited
// longest, so a lane may spin on what another lane of its warp does.
#include <algorithm>

#include "executor.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// How long a group may keep others waiting. Instructions that a lane can spin with (atomics,
// volatile loads) weigh 64 and more, as their handlers say; any others next to nothing, since a
// group that merely takes long must not lose the rest.
constexpr std::uint64_t contention_max = 4096;
constexpr std::uint64_t plain_steps_per_contention = 256;

}  // namespace

bool executor::pick_group(warp& w) {
  if (w.runnable == 0) return false;
  warp_ = &w;
  std::uint32_t best = static_cast<std::uint32_t>(std::countr_zero(w.runnable));
  const bool fair = w.contention >= contention_max;
  if (fair) w.contention = 0;
  for (std::uint32_t m = w.runnable & (w.runnable - 1); m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
    if (fair) {
      if (w.last_run[lane] < w.last_run[best]) best = lane;
      continue;
    }
    const auto depth = w.frames[lane]->depth, best_depth = w.frames[best]->depth;
    if (depth > best_depth || (depth == best_depth && w.pc[lane] < w.pc[best])) best = lane;
  }
  frame_ = w.frames[best];
  pc_ = w.pc[best];
  group_ = 0;
  stop_pc_ = ~0u;
  ++schedule_count_;
  for (std::uint32_t m = w.runnable; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
    if (w.frames[lane] != frame_) continue;
    if (w.pc[lane] == pc_) {
      group_ |= 1u << lane;
      w.last_run[lane] = schedule_count_;
    } else if (w.pc[lane] > pc_) {
      stop_pc_ = std::min(stop_pc_, w.pc[lane]);
    }
  }
  contended_ = group_ != w.runnable;
  registers_ = frame_->registers.get();
  bases_[0] = registers_;
  return true;
}

std::uint64_t executor::run_warp(warp& w, std::uint64_t steps) {
  std::uint64_t spent = 0;
  yielded_ = false;
  while (spent < steps && !failed() && !yielded_ && pick_group(w)) {
    extra_steps_ = 0;
    const std::uint64_t ran = run_group(steps - spent);
    spent += ran;
    w.plain_steps += ran;
    if (!contended_) continue;
    w.contention += extra_steps_ + w.plain_steps / plain_steps_per_contention;
    w.plain_steps %= plain_steps_per_contention;
  }
  return std::max<std::uint64_t>(spent, 1);
}

std::uint64_t executor::run_group(std::uint64_t steps) {
  rescheduled_ = false;
  const instruction* code = frame_->code->instructions.data();
  std::uint64_t left = steps;
  while (left > 0) {
    const instruction& i = code[pc_];
    const std::uint32_t lanes = group_ & (predicate(i.guard) ^ i.guard_flip);
    --left;
    if (lanes == 0) {
      ++pc_;
    } else if (i.kind == flow::control) {
      i.run(*this, i, lanes);
      if (rescheduled_ || failed()) return steps - left;
      if (contended_ && extra_steps_ >= contention_max) break;
    } else {
      i.run(*this, i, lanes);
      if (i.kind == flow::checked && failed()) return steps - left;
      ++pc_;
    }
    if (pc_ >= stop_pc_) break;
  }
  save_group(pc_);
  return steps - left;
}

void executor::split(std::uint32_t lanes, std::uint32_t pc) {
  save_group(pc_ + 1);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) warp_->pc[std::countr_zero(m)] = pc;
  reschedule();
}

}  // namespace gpuwire::softgpu::ptx
