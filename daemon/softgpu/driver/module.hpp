// SPDX-License-Identifier: Apache-2.0
// Code: programs as loaded, their instances (modules) in contexts, functions of modules, and the
// context-independent pair of library and kernel.
//
// A program is immutable. A module owns the memory of the program's variables in one context. A
// library makes its module of a context when that is first needed; a kernel may be given wherever a
// function may.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "../ptx/program.hpp"
#include "context.hpp"
#include "cuda_api.hpp"
#include "handles.hpp"
#include "jit_options.hpp"
#include "memory.hpp"

namespace gpuwire::softgpu {

struct program {
  std::shared_ptr<const ptx::program> code;
  std::unordered_map<std::string, std::uint32_t> kernels;  // name -> index
  std::unordered_map<std::string, std::uint32_t> variables;
};

// What can be set per function.
struct function_settings {
  std::atomic<int> dynamic_shared_bytes_max{0};
  std::atomic<int> carveout{-1};
  std::atomic<CUfunc_cache> cache_config{CU_FUNC_CACHE_PREFER_NONE};
  std::array<std::atomic<int>, 3> cluster{};  // zeroes: none required
  std::atomic<bool> non_portable_cluster{false};
  std::atomic<int> cluster_policy{CU_CLUSTER_SCHEDULING_POLICY_DEFAULT};

  explicit function_settings(const ptx::kernel_info& kernel);
};

struct library;

struct module {
  std::shared_ptr<context> owner;
  CUmodule handle = nullptr;
  std::shared_ptr<const program> code;
  std::vector<std::uint64_t> variable_addresses;
  std::vector<allocation> blocks;  // that hold the variables
  bool of_library = false;

  std::mutex mutex;
  std::map<std::uint32_t, CUfunction> function_handles;

  ~module();
};

struct function {
  std::shared_ptr<context> owner;
  CUfunction handle = nullptr;
  std::shared_ptr<module> in;
  std::uint32_t index = 0;
  std::shared_ptr<function_settings> settings;

  const ptx::kernel_info& info() const { return in->code->code->kernels()[index]; }
};

struct library {
  CUlibrary handle = nullptr;
  std::shared_ptr<const program> code;
  std::vector<CUkernel> kernels;  // by index

  std::mutex mutex;
  std::map<unsigned, std::shared_ptr<module>> instances;  // by context id
  std::map<std::pair<std::uint32_t, int>, std::shared_ptr<function_settings>>
      settings;  // by kernel and device
};

struct kernel {
  CUkernel handle = nullptr;
  std::shared_ptr<library> in;
  std::uint32_t index = 0;

  const ptx::kernel_info& info() const { return in->code->code->kernels()[index]; }
};

using module_table = handle_table<module, CUmodule, handle_kind::module>;
using function_table = handle_table<function, CUfunction, handle_kind::function>;
using library_table = handle_table<library, CUlibrary, handle_kind::library>;
using kernel_table = handle_table<kernel, CUkernel, handle_kind::kernel>;
module_table& modules();
function_table& functions();
library_table& libraries();
kernel_table& kernels();

// What the driver calls an error of the compiler.
CUresult code_of(ptx::compile_error_kind kind);
// Reads and compiles; refuses with the driver's code and fills the error log of the options.
std::shared_ptr<const program> load_program(const void* image, jit_options& options);
std::shared_ptr<const program> load_program_file(const char* path, jit_options& options);
// Allocates and initialises the variables, and puts the module into the table.
std::shared_ptr<module> instantiate(std::shared_ptr<const program> code, context& in,
                                    bool of_library);
// Waits for the context, then makes the handles of the module and its functions invalid.
void unload(const std::shared_ptr<module>& which);

std::shared_ptr<function> function_of_module(const std::shared_ptr<module>& in, std::uint32_t index,
                                             std::shared_ptr<function_settings> settings);
std::shared_ptr<module> instance_of(library& which, context& in);
std::shared_ptr<function> function_of_kernel(const kernel& which, context& in);
std::shared_ptr<function_settings> settings_of(library& which, std::uint32_t index,
                                               int device_ordinal);
// Libraries drop their modules of a context that ends.
void forget_instances_of(const context& ended);

// These refuse with CUDA_ERROR_INVALID_HANDLE.
std::shared_ptr<module> module_of(CUmodule handle);
std::shared_ptr<library> library_of(CUlibrary handle);
std::shared_ptr<kernel> kernel_of(CUkernel handle);
// A function, or a kernel's function in the current context.
std::shared_ptr<function> function_of(CUfunction handle);

// Zeroes when neither the text nor an attribute asks for one.
ptx::dim3 required_cluster(const ptx::kernel_info& info, const function_settings& settings);
int function_attribute(const ptx::kernel_info& info, const program& code,
                       const function_settings& settings, CUfunction_attribute attribute);
void set_function_attribute(const ptx::kernel_info& info, function_settings& settings,
                            CUfunction_attribute attribute, int value);
CUresult parameter_info(const ptx::kernel_info& info, std::size_t index, std::size_t* offset,
                        std::size_t* bytes);

}  // namespace gpuwire::softgpu
