// SPDX-License-Identifier: Apache-2.0
// One CTA in execution. Owned and stepped by one thread at a time; instruction handlers are free
// functions that work on it.
//
// Every lane has its own program counter and frame. Lanes at the same instruction of the same frame
// run together; the warp scheduler (warp.cpp) picks which such group runs next.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "cluster.hpp"
#include "code.hpp"

namespace gpuwire::softgpu::ptx {

// An activation of a function, shared by the lanes that called it together.
struct frame {
  frame* parent = nullptr;
  const function_code* code = nullptr;
  const call_site* site = nullptr;
  std::uint32_t return_pc = 0;
  std::uint32_t depth = 0;
  std::uint32_t lanes = 0;  // still inside
  std::unique_ptr<std::byte[]> registers;
  std::unique_ptr<std::byte[]> parameters;  // lane after lane
  std::array<std::uint32_t, warp_lanes> local_base{};

  std::byte* parameter(std::uint32_t lane, std::uint32_t offset) const {
    return parameters.get() + std::size_t{lane} * code->parameter_bytes + offset;
  }
};

struct warp {
  std::uint32_t index = 0;
  std::uint32_t live = 0;             // not exited
  std::uint32_t runnable = 0;         // live and not parked
  std::uint32_t carry = 0;            // the condition code of add.cc and its kin
  std::uint32_t cluster_arrived = 0;  // lanes that have arrived in the cluster barrier's phase
  std::array<std::uint64_t, warp_lanes> cluster_phase{};  // in which each arrived last
  std::array<std::uint32_t, warp_lanes> pc{};
  std::array<frame*, warp_lanes> frames{};
  std::array<std::uint64_t, warp_lanes> last_run{};

  // Lanes parked in a warp-wide instruction, the lanes each waits for, and what each brought along.
  std::uint32_t parked = 0;
  std::array<std::uint32_t, warp_lanes> member_masks{};
  std::array<std::uint64_t, warp_lanes> exchange{};

  std::uint64_t contention = 0;   // how long other groups of this warp have waited; see warp.cpp
  std::uint64_t plain_steps = 0;  // not yet counted in it
  std::array<std::vector<std::byte>, warp_lanes> local;
  std::array<std::uint32_t, warp_lanes> local_top{};
  std::vector<std::uint64_t> staged;  // slots of operands, lane after lane; see staging.hpp
  std::array<std::uint32_t, warp_lanes> thread_x{}, thread_y{}, thread_z{};
};

// A named barrier of the CTA. Masks are indexed by warp.
struct barrier_state {
  std::uint32_t expected = 0;  // threads; 0: all that live
  std::uint32_t arrived = 0;   // by bar.arrive, which does not wait
  std::vector<std::uint32_t> waiting;
  std::uint32_t votes = 0, voters = 0;  // of bar.red

  bool idle() const { return arrived == 0 && voters == 0; }
};

struct cached_range {
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;
  std::byte* host = nullptr;
  bool writable = false;

  std::byte* find(std::uint64_t address, std::uint32_t size) const {
    const std::uint64_t offset = address - base;
    return offset < bytes && size <= bytes - offset ? host + offset : nullptr;
  }
};

class executor final : public block {
 public:
  // Without a cluster the block is one of its own.
  executor(const launch& shared, dim3 block_index, cluster_state* cluster = nullptr);

  block_state run(std::uint64_t instruction_budget) override;
  const fault& error() const override { return fault_; }

  // --- operands
  const std::byte* in(std::uint32_t operand) const {
    return bases_[operand & constant_tag] + (operand & ~constant_tag);
  }
  std::byte* out(std::uint32_t operand) const { return registers_ + operand; }
  std::uint32_t predicate(std::uint32_t operand) const {
    std::uint32_t bits;
    std::memcpy(&bits, in(operand), sizeof bits);
    return bits;
  }
  void set_predicate(std::uint32_t operand, std::uint32_t lanes, std::uint32_t bits) const {
    std::uint32_t old;
    std::memcpy(&old, out(operand), sizeof old);
    old = (old & ~lanes) | (bits & lanes);
    std::memcpy(out(operand), &old, sizeof old);
  }

  // --- faults: the first one stands
  void raise(fault_kind kind, const instruction& at, const std::string& what);
  bool failed() const { return fault_.kind != fault_kind::none; }

