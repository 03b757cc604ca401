// SPDX-License-Identifier: Apache-2.0
// What the PTX tests share: files of golden/, the frame around a few lines of PTX, and a hash.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "machine.hpp"

namespace gpuwire::softgpu::ptx::test {

inline std::string read_golden(const std::string& name) {
  std::ifstream file(std::string(GPUWIRE_PTX_DATA "/") + name, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read golden/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::string header(const std::string& target = "sm_90", const std::string& version = "9.0") {
  return ".version " + version + "\n.target " + target + "\n.address_size 64\n";
}

// A kernel `test` whose body finds the thread's index in %i, and the address of its 8 bytes of the
// buffer in %at.
inline std::string snippet(const std::string& body, const std::string& before = "") {
  return header() + before + R"(
.visible .entry test(.param .u64 buffer)
{
  .reg .pred %p<10>;
  .reg .b16 %h<10>;
  .reg .b32 %i, %r<20>;
  .reg .f32 %f<10>;
  .reg .b64 %base, %at, %d<20>;
  ld.param.u64 %base, [buffer];
  mov.u32 %i, %tid.x;
  mad.wide.u32 %at, %i, 8, %base;
)" + body +
         "\n  ret;\n}\n";
}

inline std::uint64_t hash(const std::byte* data, std::size_t bytes) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::size_t n = 0; n < bytes; ++n)
    h = (h ^ static_cast<std::uint8_t>(data[n])) * 0x100000001b3;
  return h;
}

// Runs a snippet with one block; the buffer starts as zeroes. Throws on a fault.
inline std::vector<std::uint64_t> run_snippet(const std::string& text, std::uint32_t threads = 32) {
  machine m(text);
  const auto buffer = m.upload(std::vector<std::uint64_t>(threads));
  const fault f = m.run("test", {.grid = {}, .block = {threads, 1, 1}}, buffer);
  if (f.kind != fault_kind::none) throw std::runtime_error(f.text);
  return m.download<std::uint64_t>(buffer, threads);
}

inline fault fault_of_snippet(const std::string& text, std::uint32_t threads = 32) {
  machine m(text);
  const auto buffer = m.upload(std::vector<std::uint64_t>(threads));
  return m.run("test", {.grid = {}, .block = {threads, 1, 1}}, buffer);
}

}  // namespace gpuwire::softgpu::ptx::test
