// SPDX-License-Identifier: Apache-2.0
// The compute pool: as many threads as the host has cores, at idle priority, that run the blocks of
// all kernels.
//
// A kernel has at most as many resident blocks as its occupancy allows. Fresh blocks are taken
// without a lock; a block that does not end within its budget is parked and taken up again in turn,
// so that blocks (and kernels of different streams) that wait for one another all make progress.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../ptx/program.hpp"
#include "futex.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

// One launch. Set up by the launching thread, then owned by the compute pool until it is handed
// back to the scheduler.
class kernel_run {
 public:
  ptx::launch launch;
  std::shared_ptr<void> keep_alive;  // the module whose variables the kernel uses
  std::shared_ptr<stream> on;
  std::uint64_t block_count = 0;
  std::uint64_t resident_max = 1;
  bool cooperative = false;

  // Set from anywhere: blocks end at the next budget boundary.
  std::atomic<bool> stop{false};

  // Read by the scheduler once the kernel has ended.
  ptx::fault fault;
  std::string printed;

  // The scheduler's list of ended kernels.
  kernel_run* next_ended = nullptr;
  std::shared_ptr<kernel_run> self;

 private:
  friend class compute_pool;
  std::atomic<std::uint64_t> next_block_{0};
  std::atomic<std::uint64_t> finished_blocks_{0};
  std::atomic<bool> faulted_{false};
  std::mutex print_mutex_;  // compute threads only

  // Guarded by the pool's mutex.
  unsigned workers_inside_ = 0;
  std::uint64_t resident_ = 0;
  std::uint64_t picks_ = 0;
  std::deque<std::unique_ptr<ptx::block>> parked_;
  kernel_run* next_arrived_ = nullptr;
  std::shared_ptr<kernel_run> arrived_self_;
};

class compute_pool {
 public:
  static compute_pool& instance();

  // Takes no lock that a compute thread holds.
  void start(std::shared_ptr<kernel_run> run);

 private:
  compute_pool() = default;
  void work();
  void take_arrivals();
  bool has_work(const kernel_run& run) const;
  std::shared_ptr<kernel_run> pick(std::unique_ptr<ptx::block>& block);
  std::unique_ptr<ptx::block> run_slice(kernel_run& run, std::unique_ptr<ptx::block> block);
  std::unique_ptr<ptx::block> fresh_block(kernel_run& run);
  void put_back(const std::shared_ptr<kernel_run>& run, std::unique_ptr<ptx::block> block);
  void note_fault(kernel_run& run, const ptx::fault& fault);

  std::once_flag threads_started_;
  std::atomic<kernel_run*> arrived_{nullptr};
  std::atomic<int> sleepers_{0};
  wake_word arrivals_;

  std::mutex mutex_;  // compute threads only
  std::vector<std::shared_ptr<kernel_run>> active_;
  std::size_t turn_ = 0;
};

}  // namespace gpuwire::softgpu
