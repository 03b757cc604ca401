// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>

#include "executor.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

// A lane's local memory, as on the hardware, and calls without local memory end somewhere too.
constexpr std::uint32_t local_bytes_max = 512u << 10;
constexpr std::uint32_t call_depth_max = 24'000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

executor::executor(const launch& shared, dim3 block_index, cluster_state* cluster)
    : block_index_(block_index),
      started_ns_(now_ns()),
      shared_launch_(shared),
      code_(static_cast<const compiled_program*>(shared.code.get())),
      cluster_(cluster != nullptr ? cluster : &own_cluster_) {
  if (cluster == nullptr) own_cluster_.members.push_back(this);
  bases_[1] = code_->constants_.data();
  live_threads_ = shared.block.x * shared.block.y * shared.block.z;
  shared_bytes_ = dynamic_shared_offset() + shared.dynamic_shared_bytes;
  shared_ = std::make_unique<std::byte[]>(shared_limit());
  warps_.resize((live_threads_ + warp_lanes - 1) / warp_lanes);
  for (barrier_state& b : barriers_) b.waiting.assign(warps_.size(), 0);
  std::uint32_t thread = 0;
  for (std::uint32_t n = 0; n < warps_.size(); ++n) {
    warp& w = warps_[n];
    w.index = n;
    for (std::uint32_t lane = 0; lane < warp_lanes && thread < live_threads_; ++lane, ++thread) {
      w.live |= 1u << lane;
      w.thread_x[lane] = thread % shared.block.x;
      w.thread_y[lane] = thread / shared.block.x % shared.block.y;
      w.thread_z[lane] = thread / shared.block.x / shared.block.y;
    }
    w.runnable = w.live;
    enter_kernel(w);
  }
}

void executor::enter_kernel(warp& w) {
  const function_code& entry = code_->functions_[code_->kernel_functions_[shared_launch_.kernel]];
  frame* f = take_frame(entry);
  f->lanes = w.live;
  warp_ = &w;
  for (std::uint32_t m = w.live; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
    w.frames[lane] = f;
    grow_local(lane, entry.local_bytes);
  }
}

frame* executor::take_frame(const function_code& code) {
  auto& free = free_frames_[&code];
  frame* f = nullptr;
  if (free.empty()) {
    frames_.push_back(std::make_unique<frame>());
    f = frames_.back().get();
    f->code = &code;
    f->registers = std::make_unique<std::byte[]>(code.register_bytes);
    f->parameters = std::make_unique<std::byte[]>(std::size_t{code.parameter_bytes} * warp_lanes);
  } else {
    f = free.back();
    free.pop_back();
  }
  f->parent = nullptr;
  f->site = nullptr;
  f->depth = 0;
  f->local_base.fill(0);
  return f;
}

void executor::release_frame(frame* f) {
  free_frames_[f->code].push_back(f);
}

bool executor::grow_local(std::uint32_t lane, std::uint32_t bytes) {
  std::uint32_t& top = warp_->local_top[lane];
  if (bytes > local_bytes_max || top > local_bytes_max - bytes) return false;
  top += bytes;
  auto& memory = warp_->local[lane];
  if (memory.size() < top) memory.resize(std::max<std::size_t>(top, memory.size() * 2));
  return true;
}

bool executor::enter(const instruction& at, std::uint32_t lanes, const function_code& callee,
                     const call_site& site) {
  if (frame_->depth >= call_depth_max) {
    raise(fault_kind::out_of_stack, at, "call depth exceeds " + std::to_string(call_depth_max));
    return false;
  }
  frame* caller = frame_;
  frame* f = take_frame(callee);
  f->parent = caller;
  f->site = &site;
  f->return_pc = pc_ + 1;
  f->depth = caller->depth + 1;
  f->lanes = lanes;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
    for (std::size_t n = 0; n < callee.parameters.size() && n < site.arguments.size(); ++n)
      std::memcpy(f->parameter(lane, callee.parameters[n].offset),
                  caller->parameter(lane, site.arguments[n].offset),
                  std::min(callee.parameters[n].bytes, site.arguments[n].bytes));
    const std::uint32_t base = (warp_->local_top[lane] + 15) & ~15u;
    warp_->local_top[lane] = base;
    f->local_base[lane] = base;
    if (!grow_local(lane, callee.local_bytes)) {
      raise(fault_kind::out_of_stack, at, "local memory exhausted");
      return false;
    }
    warp_->frames[lane] = f;
    warp_->pc[lane] = 0;
  }
  return true;
}

