// SPDX-License-Identifier: Apache-2.0
// What memory there is: device allocations and globals at the server's addresses (reserved here,
// never mapped), host memory of this process that CUDA handed out or was told about.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "shim/state.hpp"

namespace gpuwire::shim {

using memory_range = interval_map<memory_entry>::entry;

// The address range of a module's variable, so that copies to it can be posted and pointer queries
// know it. Does nothing if the range is known or in use here.
void learn_global(std::uint64_t address, std::uint64_t bytes, std::uint64_t image);
void forget_globals_of(std::uint64_t image);
// A variable of a module, or a managed one of a library, from then on known here.
CUresult find_variable(bool library, std::uint64_t image, const char* name, CUdeviceptr& address,
                       std::size_t& bytes);
void forget_memory_of(std::uint32_t context);

inline bool is_device_memory(const memory_range& range) {
  switch (range.value.kind) {
    case memory_kind::device:
    case memory_kind::global:
    case memory_kind::pool:
    case memory_kind::graph:
    case memory_kind::mapped:
    case memory_kind::shared:
      return true;
    default:
      return false;
  }
}

// Ranges of addresses that the program reserved. Nothing of this process lies there, mapped or not.
bool is_reserved_device_address(std::uint64_t address);
bool reserve_device_addresses(std::uint64_t address, std::uint64_t bytes);
void free_device_addresses(std::uint64_t address);

// The entry of memory that the current context gets now.
memory_entry new_memory_entry(memory_kind kind);
// Reserves a range that the server has given out and remembers it. What a graph or a pool had there
// before is stale: the server would not have given it out otherwise. False if something of this
// process lies there.
bool keep_device_range(std::uint64_t address, std::uint64_t bytes, const memory_entry& entry);
// Takes the range out of the table before its free is sent; nothing if it is not `address`'s own or
// of another kind.
std::optional<memory_range> forget_device_range(std::uint64_t address, memory_kind kind);
// Memory of this process that the device has as well: managed, or flagged (direct_memory.hpp). The
// server has it at the same address, and commands may name it like device memory.
inline bool is_shared_memory(const memory_range& range) {
  return range.value.kind == memory_kind::managed ||
         range.value.direct == direct_access::granted;
}
inline bool is_on_server(const memory_range& range) {
  return is_device_memory(range) || is_shared_memory(range);
}

// Reserves the server's range of managed memory here, readable and writable, and begins to keep it
// the same on both sides. False if it is in use in this process. `owner`: the image of a variable.
bool keep_managed(std::uint64_t address, std::uint64_t bytes, std::uint64_t owner);

// Whether every byte of the range lies in one live device allocation or global: then a command
// about it cannot fail for its address and need not be waited for.
bool is_known_device_range(std::uint64_t address, std::uint64_t bytes);

// Whether the address lay in an allocation whose free is on its way or done. The server must not
// see it any more: it carries frees out in its own time, and a copy could meet one half done.
bool is_freed_device_memory(std::uint64_t address);

// Whether the range begins in device memory that is known here and runs beyond it into none: the
// driver refuses such a copy, so its host side must not be read.
bool leaves_known_device_memory(std::uint64_t address, std::uint64_t bytes);

}  // namespace gpuwire::shim
