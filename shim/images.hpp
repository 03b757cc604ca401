// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, kernels and functions as the load's reply described them. Lookups on the
// launch path take no lock.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "shim/attribute_memory.hpp"
#include "shim/launch_cache.hpp"
#include "shim/parameters.hpp"
#include "shim/state.hpp"

namespace gpuwire::shim {

// What never changes while the kernel lives.
struct kernel_details {
  std::string name;
  std::vector<parameter> parameters;
  std::size_t parameter_bytes = 0;
  std::uint64_t image = 0;  // library of a kernel, module of a function; 0: not known
};

// A kernel or a function. The details of an ended life stay until the next one begins, so that a
// racing reader in a wrong program reads old memory and not freed memory.
struct kernel_record {
  std::atomic<wire::handle_id> id{0};
  std::atomic<const kernel_details*> details{nullptr};
  launch_cache accepted;
  attribute_memory attributes;            // kernels only
  std::atomic<bool> layout_asked{false};  // see complete_layout()
};

struct image_record {
  std::atomic<wire::handle_id> id{0};
  std::mutex mutex;           // for everything below
  std::uint32_t context = 0;  // module: the index of its context
  std::vector<std::pair<std::string, std::uint64_t>>
      kernels;  // handle 0: the server was not asked for it yet
  std::unordered_map<std::string, std::size_t> by_name;  // index in `kernels`
  std::vector<std::uint64_t> derived;  // library: function handles made from its kernels
};

// Null for a handle that is none. A kernel handle is valid as a function.
kernel_record* find_function(CUfunction function);
kernel_record* find_kernel(CUkernel kernel);
image_record* find_module(CUmodule module);
image_record* find_library(CUlibrary library);

// Makes a handle from the server known. Null if its index is beyond the table.
kernel_record* learn_kernel(std::uint64_t id, kernel_details details);

// A driver may not know the layout of a kernel's parameters when its image is loaded. Asks once
// more, now that the kernel is launched with some; returns what is known then.
const kernel_details* complete_layout(kernel_record& kernel);

// Loads a module for the CUDA runtime's own table: wrapper or bare image, no options.
CUresult load_module(CUmodule* module, const void* image);
CUresult load_module_from_fatbin(CUmodule* module, const void* fatbin_header);

// The bytes of a file of this machine and a NUL behind them, which PTX in a file lacks.
CUresult read_image_file(const char* path, std::vector<char>& bytes);

void forget_modules_of(std::uint32_t context);

}  // namespace gpuwire::shim
