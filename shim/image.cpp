// SPDX-License-Identifier: Apache-2.0
#include "shim/image.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

namespace gpuwire::shim {
namespace {

constexpr std::uint32_t wrapper_magic = 0x466243B1;
constexpr std::uint32_t fatbin_magic = 0xBA55ED50;
constexpr std::size_t fatbin_header_bytes = 16;
constexpr std::size_t prelinked_count_max = 65536;

struct fatbin_wrapper {
  std::uint32_t magic, version;
  const void* data;
  const void* filename_or_fatbins;
};
static_assert(sizeof(fatbin_wrapper) == 24);

// Bounded, unaligned reads; a read past the bound is refused.
class reader {
 public:
  reader(const void* begin, std::size_t bytes)
      : begin_(static_cast<const std::byte*>(begin)), bytes_(bytes) {}

  template <class Value>
  bool read(std::uint64_t offset, Value& value) const {
    if (offset > bytes_ || bytes_ - offset < sizeof value) return false;
    std::memcpy(&value, begin_ + offset, sizeof value);
    return true;
  }
  const std::byte* begin() const { return begin_; }
  std::size_t size() const { return bytes_; }

 private:
  const std::byte* begin_;
  std::size_t bytes_;
};

image_extent refused(std::string why) {
  image_extent extent;
  extent.problem = std::move(why);
  return extent;
}

image_extent found(image_kind kind, const reader& in, std::uint64_t bytes) {
  if (bytes > in.size()) return refused("the image says it is longer than the limit");
  image_extent extent;
  extent.kind = kind;
  extent.bytes = {in.begin(), static_cast<std::size_t>(bytes)};
  return extent;
}

// Grows `end` to offset + bytes; false if that overflows.
bool extend(std::uint64_t& end, std::uint64_t offset, std::uint64_t bytes) {
  if (offset + bytes < offset) return false;
  end = std::max(end, offset + bytes);
  return true;
}

image_extent measure_elf(const reader& in) {
  Elf64_Ehdr header;
  if (!in.read(0, header)) return refused("the ELF header is cut off");
  if (header.e_ident[EI_CLASS] != ELFCLASS64) return refused("the ELF image is not a 64-bit one");
  std::uint64_t end = sizeof header;
  const bool tables_fit =
      extend(end, header.e_shoff, std::uint64_t{header.e_shnum} * header.e_shentsize) &&
      extend(end, header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize);
  if (!tables_fit) return refused("a table of the ELF image lies outside of it");
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    if (!in.read(header.e_shoff + i * header.e_shentsize, section))
      return refused("the ELF section table is cut off");
    if (section.sh_type == SHT_NOBITS || section.sh_type == SHT_NULL) continue;
    if (!extend(end, section.sh_offset, section.sh_size))
      return refused("an ELF section has no possible place");
  }
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!in.read(header.e_phoff + i * header.e_phentsize, segment))
      return refused("the ELF segment table is cut off");
    if (!extend(end, segment.p_offset, segment.p_filesz))
      return refused("an ELF segment has no possible place");
  }
  return found(image_kind::elf, in, end);
}

image_extent measure_text(const reader& in) {
  const void* nul = in.size() == 0 ? nullptr : std::memchr(in.begin(), 0, in.size());
  if (nul == nullptr) return refused("the text image has no end");
  return found(image_kind::text, in,
               static_cast<std::uint64_t>(static_cast<const std::byte*>(nul) - in.begin()) + 1);
}

image_extent measure_plain(const reader& in) {
  std::uint32_t magic = 0;
  if (in.read(0, magic)) {
    if (magic == fatbin_magic) return measure_fatbin(in.begin(), in.size());
    if (std::memcmp(in.begin(), ELFMAG, SELFMAG) == 0) return measure_elf(in);
  }
  return measure_text(in);
}

image_extent measure_wrapper(const reader& in) {
  fatbin_wrapper wrapper;
  if (!in.read(0, wrapper)) return refused("the fatbin wrapper is cut off");
  if (wrapper.data == nullptr) return refused("the fatbin wrapper points nowhere");
  if (wrapper.version != 1 && wrapper.version != 2)
    return refused("the fatbin wrapper has version " + std::to_string(wrapper.version));
  image_extent extent = measure_plain({wrapper.data, in.size()});
  extent.wrapper_version = wrapper.version;
  if (wrapper.version != 2 || extent.kind == image_kind::none ||
      wrapper.filename_or_fatbins == nullptr)
    return extent;

  const auto* list = static_cast<const void* const*>(wrapper.filename_or_fatbins);
  for (std::size_t i = 0; list[i] != nullptr; ++i) {
    if (i == prelinked_count_max) return refused("the list of prelinked images has no end");
    image_extent one = measure_fatbin(list[i], in.size());
    if (one.kind == image_kind::none)
      return refused("a prelinked image is not one: " + one.problem);
    extent.prelinked.push_back(one.bytes);
  }
  return extent;
}

}  // namespace

image_extent measure_fatbin(const void* header, std::size_t readable) {
  const reader in(header, std::min(readable, image_bytes_max));
  std::uint32_t magic = 0;
  std::uint16_t header_bytes = 0;
  std::uint64_t payload_bytes = 0;
  if (!in.read(0, magic) || !in.read(6, header_bytes) || !in.read(8, payload_bytes))
    return refused("the fatbin header is cut off");
  if (magic != fatbin_magic) return refused("not a fatbin");
  if (header_bytes < fatbin_header_bytes)
    return refused("the fatbin header is shorter than its fields");
  if (payload_bytes > image_bytes_max)
    return refused("the fatbin says it is longer than the limit");
  return found(image_kind::fatbin, in, header_bytes + payload_bytes);
}

image_extent measure_image(const void* image, std::size_t readable) {
  const reader in(image, std::min(readable, image_bytes_max));
  std::uint32_t magic = 0;
  if (in.read(0, magic) && magic == wrapper_magic) return measure_wrapper(in);
  return measure_plain(in);
}

}  // namespace gpuwire::shim
