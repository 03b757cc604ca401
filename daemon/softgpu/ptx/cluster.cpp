// SPDX-License-Identifier: Apache-2.0
#include "cluster.hpp"

#include <algorithm>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

class cluster_block final : public block {
 public:
  cluster_block(const launch& shared, dim3 index) {
    const dim3 size = shared.cluster;
    for (std::uint32_t z = 0; z < size.z; ++z) {
      for (std::uint32_t y = 0; y < size.y; ++y) {
        for (std::uint32_t x = 0; x < size.x; ++x) {
          const dim3 at{index.x * size.x + x, index.y * size.y + y, index.z * size.z + z};
          members_.push_back(std::make_unique<executor>(shared, at, &state_));
          state_.members.push_back(members_.back().get());
          states_.push_back(block_state::running);
        }
      }
    }
  }

  // A block that has ended keeps its shared memory until the whole cluster has.
  block_state run(std::uint64_t instruction_budget) override {
    const std::uint64_t share =
        std::max<std::uint64_t>(instruction_budget / members_.size(), share_min);
    bool running = false;
    for (std::size_t at = 0; at < members_.size(); ++at) {
      if (states_[at] != block_state::running) continue;
      states_[at] = members_[at]->run(share);
      if (states_[at] == block_state::faulted) {
        faulted_ = members_[at].get();
        return block_state::faulted;
      }
      running = running || states_[at] == block_state::running;
    }
    return running ? block_state::running : block_state::finished;
  }

  const fault& error() const override { return (faulted_ ? faulted_ : members_[0].get())->error(); }

 private:
  static constexpr std::uint64_t share_min = 512;

  cluster_state state_;
  std::vector<std::unique_ptr<executor>> members_;
  std::vector<block_state> states_;
  const executor* faulted_ = nullptr;
};

void arrive(executor& x, const instruction&, std::uint32_t lanes) {
  warp& w = *x.warp_;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1)
    w.cluster_phase[static_cast<std::size_t>(std::countr_zero(m))] = x.cluster().phase;
  w.cluster_arrived |= lanes;
  x.cluster().check_barrier();
}

// Lanes spin: what they wait for may be the end of a thread of another block, which tells nobody.
void wait(executor& x, const instruction&, std::uint32_t lanes) {
  x.cluster().check_barrier();
  bool done = true;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto lane = static_cast<std::size_t>(std::countr_zero(m));
    done = done && x.warp_->cluster_phase[lane] < x.cluster().phase;
  }
  if (done) return x.next();
  x.spend(512);
  x.yield_warp();
  x.save_group(x.pc_);
  x.reschedule();
}

template <class T>
void map_address(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* addresses = x.in(i.o[1]);
  const std::byte* ranks = x.in(i.o[2]);
  std::byte* d = x.out(i.o[0]);
  constexpr T ranks_mask = static_cast<T>(0xffu) << cluster_rank_shift;
  for_lanes(lanes, [=](std::uint32_t l) {
    const T rank = static_cast<T>(get<std::uint32_t>(ranks, l)) + 1;
    put(d, l, static_cast<T>((get<T>(addresses, l) & ~ranks_mask) | (rank << cluster_rank_shift)));
  });
}

template <class T>
void rank_of(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* addresses = x.in(i.o[1]);
  std::byte* d = x.out(i.o[0]);
  const std::uint32_t own = x.cluster_rank();
  for_lanes(lanes, [=](std::uint32_t l) {
    const auto tag = static_cast<std::uint32_t>(get<T>(addresses, l) >> cluster_rank_shift) & 0xffu;
    put(d, l, tag == 0 ? own : tag - 1);
  });
}

// isspacep.shared::cta: shared memory, and this block's own.
void in_own_shared(executor& x, const instruction& i, std::uint32_t lanes) {
  const std::byte* addresses = x.in(i.o[1]);
  std::uint32_t result = 0;
  for (std::uint32_t l = 0; l < warp_lanes; ++l) {
    const auto address = get<std::uint64_t>(addresses, l);
    const auto tag = (address & ~window_mask) >> cluster_rank_shift;
    const bool own = tag == 0 || tag == x.cluster_rank() + std::uint64_t{1};
    result |= static_cast<std::uint32_t>((address & window_mask) == shared_window && own) << l;
  }
  x.set_predicate(i.o[0], lanes, result);
}

bool decode_map(builder& b, const form& f) {
  const type t = f.t();
  const auto a = b.source(f.operand(1), t);
  const auto rank = b.source(f.operand(2), type::u32);
  const bool wide = lane_bytes(t) == 8;
  b.emit(wide ? map_address<std::uint64_t> : map_address<std::uint32_t>,
         {b.destination(f.operand(0), t)}, {a, rank});
  return true;
}

bool decode_rank(builder& b, const form& f) {
  const type t = f.t();
  const auto a = b.source(f.operand(1), t);
  b.emit(lane_bytes(t) == 8 ? rank_of<std::uint64_t> : rank_of<std::uint32_t>,
         {b.destination(f.operand(0), type::u32)}, {a});
  return true;
}

constexpr decode_entry entries[] = {{"mapa", decode_map}, {"getctarank", decode_rank}};

}  // namespace

void cluster_state::check_barrier() {
  for (const executor* member : members) {
    for (const warp& w : member->warps_) {
      if ((w.live & ~w.cluster_arrived) != 0) return;
    }
  }
  for (executor* member : members) {
    for (warp& w : member->warps_) w.cluster_arrived = 0;
  }
  ++phase;
}

std::byte* executor::cluster_shared(std::uint64_t address, std::uint32_t bytes) {
  const std::uint64_t tag = address >> cluster_rank_shift;
  const std::uint64_t offset = address & cluster_offset_mask;
  if (tag == 0 || tag > cluster_->members.size()) return nullptr;
  executor& owner = *cluster_->members[tag - 1];
  const std::uint64_t size = owner.shared_limit();
  return offset < size && bytes <= size - offset ? owner.shared_data() + offset : nullptr;
}

std::uint32_t executor::cluster_rank() const {
  const dim3 size = shared_launch_.cluster;
  return block_index_.x % size.x +
         size.x * (block_index_.y % size.y + size.y * (block_index_.z % size.z));
}

bool decode_cluster_barrier(builder& b, const form& f) {
  if (f.has("arrive")) {
    b.emit(arrive, {}, {});
    return true;
  }
  if (!f.has("wait")) return false;
  b.emit(wait, {}, {}, flow::control);
  return true;
}

handler own_shared_test() {
  return in_own_shared;
}

decode_table cluster_instructions() {
  return entries;
}

std::unique_ptr<block> make_cluster(const launch& shared, dim3 cluster_index) {
  return std::make_unique<cluster_block>(shared, cluster_index);
}

}  // namespace gpuwire::softgpu::ptx
