// SPDX-License-Identifier: Apache-2.0
// Special registers: where a thread is, and the clocks.
#include <chrono>

#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

std::uint64_t wall_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

std::uint64_t ticks(const executor& x) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return ns - x.started_ns_ + 1;
}

// The same value for every lane.
template <class T, T (*Value)(const executor&)>
void uniform(executor& x, const instruction& i, std::uint32_t lanes) {
  const T value = Value(x);
  std::byte* d = x.out(i.o[0]);
  for_lanes(lanes, [=](std::uint32_t l) { put<T>(d, l, value); });
}

template <std::uint32_t (*Value)(const executor&, std::uint32_t)>
void varying(executor& x, const instruction& i, std::uint32_t lanes) {
  std::byte* d = x.out(i.o[0]);
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    put(d, l, Value(x, l));
  }
}

using u32 = std::uint32_t;
using u64 = std::uint64_t;
using c = const executor&;

u32 zero(c) {
  return 0;
}
u32 explicit_cluster(c x) {
  return x.shared().explicit_cluster ? 1 : 0;
}

constexpr struct {
  std::string_view name;
  std::string_view component;
  type kind;
  handler read;
} registers[] = {
    {"%tid", "x", type::u32, varying<[](c x, u32 l) { return x.warp_->thread_x[l]; }>},
    {"%tid", "y", type::u32, varying<[](c x, u32 l) { return x.warp_->thread_y[l]; }>},
    {"%tid", "z", type::u32, varying<[](c x, u32 l) { return x.warp_->thread_z[l]; }>},
    {"%ntid", "x", type::u32, uniform<u32, [](c x) { return x.shared().block.x; }>},
    {"%ntid", "y", type::u32, uniform<u32, [](c x) { return x.shared().block.y; }>},
    {"%ntid", "z", type::u32, uniform<u32, [](c x) { return x.shared().block.z; }>},
    {"%ctaid", "x", type::u32, uniform<u32, [](c x) { return x.block_index_.x; }>},
    {"%ctaid", "y", type::u32, uniform<u32, [](c x) { return x.block_index_.y; }>},
    {"%ctaid", "z", type::u32, uniform<u32, [](c x) { return x.block_index_.z; }>},
    {"%nctaid", "x", type::u32, uniform<u32, [](c x) { return x.shared().grid.x; }>},
    {"%nctaid", "y", type::u32, uniform<u32, [](c x) { return x.shared().grid.y; }>},
    {"%nctaid", "z", type::u32, uniform<u32, [](c x) { return x.shared().grid.z; }>},
    {"%laneid", "", type::u32, varying<[](c, u32 l) { return l; }>},
    {"%warpid", "", type::u32, uniform<u32, [](c x) { return x.warp_->index; }>},
    {"%nwarpid", "", type::u32, uniform<u32, [](c) -> u32 { return 64; }>},
    {"%smid", "", type::u32, uniform<u32, [](c) -> u32 { return 0; }>},
    {"%nsmid", "", type::u32, uniform<u32, [](c) -> u32 { return 1; }>},
    {"%gridid", "", type::u64, uniform<u64, [](c) -> u64 { return 1; }>},
    {"%clock", "", type::u32, uniform<u32, [](c x) { return static_cast<u32>(ticks(x)); }>},
    {"%clock_hi", "", type::u32,
     uniform<u32, [](c x) { return static_cast<u32>(ticks(x) >> 32); }>},
    {"%clock64", "", type::u64, uniform<u64, [](c x) { return ticks(x); }>},
    {"%globaltimer", "", type::u64, uniform<u64, [](c) { return wall_ns(); }>},
    {"%globaltimer_lo", "", type::u32, uniform<u32, [](c) { return static_cast<u32>(wall_ns()); }>},
    {"%globaltimer_hi", "", type::u32,
     uniform<u32, [](c) { return static_cast<u32>(wall_ns() >> 32); }>},
    {"%lanemask_eq", "", type::u32, varying<[](c, u32 l) { return 1u << l; }>},
    {"%lanemask_lt", "", type::u32, varying<[](c, u32 l) { return (1u << l) - 1; }>},
    {"%lanemask_le", "", type::u32, varying<[](c, u32 l) { return (2u << l) - 1; }>},
    {"%lanemask_gt", "", type::u32, varying<[](c, u32 l) { return ~((2u << l) - 1); }>},
    {"%lanemask_ge", "", type::u32, varying<[](c, u32 l) { return ~((1u << l) - 1); }>},
    {"%dynamic_smem_size", "", type::u32,
     uniform<u32, [](c x) { return x.shared().dynamic_shared_bytes; }>},
    {"%total_smem_size", "", type::u32, uniform<u32, [](c x) { return x.shared_bytes(); }>},
    {"%aggr_smem_size", "", type::u32, uniform<u32, [](c x) { return x.shared_bytes(); }>},
    {"%reserved_smem_offset_begin", "", type::u32,
     uniform<u32, [](c x) { return x.reserved_shared_offset(); }>},
    {"%reserved_smem_offset_end", "", type::u32,
     uniform<u32, [](c x) { return x.shared_limit(); }>},
    {"%reserved_smem_offset_cap", "", type::u32,
     uniform<u32, [](c x) { return x.shared_limit(); }>},
    {"%reserved_smem_offset_0", "", type::u32,
     uniform<u32, [](c x) { return x.reserved_shared_offset(); }>},
    {"%reserved_smem_offset_1", "", type::u32,
     uniform<u32, [](c x) { return x.reserved_shared_offset(); }>},
    // Cooperative groups find the grid's workspace in these: the high half, then the low half of
    // its address.
    {"%envreg1", "", type::u32,
     uniform<u32, [](c x) { return static_cast<u32>(x.grid_workspace() >> 32); }>},
    {"%envreg2", "", type::u32,
     uniform<u32, [](c x) { return static_cast<u32>(x.grid_workspace()); }>},
    // Clusters.
    {"%cluster_ctaid", "x", type::u32,
     uniform<u32, [](c x) { return x.block_index_.x % x.shared().cluster.x; }>},
    {"%cluster_ctaid", "y", type::u32,
     uniform<u32, [](c x) { return x.block_index_.y % x.shared().cluster.y; }>},
    {"%cluster_ctaid", "z", type::u32,
     uniform<u32, [](c x) { return x.block_index_.z % x.shared().cluster.z; }>},
    {"%cluster_nctaid", "x", type::u32, uniform<u32, [](c x) { return x.shared().cluster.x; }>},
    {"%cluster_nctaid", "y", type::u32, uniform<u32, [](c x) { return x.shared().cluster.y; }>},
    {"%cluster_nctaid", "z", type::u32, uniform<u32, [](c x) { return x.shared().cluster.z; }>},
    {"%cluster_ctarank", "", type::u32, uniform<u32, [](c x) { return x.cluster_rank(); }>},
    {"%cluster_nctarank", "", type::u32,
     uniform<u32, [](c x) { return static_cast<u32>(x.cluster().members.size()); }>},
    {"%clusterid", "x", type::u32,
     uniform<u32, [](c x) { return x.block_index_.x / x.shared().cluster.x; }>},
    {"%clusterid", "y", type::u32,
     uniform<u32, [](c x) { return x.block_index_.y / x.shared().cluster.y; }>},
    {"%clusterid", "z", type::u32,
     uniform<u32, [](c x) { return x.block_index_.z / x.shared().cluster.z; }>},
    {"%nclusterid", "x", type::u32,
     uniform<u32, [](c x) { return x.shared().grid.x / x.shared().cluster.x; }>},
    {"%nclusterid", "y", type::u32,
     uniform<u32, [](c x) { return x.shared().grid.y / x.shared().cluster.y; }>},
    {"%nclusterid", "z", type::u32,
     uniform<u32, [](c x) { return x.shared().grid.z / x.shared().cluster.z; }>},
};

}  // namespace

handler special_register(std::string_view name, std::string_view component, type& kind) {
  for (const auto& entry : registers) {
    if (entry.name != name) continue;
    if (entry.component != component && (entry.component != "*" || component.empty())) continue;
    kind = entry.kind;
    return entry.read;
  }
  if (name == "%is_explicit_cluster") {
    kind = type::u32;
    return uniform<u32, explicit_cluster>;
  }
  // The remaining environment registers and the performance counters read as zero.
  if (name.substr(0, 7) == "%envreg" || name.substr(0, 3) == "%pm") {
    kind = type::u32;
    return uniform<u32, zero>;
  }
  return nullptr;
}

}  // namespace gpuwire::softgpu::ptx
