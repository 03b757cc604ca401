// SPDX-License-Identifier: Apache-2.0
// The least device around the PTX half: host buffers as device memory, and launches that run block
// after block.
#pragma once

#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/softgpu/ptx/program.hpp"

namespace gpuwire::softgpu::ptx::test {

class machine : public memory {
 public:
  explicit machine(std::string_view text) : machine(std::vector<std::string_view>{text}) {}
  explicit machine(std::vector<std::string_view> texts) {
    auto compiled = compile(texts);
    if (const auto* error = std::get_if<compile_error>(&compiled))
      throw std::runtime_error(error->message);
    code_ = std::get<0>(compiled);
    place_variables();
  }
  machine(const machine&) = delete;
  machine& operator=(const machine&) = delete;

  std::uint64_t allocate(std::uint64_t bytes, bool writable = true) {
    auto memory = std::make_unique<std::byte[]>(bytes + 1);
    const auto address = reinterpret_cast<std::uint64_t>(memory.get());
    ranges_[address] = {address, bytes, memory.get(), writable};
    memory_.push_back(std::move(memory));
    return address;
  }

  template <class T>
  std::uint64_t upload(const std::vector<T>& values) {
    const auto address = allocate(values.size() * sizeof(T));
    std::memcpy(reinterpret_cast<void*>(address), values.data(), values.size() * sizeof(T));
    return address;
  }

  template <class T>
  std::vector<T> download(std::uint64_t address, std::size_t count) const {
    std::vector<T> values(count);
    std::memcpy(values.data(), reinterpret_cast<const void*>(address), count * sizeof(T));
    return values;
  }

  std::optional<range> resolve(std::uint64_t address) const override {
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return std::nullopt;
    const range& r = std::prev(next)->second;
    if (address - r.base >= r.bytes) return std::nullopt;
    return r;
  }

  std::uint32_t kernel_index(std::string_view name) const {
    const auto kernels = code_->kernels();
    for (std::uint32_t n = 0; n < kernels.size(); ++n)
      if (kernels[n].name == name) return n;
    throw std::runtime_error("no kernel " + std::string(name));
  }

  std::uint64_t variable(std::string_view name) const {
    const auto variables = code_->variables();
    for (std::size_t n = 0; n < variables.size(); ++n)
      if (variables[n].name == name) return variable_addresses_[n];
    throw std::runtime_error("no variable " + std::string(name));
  }

  struct options {
    dim3 grid, block;
    std::uint32_t dynamic_shared_bytes = 0;
    bool cooperative = false;
    std::uint64_t instruction_budget = 10'000;  // of one turn of a block
    std::uint64_t turns_max = 1'000'000;
  };

  // All blocks are resident and take turns. Returns the first fault.
  template <class... Arguments>
  fault run(std::string_view kernel, const options& o, const Arguments&... arguments) {
    launch l;
    l.code = code_;
    l.kernel = kernel_index(kernel);
    l.grid = o.grid;
    l.block = o.block;
    l.dynamic_shared_bytes = o.dynamic_shared_bytes;
    l.cooperative = o.cooperative;
    const kernel_info& info = code_->kernels()[l.kernel];
    l.arguments.resize(info.parameter_bytes);
    std::size_t n = 0;
    (place_argument(l, info.parameters.at(n++), arguments), ...);
    if (n != info.parameters.size()) throw std::runtime_error("kernel takes more arguments");
    l.variable_addresses = variable_addresses_;
    l.device_memory = this;
    l.print = [this](std::string_view text) { printed_ += text; };
    l.heap.allocate = [this](std::uint64_t bytes) { return allocate(bytes); };
    l.heap.free = [](std::uint64_t) {};
    return run_blocks(l, o);
  }

  const program& code() const { return *code_; }
  const std::string& printed() const { return printed_; }

 private:
  template <class T>
  static void place_argument(launch& l, const parameter& p, const T& value) {
    if (sizeof(T) > p.bytes) throw std::runtime_error("argument larger than parameter " + p.name);
    std::memcpy(l.arguments.data() + p.offset, &value, sizeof value);
  }

  static fault run_blocks(const launch& l, const options& o) {
    std::vector<std::unique_ptr<block>> blocks;
    for (std::uint32_t z = 0; z < l.grid.z; ++z)
      for (std::uint32_t y = 0; y < l.grid.y; ++y)
        for (std::uint32_t x = 0; x < l.grid.x; ++x) blocks.push_back(make_block(l, {x, y, z}));
    for (std::uint64_t turn = 0; !blocks.empty(); ++turn) {
      if (turn == o.turns_max) throw std::runtime_error("kernel does not end");
      std::vector<std::unique_ptr<block>> left;
      for (auto& b : blocks) {
        const block_state state = b->run(o.instruction_budget);
        if (state == block_state::faulted) return b->error();
        if (state == block_state::running) left.push_back(std::move(b));
      }
      blocks = std::move(left);
    }
    return {};
  }

  void place_variables() {
    for (const variable_info& v : code_->variables()) {
      const auto address = allocate(v.bytes, !v.constant);
      std::memset(reinterpret_cast<void*>(address), 0, v.bytes);
      if (!v.initial.empty())
        std::memcpy(reinterpret_cast<void*>(address), v.initial.data(), v.initial.size());
      variable_addresses_.push_back(address);
    }
    for (std::size_t n = 0; n < variable_addresses_.size(); ++n)
      for (const relocation& r : code_->variables()[n].relocations) {
        const std::uint64_t value = variable(r.target) + static_cast<std::uint64_t>(r.addend);
        std::memcpy(reinterpret_cast<void*>(variable_addresses_[n] + r.offset), &value,
                    sizeof value);
      }
  }

  std::shared_ptr<const program> code_;
  std::map<std::uint64_t, range> ranges_;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::uint64_t> variable_addresses_;
  std::string printed_;
};

}  // namespace gpuwire::softgpu::ptx::test