void executor::leave(std::uint32_t lanes) {
  frame* f = frame_;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
    for (std::size_t n = 0; n < f->code->results.size() && n < f->site->results.size(); ++n)
      std::memcpy(f->parent->parameter(lane, f->site->results[n].offset),
                  f->parameter(lane, f->code->results[n].offset),
                  std::min(f->code->results[n].bytes, f->site->results[n].bytes));
    warp_->local_top[lane] = f->local_base[lane];
    warp_->frames[lane] = f->parent;
    warp_->pc[lane] = f->return_pc;
  }
  f->lanes &= ~lanes;
  if (f->lanes == 0) release_frame(f);
}

void executor::exit_lanes(std::uint32_t lanes) {
  warp_->live &= ~lanes;
  warp_->runnable &= ~lanes;
  live_threads_ -= static_cast<std::uint32_t>(std::popcount(lanes));
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    frame* f = warp_->frames[std::countr_zero(m)];
    f->lanes &= ~(m & (0 - m));
  }
  complete_exchanges(*warp_);
  check_barriers();
}

void executor::raise(fault_kind kind, const instruction& at, const std::string& what) {
  if (failed()) return;
  fault_.kind = kind;
  fault_.text = what;
  if (kind == fault_kind::assertion) return;  // already as the driver prints it
  fault_.text += " in kernel " + kernel().name + ", PTX line " + std::to_string(at.line) +
                 ", block (" + std::to_string(block_index_.x) + "," +
                 std::to_string(block_index_.y) + "," + std::to_string(block_index_.z) + ")";
}

const cached_range* executor::find_range(std::uint64_t address, std::uint32_t bytes) {
  for (const cached_range& r : ranges_)
    if (r.find(address, bytes) != nullptr) return &r;
  cached_range found;
  if (const auto r = shared_launch_.device_memory->resolve(address)) {
    found = {r->base, r->bytes, r->host, r->writable};
  } else {
    auto* workspace = reinterpret_cast<std::byte*>(&shared_launch_.grid_workspace);
    found = {grid_workspace(),
             shared_launch_.cooperative ? sizeof shared_launch_.grid_workspace : 0, workspace,
             true};
  }
  if (found.find(address, bytes) == nullptr) return nullptr;
  cached_range& place = ranges_[next_range_++ % ranges_.size()];
  place = found;
  return &place;
}

std::uint64_t executor::grid_workspace() const {
  if (!shared_launch_.cooperative) return 0;
  return reinterpret_cast<std::uintptr_t>(&shared_launch_.grid_workspace);
}

const std::byte* executor::readable(std::uint64_t address, std::uint32_t bytes,
                                    std::uint32_t lane) {
  const std::uint64_t offset = address & ~window_mask;
  switch (address & window_mask) {
    case shared_window:
      return offset + bytes <= shared_limit() ? shared_.get() + offset : nullptr;
    case local_window:
      return offset + bytes <= warp_->local_top[lane] ? warp_->local[lane].data() + offset
                                                      : nullptr;
    case parameter_window: {
      const auto& arguments = shared_launch_.arguments;
      return offset + bytes <= arguments.size() ? arguments.data() + offset : nullptr;
    }
    default: {
      const cached_range* r = find_range(address, bytes);
      return r != nullptr ? r->find(address, bytes) : nullptr;
    }
  }
}

block_state executor::run(std::uint64_t instruction_budget) {
  constexpr std::uint64_t turn = 1024;  // a warp's steps before the next one runs
  while (!failed() && live_threads_ > 0) {
    bool progress = false;
    for (std::size_t n = 0; n < warps_.size() && !failed(); ++n) {
      warp& w = warps_[next_warp_];
      next_warp_ = static_cast<std::uint32_t>((next_warp_ + 1) % warps_.size());
      if (w.runnable == 0) continue;
      progress = true;
      const std::uint64_t spent = run_warp(w, std::min(turn, instruction_budget));
      instruction_budget -= std::min(spent, instruction_budget);
      if (instruction_budget == 0) break;
    }
    if (failed() || live_threads_ == 0) break;
    if (!progress) {
      // Nothing outside this block can wake a parked lane, so this would stand still for ever.
      raise(fault_kind::trap, instruction{}, "deadlock: every thread waits at a barrier");
      break;
    }
    if (instruction_budget == 0) return block_state::running;
  }
  return failed() ? block_state::faulted : block_state::finished;
}

std::unique_ptr<block> make_block(const launch& shared, dim3 block_index) {
  const dim3 cluster = shared.cluster;
  if (cluster.x * cluster.y * cluster.z > 1) return make_cluster(shared, block_index);
  return std::make_unique<executor>(shared, block_index);
}

}  // namespace gpuwire::softgpu::ptx
