// SPDX-License-Identifier: Apache-2.0
#include "compute.hpp"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <new>
#include <thread>

#include "scheduler.hpp"
#include "threads.hpp"

namespace gpuwire::softgpu {
namespace {

// In warp instructions. A first slice is long enough for most blocks to end in it; a block that has
// not ended may be waiting for another one, so its later slices are short, and those of cooperative
// kernels shorter still.
constexpr std::uint64_t budget_first = 65536;
constexpr std::uint64_t budget_resumed = 4096;
constexpr std::uint64_t budget_cooperative = 1024;
constexpr std::uint64_t slice_ns = 2'000'000;
// One pick in so many starts a fresh block although parked ones exist.
constexpr std::uint64_t fresh_turn = 4;

void become_idle_priority() {
  sched_param parameters{};
  if (sched_setscheduler(0, SCHED_IDLE, &parameters) != 0) {
    setpriority(PRIO_PROCESS, 0, 19);
  }
}

// Of the block, or of the cluster, which is then what is run.
ptx::dim3 block_index(const kernel_run& run, std::uint64_t number) {
  const std::uint64_t x = run.launch.grid.x / run.launch.cluster.x;
  const std::uint64_t y = run.launch.grid.y / run.launch.cluster.y;
  return {static_cast<std::uint32_t>(number % x), static_cast<std::uint32_t>(number / x % y),
          static_cast<std::uint32_t>(number / x / y)};
}

}  // namespace

compute_pool& compute_pool::instance() {
  static auto* only = new compute_pool;
  return *only;
}

void compute_pool::start(std::shared_ptr<kernel_run> run) {
  std::call_once(threads_started_, [this] {
    const unsigned count = std::max(1u, std::thread::hardware_concurrency());
    for (unsigned thread = 0; thread < count; ++thread)
      start_thread("gpuwire-compute", [this] { work(); });
  });
  kernel_run* raw = run.get();
  const auto blocks = static_cast<int>(std::min<std::uint64_t>(raw->block_count, 1 << 16));
  raw->launch.print = [raw](std::string_view text) {
    std::lock_guard lock(raw->print_mutex_);
    raw->printed.append(text);
  };
  raw->arrived_self_ = std::move(run);
  kernel_run* head = arrived_.load();
  do {
    raw->next_arrived_ = head;
  } while (!arrived_.compare_exchange_weak(head, raw));
  // The word changes even when nobody sleeps: a thread may be about to.
  arrivals_.change();
  if (sleepers_.load() > 0) arrivals_.notify(blocks);
}

void compute_pool::take_arrivals() {
  kernel_run* head = arrived_.exchange(nullptr);
  const auto at = static_cast<std::ptrdiff_t>(active_.size());
  while (head != nullptr) {
    kernel_run* next = head->next_arrived_;
    active_.insert(active_.begin() + at,
                   std::move(head->arrived_self_));  // the list is newest first
    head = next;
  }
}

bool compute_pool::has_work(const kernel_run& run) const {
  if (run.stop.load()) return run.workers_inside_ == 0;  // to be ended
  if (!run.parked_.empty()) return true;
  return run.resident_ < run.resident_max && run.next_block_.load() < run.block_count;
}

// The next kernel in turn that has something to do; a null `block` means a fresh one.
std::shared_ptr<kernel_run> compute_pool::pick(std::unique_ptr<ptx::block>& block) {
  for (std::size_t tried = 0; tried < active_.size(); ++tried) {
    auto& candidate = active_[turn_++ % active_.size()];
    kernel_run& run = *candidate;
    if (!has_work(run)) continue;
    ++run.workers_inside_;
    if (run.stop.load()) return candidate;
    const bool fresh_possible =
        run.resident_ < run.resident_max && run.next_block_.load() < run.block_count;
    const bool fresh = run.parked_.empty() ||
                       (fresh_possible && (run.cooperative || ++run.picks_ % fresh_turn == 0));
    if (fresh) {
      ++run.resident_;
    } else {
      block = std::move(run.parked_.front());
      run.parked_.pop_front();
    }
    return candidate;
  }
  return nullptr;
}

void compute_pool::note_fault(kernel_run& run, const ptx::fault& fault) {
  if (!run.faulted_.exchange(true)) run.fault = fault;
  run.stop.store(true);
}

std::unique_ptr<ptx::block> compute_pool::fresh_block(kernel_run& run) {
  const std::uint64_t number = run.next_block_.fetch_add(1);
  if (number >= run.block_count) return nullptr;
  return ptx::make_block(run.launch, block_index(run, number));
}

// Runs blocks until the time of the slice is over. Returns a block that has not ended, if any.
std::unique_ptr<ptx::block> compute_pool::run_slice(kernel_run& run,
                                                    std::unique_ptr<ptx::block> block) {
  const std::uint64_t end_ns = monotonic_ns() + slice_ns;
  try {
    bool resumed = block != nullptr;
    while (!run.stop.load(std::memory_order_relaxed)) {
      if (!block) {
        block = fresh_block(run);
        if (!block) return nullptr;
      }
      const auto state = block->run(run.cooperative ? budget_cooperative
                                    : resumed       ? budget_resumed
                                                    : budget_first);
      if (state == ptx::block_state::running) return block;
      if (state == ptx::block_state::faulted) note_fault(run, block->error());
      block.reset();
      run.finished_blocks_.fetch_add(1);
      resumed = false;
      if (monotonic_ns() > end_ns) break;
    }
  } catch (const std::exception& failed) {
    note_fault(run, {ptx::fault_kind::trap,
                     std::string("out of host memory for a block: ") + failed.what()});
  }
  return nullptr;
}

void compute_pool::put_back(const std::shared_ptr<kernel_run>& run,
                            std::unique_ptr<ptx::block> block) {
  --run->workers_inside_;
  if (block) {
    run->parked_.push_back(std::move(block));
  } else if (run->resident_ > 0) {
    --run->resident_;
  }
  if (run->workers_inside_ > 0) return;
  if (!run->stop.load() && run->finished_blocks_.load() < run->block_count) return;
  run->parked_.clear();
  std::erase(active_, run);
  scheduler::instance().kernel_ended(run);
}

void compute_pool::work() {
  become_idle_priority();
  std::unique_lock lock(mutex_);
  for (;;) {
    const std::uint32_t seen = arrivals_.value();
    take_arrivals();
    std::unique_ptr<ptx::block> block;
    auto run = pick(block);
    if (!run) {
      lock.unlock();
      sleepers_.fetch_add(1);
      arrivals_.wait(seen);
      sleepers_.fetch_sub(1);
      lock.lock();
      continue;
    }
    lock.unlock();
    block = run_slice(*run, std::move(block));
    lock.lock();
    put_back(run, std::move(block));
    // More than this thread can take up itself.
    if (run->parked_.size() > 1 && sleepers_.load() > 0) {
      arrivals_.change();
      arrivals_.notify(1);
    }
  }
}

}  // namespace gpuwire::softgpu