  // --- control, for instructions of flow::control
  void next() { ++pc_; }
  void jump(std::uint32_t pc) { pc_ = pc; }
  // The lanes continue at `pc`, the rest of the group at the instruction after this one.
  void split(std::uint32_t lanes, std::uint32_t pc);
  // The current group's counters are up to date in the warp; choose a group anew.
  void reschedule() { rescheduled_ = true; }
  void yield_warp() { yielded_ = true; }
  void spend(std::uint64_t steps) { extra_steps_ += steps; }  // makes a group give way sooner
  void park(std::uint32_t lanes) { warp_->runnable &= ~lanes; }
  void save_group(std::uint32_t pc) {
    for (std::uint32_t m = group_; m != 0; m &= m - 1) warp_->pc[std::countr_zero(m)] = pc;
  }
  void exit_lanes(std::uint32_t lanes);
  bool enter(const instruction& at, std::uint32_t lanes, const function_code& callee,
             const call_site& site);
  void leave(std::uint32_t lanes);

  // --- warp-wide exchange and barriers
  // Called when lanes park in or leave a warp-wide instruction; completes those whose members have
  // all come.
  void complete_exchanges(warp& w);
  void check_barriers();
  void release_barrier(std::uint32_t id);
  std::uint32_t arrived_threads(const barrier_state& b) const;

  // --- memory
  std::byte* shared_data() { return shared_.get(); }
  std::uint32_t shared_bytes() const { return shared_bytes_; }
  // Behind the program's shared memory lies what the system reserves, which cooperative groups use
  // for large tiles.
  std::uint32_t reserved_shared_offset() const { return (shared_bytes_ + 15) & ~15u; }
  std::uint32_t shared_limit() const { return reserved_shared_offset() + reserved_shared_bytes; }
  static constexpr std::uint32_t reserved_shared_bytes = 1024;
  // In the shared memory of another block of the cluster; null when there is no such place.
  std::byte* cluster_shared(std::uint64_t address, std::uint32_t bytes);
  cluster_state& cluster() const { return *cluster_; }
  std::uint32_t cluster_rank() const;
  const cached_range* find_range(std::uint64_t address, std::uint32_t bytes);
  void forget_ranges() { ranges_ = {}; }
  // Any generic address, for system calls; null when it is not readable.
  const std::byte* readable(std::uint64_t address, std::uint32_t bytes, std::uint32_t lane);
  std::uint64_t grid_workspace() const;
  bool grow_local(std::uint32_t lane, std::uint32_t bytes);

  const launch& shared() const { return shared_launch_; }
  const compiled_program& code() const { return *code_; }
  const kernel_info& kernel() const { return code_->kernels_[shared_launch_.kernel]; }
  std::uint32_t dynamic_shared_offset() const {
    return code_->dynamic_shared_offsets_[shared_launch_.kernel];
  }

  // The running group's registers, warp and frame; valid inside handlers.
  std::byte* registers_ = nullptr;
  const std::byte* bases_[2] = {};
  warp* warp_ = nullptr;
  frame* frame_ = nullptr;
  std::uint32_t group_ = 0;  // lanes that run together
  std::uint32_t pc_ = 0;

  std::vector<warp> warps_;
  std::array<barrier_state, 16> barriers_;
  std::uint32_t live_threads_ = 0;
  dim3 block_index_;
  std::uint64_t started_ns_ = 0;

 private:
  friend struct scheduler;
  bool pick_group(warp& w);
  std::uint64_t run_warp(warp& w, std::uint64_t steps);
  std::uint64_t run_group(std::uint64_t steps);
  void enter_kernel(warp& w);
  frame* take_frame(const function_code& code);
  void release_frame(frame* f);

  const launch& shared_launch_;
  const compiled_program* code_;
  cluster_state own_cluster_;
  cluster_state* cluster_;
  fault fault_;
  bool rescheduled_ = false;
  bool yielded_ = false;
  std::uint64_t extra_steps_ = 0;
  std::uint32_t stop_pc_ = ~0u;
  bool contended_ = false;
  std::uint64_t schedule_count_ = 0;
  std::uint32_t next_warp_ = 0;

  std::unique_ptr<std::byte[]> shared_;
  std::uint32_t shared_bytes_ = 0;
  std::array<cached_range, 8> ranges_{};
  std::uint32_t next_range_ = 0;

  std::vector<std::unique_ptr<frame>> frames_;
  std::unordered_map<const function_code*, std::vector<frame*>> free_frames_;
};

}  // namespace gpuwire::softgpu::ptx
