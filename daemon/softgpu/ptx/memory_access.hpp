// SPDX-License-Identifier: Apache-2.0
// From an address in a state space to memory of this process, with every access checked. A space
// object lives for one instruction; at() gives null after raising a fault.
#pragma once

#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {

enum class state_space : std::uint8_t { generic, global, constant, shared, local, argument };

std::byte* raise_misaligned(executor& x, const instruction& i, std::uint64_t address);
std::byte* raise_illegal(executor& x, const instruction& i, std::uint64_t address,
                         const char* space);

class global_space {
 public:
  global_space(executor& x, const instruction& i) : x_(x), i_(i) {}
  std::byte* at(std::uint64_t address, std::uint32_t, std::uint32_t bytes, bool write) {
    if ((address & (bytes - 1)) != 0) return raise_misaligned(x_, i_, address);
    std::byte* found = range_ != nullptr ? range_->find(address, bytes) : nullptr;
    if (found == nullptr) {
      range_ = x_.find_range(address, bytes);
      if (range_ == nullptr) return raise_illegal(x_, i_, address, "global");
      found = range_->find(address, bytes);
    }
    if (write && !range_->writable) return raise_illegal(x_, i_, address, "constant");
    return found;
  }

 private:
  executor& x_;
  const instruction& i_;
  const cached_range* range_ = nullptr;
};

class shared_space {
 public:
  shared_space(executor& x, const instruction& i) : x_(x), i_(i) {}
  std::byte* at(std::uint64_t address, std::uint32_t, std::uint32_t bytes, bool) {
    if ((address & (bytes - 1)) != 0) return raise_misaligned(x_, i_, address);
    const std::uint64_t size = x_.shared_limit();
    if (address < size && bytes <= size - address) return x_.shared_data() + address;
    std::byte* elsewhere = x_.cluster_shared(address, bytes);
    return elsewhere != nullptr ? elsewhere : raise_illegal(x_, i_, address, "shared");
  }

 private:
  executor& x_;
  const instruction& i_;
};

class local_space {
 public:
  local_space(executor& x, const instruction& i) : x_(x), i_(i) {}
  std::byte* at(std::uint64_t address, std::uint32_t lane, std::uint32_t bytes, bool) {
    if ((address & (bytes - 1)) != 0) return raise_misaligned(x_, i_, address);
    const std::uint64_t size = x_.warp_->local_top[lane];
    if (address >= size || bytes > size - address) return raise_illegal(x_, i_, address, "local");
    return x_.warp_->local[lane].data() + address;
  }

 private:
  executor& x_;
  const instruction& i_;
};

// The kernel's arguments, through a register.
class argument_space {
 public:
  argument_space(executor& x, const instruction& i) : x_(x), i_(i) {}
  std::byte* at(std::uint64_t address, std::uint32_t, std::uint32_t bytes, bool write) {
    const auto& arguments = x_.shared().arguments;
    if (write || address >= arguments.size() || bytes > arguments.size() - address)
      return raise_illegal(x_, i_, address, "parameter");
    return const_cast<std::byte*>(arguments.data() + address);  // `write` is false
  }

 private:
  executor& x_;
  const instruction& i_;
};

class generic_space {
 public:
  generic_space(executor& x, const instruction& i)
      : global_(x, i), shared_(x, i), local_(x, i), argument_(x, i) {}
  std::byte* at(std::uint64_t address, std::uint32_t lane, std::uint32_t bytes, bool write) {
    switch (address & window_mask) {
      case shared_window:
        return shared_.at(address - shared_window, lane, bytes, write);
      case local_window:
        return local_.at(address - local_window, lane, bytes, write);
      case parameter_window:
        return argument_.at(address - parameter_window, lane, bytes, write);
      default:
        return global_.at(address, lane, bytes, write);
    }
  }

 private:
  global_space global_;
  shared_space shared_;
  local_space local_;
  argument_space argument_;
};

// An address operand: [register + immediate]. A 32-bit register may address shared and local
// memory.
struct lane_addresses {
  lane_addresses(const executor& x, std::uint32_t operand, const instruction& i)
      : lanes(x.in(operand)),
        addend(static_cast<std::uint64_t>(i.immediate)),
        narrow((i.sub & narrow_flag) != 0) {}
  std::uint64_t operator()(std::uint32_t lane) const {
    return narrow ? static_cast<std::uint32_t>(get<std::uint32_t>(lanes, lane) + addend)
                  : get<std::uint64_t>(lanes, lane) + addend;
  }
  static constexpr std::uint32_t narrow_flag = 1u << 31;
  const std::byte* lanes;
  std::uint64_t addend;
  bool narrow;
};

struct address_operand {
  std::uint32_t base = 0;
  std::int64_t addend = 0;
  bool narrow = false;
};

// Decoding; memory.cpp.
class builder;
struct form;
namespace syntax {
struct operand;
}
address_operand decode_address(builder& b, const syntax::operand& o);
std::optional<state_space> decode_space(const form& f);
// A register of 64 bits with the whole address, extended with zeroes. (copy.cpp)
std::uint32_t add_to_address(builder& b, const address_operand& a);

}  // namespace gpuwire::softgpu::ptx
