// SPDX-License-Identifier: Apache-2.0
// The border between the soft GPU's driver half (daemon/softgpu/driver) and its PTX half (this
// folder).
//
// program: an immutable compiled PTX translation unit; shared between threads freely.
// block:   one CTA in execution; owned and stepped by exactly one thread at a time, may move
// between threads. The PTX half knows nothing of contexts, streams or handles; it sees device
// memory through `memory` alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "texture.hpp"

namespace gpuwire::softgpu::ptx {

struct dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// Parameter of a kernel: place in the argument buffer, in bytes, laid out as the CUDA driver does.
struct parameter {
  std::string name;
  std::uint32_t offset = 0;
  std::uint32_t bytes = 0;
  std::uint32_t align = 1;
};

struct kernel_info {
  std::string name;  // the mangled name, as cuModuleGetFunction takes it
  std::vector<parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t local_bytes = 0;               // .local per thread, call depth not counted
  std::uint32_t threads_per_block_max = 1024;  // smaller with .maxntid / .reqntid
  dim3 required_cluster{0, 0, 0};              // from .reqnctapercluster; zeroes: none
  std::uint32_t target = 75;          // compute capability of its text's .target, 75 for sm_75
  std::uint32_t register_count = 32;  // 32-bit registers a thread is reported to use
};

// A pointer inside a variable's initial value: the address of `target` (+ addend) is stored at
// `offset`.
struct relocation {
  std::uint64_t offset = 0;
  std::string target;  // a variable of this program (or of another one when linked)
  std::int64_t addend = 0;
  bool generic = true;
};

// A module-scope .global or .const variable.
struct variable_info {
  std::string name;
  bool constant = false;
  bool managed = false;
  bool is_extern = false;
  bool visible = false;  // .visible / .weak: found by name from outside
  std::uint64_t bytes = 0;
  std::uint32_t align = 1;
  std::vector<std::byte> initial;  // empty: zeroes; else at most `bytes`, the rest zero
  std::vector<relocation> relocations;
};

enum class compile_error_kind {
  syntax,               // CUDA_ERROR_INVALID_PTX (218)
  unsupported_version,  // .version newer than we know: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222)
  unknown_instruction,  // valid PTX perhaps, but not ours: CUDA_ERROR_INVALID_PTX, the text names
                        // opcode and line
  unresolved_symbol,    // CUDA_ERROR_INVALID_PTX in a load, as natively
  no_entry_target,  // .target newer than compute capability 9.0: CUDA_ERROR_NO_BINARY_FOR_GPU (209)
};

struct compile_error {
  compile_error_kind kind{};
  std::string message;  // one line, "line 12: unknown instruction 'foo.bar'"
};

class program {
 public:
  virtual ~program() = default;
  virtual std::span<const kernel_info> kernels() const = 0;
  virtual std::span<const variable_info> variables() const = 0;
};

// Compiles PTX text (without or with the trailing NUL). Several texts are linked into one program
// (-rdc=true: .extern functions and variables of one text are resolved by .visible ones of
// another).
std::variant<std::shared_ptr<const program>, compile_error> compile(
    std::span<const std::string_view> texts);

// What a kernel sees as device memory. Implemented by the driver half. All functions may be called
// from many threads at once and must be fast: the interpreter calls `resolve` on cache misses only
// and keeps the last few ranges.
class memory {
 public:
  struct range {
    std::uint64_t base = 0;     // device address of the first byte
    std::uint64_t bytes = 0;    // length of the live allocation
    std::byte* host = nullptr;  // where it lies in this process
    bool writable = true;       // false for .const
  };
  virtual ~memory() = default;
  // The live allocation that contains `address`, or nothing: then the access is an illegal address
  // (700).
  virtual std::optional<range> resolve(std::uint64_t address) const = 0;
};

// Device heap (malloc/free in kernels); returns 0 when the heap limit is reached.
struct device_heap {
  std::function<std::uint64_t(std::uint64_t bytes)> allocate;
  std::function<void(std::uint64_t address)> free;
};

// Everything one launch shares between its blocks. Outlives every block made from it.
struct launch {
  std::shared_ptr<const program> code;
  std::uint32_t kernel = 0;  // index into code->kernels()
  dim3 grid, block;
  dim3 cluster;  // in blocks; the grid is a multiple of it
  bool explicit_cluster = false;
  std::uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> arguments;               // parameter_bytes long
  std::vector<std::uint64_t> variable_addresses;  // device address of each of code->variables()
  const memory* device_memory = nullptr;
  std::shared_ptr<const texture_set> textures;  // may be null
  std::function<void(std::string_view)> print;  // formatted device printf output, any thread
  device_heap heap;
  // cudaGraphSetConditional; any thread. Without it the call does nothing.
  std::function<void(std::uint64_t handle, std::uint32_t value)> set_condition;
  // Set for cuLaunchCooperativeKernel: gives cooperative groups the workspace through which
  // grid.sync() counts arrivals. Without it this_grid().is_valid() is false, as natively.
  bool cooperative = false;
  alignas(64) mutable std::array<std::uint32_t, 16> grid_workspace{};
};

enum class fault_kind {
  none,
  illegal_address,      // 700
  misaligned_address,   // 716
  illegal_instruction,  // 715: trap of our own, an instruction we refuse at run time
  trap,                 // 719 LAUNCH_FAILURE: trap instruction
  assertion,  // 710 ASSERT: __assertfail (message in `text`, already formatted as the driver prints
              // it)
  out_of_stack,  // 700, as local memory that ends
  invalid_pc,    // 718: a call through a pointer to no function
};

struct fault {
  fault_kind kind = fault_kind::none;
  std::string text;  // names kernel, PTX line, address: for the log
};

enum class block_state { running, finished, faulted };

// One CTA, or all CTAs of a cluster. run() executes about `instruction_budget` warp instructions
// and returns; call again while it says running, so that the driver half can interleave resident
// blocks (cooperative launches, kernels that wait for one another).
class block {
 public:
  virtual ~block() = default;
  virtual block_state run(std::uint64_t instruction_budget) = 0;
  virtual const fault& error() const = 0;
};

// With clusters of more than one CTA, `index` counts clusters.
std::unique_ptr<block> make_block(const launch& shared, dim3 index);

}  // namespace gpuwire::softgpu::ptx
