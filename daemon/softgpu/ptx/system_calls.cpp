// SPDX-License-Identifier: Apache-2.0
#include "system_calls.hpp"

#include <cstdio>

namespace gpuwire::softgpu::ptx {
namespace {

constexpr std::size_t string_bytes_max = 1u << 16;

std::optional<std::string> read_string(executor& x, std::uint64_t address, std::uint32_t lane) {
  std::string result;
  for (; result.size() < string_bytes_max; ++address) {
    const std::byte* at = x.readable(address, 1, lane);
    if (at == nullptr) return std::nullopt;
    const char c = static_cast<char>(*at);
    if (c == '\0') return result;
    result.push_back(c);
  }
  return result;
}

class caller {
 public:
  caller(executor& x, const call_site& site, std::uint32_t lane)
      : x_(x), site_(site), lane_(lane) {}

  std::uint64_t argument(std::size_t n) const {
    std::uint64_t value = 0;
    if (n < site_.arguments.size())
      std::memcpy(&value, x_.frame_->parameter(lane_, site_.arguments[n].offset),
                  std::min<std::uint32_t>(site_.arguments[n].bytes, 8));
    return value;
  }
  void result(std::uint64_t value) const {
    if (!site_.results.empty())
      std::memcpy(x_.frame_->parameter(lane_, site_.results[0].offset), &value,
                  std::min<std::uint32_t>(site_.results[0].bytes, 8));
  }
  std::string text(std::size_t n) const {
    return read_string(x_, argument(n), lane_).value_or("(unreadable)");
  }

 private:
  executor& x_;
  const call_site& site_;
  std::uint32_t lane_;
};

void print(executor& x, const instruction& at, const caller& c, std::uint32_t lane) {
  const auto format = read_string(x, c.argument(0), lane);
  if (!format) return x.raise(fault_kind::illegal_address, at, "printf format is not readable");
  const std::uint64_t block = c.argument(1);
  const auto read = [&](std::uint32_t offset, void* to, std::uint32_t bytes) {
    const std::byte* from = x.readable(block + offset, bytes, lane);
    if (from == nullptr) return false;
    std::memcpy(to, from, bytes);
    return true;
  };
  const auto text = [&](std::uint64_t address) { return read_string(x, address, lane); };
  std::int32_t count = 0;
  const std::string line = format_device(*format, read, text, count);
  if (x.shared().print) x.shared().print(line);
  c.result(static_cast<std::uint64_t>(count));
}

// The driver's text: FILE:LINE: FUNCTION: block: [x,y,z], thread: [x,y,z] Assertion `MESSAGE`
// failed.
void fail_assertion(executor& x, const instruction& at, const caller& c, std::uint32_t lane) {
  const auto triple = [](std::uint32_t a, std::uint32_t b, std::uint32_t d) {
    return "[" + std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(d) + "]";
  };
  const warp& w = *x.warp_;
  x.raise(fault_kind::assertion, at,
          c.text(1) + ":" + std::to_string(static_cast<std::uint32_t>(c.argument(2))) + ": " +
              c.text(3) +
              ": block: " + triple(x.block_index_.x, x.block_index_.y, x.block_index_.z) +
              ", thread: " + triple(w.thread_x[lane], w.thread_y[lane], w.thread_z[lane]) +
              " Assertion `" + c.text(0) + "` failed.");
}

}  // namespace

void run_system_call(executor& x, const instruction& at, const call_site& site,
                     std::uint32_t lane) {
  const caller c(x, site, lane);
  const device_heap& heap = x.shared().heap;
  switch (site.system) {
    case system_call::print:
      return print(x, at, c, lane);
    case system_call::assertion_failed:
      return fail_assertion(x, at, c, lane);
    case system_call::allocate:
      c.result(heap.allocate ? heap.allocate(c.argument(0)) : 0);
      return;
    case system_call::free:
      if (heap.free && c.argument(0) != 0) heap.free(c.argument(0));
      x.forget_ranges();
      return;
    case system_call::set_condition:
      if (const auto& set = x.shared().set_condition)
        set(c.argument(0), static_cast<std::uint32_t>(c.argument(1)));
      return;
    case system_call::none:
      return;
  }
}

}  // namespace gpuwire::softgpu::ptx
