// SPDX-License-Identifier: Apache-2.0
#include "object_file.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

namespace gpuwire::softgpu {
namespace {

using bytes_span = std::span<const std::byte>;

constexpr std::string_view archive_magic = "!<arch>\n";
constexpr std::size_t member_header_bytes = 60, member_size_offset = 48, member_size_bytes = 10;
constexpr std::uint32_t fatbin_magic = 0xBA55ED50;

image failed(CUresult result, std::string message) {
  return {result, {}, std::move(message)};
}

std::string_view text_of(bytes_span bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename Value>
std::optional<Value> at(bytes_span bytes, std::uint64_t offset) {
  Value value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) return std::nullopt;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bytes_span part(bytes_span bytes, std::uint64_t offset, std::uint64_t count) {
  if (offset > bytes.size() || count > bytes.size() - offset) return {};
  return bytes.subspan(offset, count);
}

// Fat binaries follow each other in a section, each on a multiple of eight.
void read_section(bytes_span section, image& into) {
  while (const auto magic = at<std::uint32_t>(section, 0)) {
    if (*magic != fatbin_magic) {
      section = section.subspan(std::min<std::size_t>(8, section.size()));
      continue;
    }
    const auto start = at<std::uint16_t>(section, 6);
    const auto body = at<std::uint64_t>(section, 8);
    if (!start || !body || *body > section.size() || *start > section.size() - *body) return;
    image one = read_fatbin(section.first(*start + *body));
    for (auto& text : one.texts) into.texts.push_back(std::move(text));
    section = section.subspan(*start + *body);
  }
}

}  // namespace

image read_object(bytes_span bytes) {
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr))
    return failed(CUDA_ERROR_INVALID_IMAGE, "the object is no 64-bit ELF file");
  const auto section = [&](std::uint64_t index) {
    return at<Elf64_Shdr>(bytes, header->e_shoff + index * sizeof(Elf64_Shdr));
  };
  const auto names = section(header->e_shstrndx);
  if (!names) return failed(CUDA_ERROR_INVALID_IMAGE, "the object has no names of sections");
  const auto strings = text_of(part(bytes, names->sh_offset, names->sh_size));
  image found;
  for (std::uint64_t index = 0; index < header->e_shnum; ++index) {
    const auto one = section(index);
    if (!one) return failed(CUDA_ERROR_INVALID_IMAGE, "the object's table of sections is damaged");
    if (one->sh_name >= strings.size() || one->sh_type == SHT_NOBITS) continue;
    const auto name = strings.substr(one->sh_name, strings.find('\0', one->sh_name) - one->sh_name);
    if (name == ".nv_fatbin" || name == "__nv_relfatbin")
      read_section(part(bytes, one->sh_offset, one->sh_size), found);
  }
  if (found.texts.empty()) return failed(CUDA_ERROR_NO_BINARY_FOR_GPU, "the object has no PTX");
  return found;
}

image read_archive(bytes_span bytes) {
  if (!text_of(bytes).starts_with(archive_magic))
    return failed(CUDA_ERROR_INVALID_IMAGE, "the library is no archive");
  image found;
  std::uint64_t offset = archive_magic.size();
  while (offset < bytes.size()) {
    const auto header = part(bytes, offset, member_header_bytes);
    if (header.empty()) return failed(CUDA_ERROR_INVALID_IMAGE, "the archive ends within a member");
    std::uint64_t size = 0;
    for (const char c : text_of(header.subspan(member_size_offset, member_size_bytes))) {
      if (c < '0' || c > '9') break;
      size = size * 10 + static_cast<std::uint64_t>(c - '0');
    }
    offset += member_header_bytes;
    const auto member = part(bytes, offset, size);
    if (member.size() != size)
      return failed(CUDA_ERROR_INVALID_IMAGE, "the archive ends within a member");
    image one = read_object(member);
    for (auto& text : one.texts) found.texts.push_back(std::move(text));
    offset += size + size % 2;
  }
  return found;
}

}  // namespace gpuwire::softgpu
