// SPDX-License-Identifier: Apache-2.0
// The length of device code behind a bare pointer: every form, and inputs that lie about
// themselves.
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "shim/image.hpp"
#include "test/catch.hpp"

using namespace gpuwire::shim;

namespace {

using bytes = std::vector<std::uint8_t>;

template <class Value>
void put(bytes& to, std::size_t at, Value value) {
  if (to.size() < at + sizeof value) to.resize(at + sizeof value);
  std::memcpy(to.data() + at, &value, sizeof value);
}

bytes fatbin(std::uint64_t payload) {
  bytes image(16 + payload, 0x5a);
  put<std::uint32_t>(image, 0, 0xBA55ED50);
  put<std::uint16_t>(image, 4, 1);
  put<std::uint16_t>(image, 6, 16);
  put<std::uint64_t>(image, 8, payload);
  return image;
}

// An ELF file whose last byte belongs to a section.
bytes elf(std::size_t section_bytes) {
  bytes image;
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_shoff = sizeof header;
  header.e_shnum = 2;
  header.e_shentsize = sizeof(Elf64_Shdr);
  put(image, 0, header);
  Elf64_Shdr section{};
  put(image, sizeof header, section);
  section.sh_type = SHT_PROGBITS;
  section.sh_offset = sizeof header + 2 * sizeof section;
  section.sh_size = section_bytes;
  put(image, sizeof header + sizeof section, section);
  image.resize(section.sh_offset + section_bytes, 0x77);
  return image;
}

struct wrapper {
  std::uint32_t magic = 0x466243B1, version = 1;
  const void* data = nullptr;
  const void* more = nullptr;
};

image_extent measure(const bytes& image) {
  return measure_image(image.data(), image.size());
}

}  // namespace

TEST_CASE("a fatbin is as long as its header says") {
  const auto image = fatbin(1000);
  const auto extent = measure(image);
  CHECK(extent.kind == image_kind::fatbin);
  CHECK(extent.bytes.size() == 1016);
  CHECK(extent.wrapper_version == 0);
  CHECK(measure(fatbin(0)).bytes.size() == 16);
}

TEST_CASE("an ELF image ends with its last section") {
  const auto image = elf(333);
  const auto extent = measure(image);
  CHECK(extent.kind == image_kind::elf);
  CHECK(extent.bytes.size() == image.size());
}

TEST_CASE("text ends with its NUL") {
  const std::string text = ".version 9.0\n.target sm_75\n";
  const auto extent = measure_image(text.c_str(), text.size() + 1);
  CHECK(extent.kind == image_kind::text);
  CHECK(extent.bytes.size() == text.size() + 1);
}

TEST_CASE("a wrapper is followed to its fatbin") {
  const auto image = fatbin(64);
  wrapper w;
  w.data = image.data();
  const auto extent = measure_image(&w);
  CHECK(extent.kind == image_kind::fatbin);
  CHECK(extent.wrapper_version == 1);
  CHECK(extent.bytes.size() == 80);
  CHECK(extent.prelinked.empty());
}

TEST_CASE("a wrapper of version 2 brings its prelinked fatbins") {
  const auto image = fatbin(64), first = fatbin(8), second = fatbin(24);
  const void* list[] = {first.data(), second.data(), nullptr};
  wrapper w;
  w.version = 2;
  w.data = image.data();
  w.more = list;
  const auto extent = measure_image(&w);
  CHECK(extent.wrapper_version == 2);
  REQUIRE(extent.prelinked.size() == 2);
  CHECK(extent.prelinked[0].size() == 24);
  CHECK(extent.prelinked[1].size() == 40);
}

TEST_CASE("images that lie about themselves are refused with a reason") {
  std::vector<bytes> lies;
  lies.push_back(fatbin(100));
  put<std::uint64_t>(lies.back(), 8, ~std::uint64_t{0});
  lies.push_back(fatbin(100));
  put<std::uint64_t>(lies.back(), 8, 101);
  lies.push_back(fatbin(100));
  put<std::uint16_t>(lies.back(), 6, 4);
  lies.push_back(elf(100));
  put<std::uint64_t>(lies.back(), offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0} - 8);
  lies.push_back(elf(100));
  put<std::uint16_t>(lies.back(), offsetof(Elf64_Ehdr, e_shnum), 0xffff);
  lies.push_back(elf(100));
  put<std::uint8_t>(lies.back(), EI_CLASS, ELFCLASS32);
  lies.push_back(elf(100));
  put<std::uint64_t>(lies.back(),
                     sizeof(Elf64_Ehdr) + sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size),
                     ~std::uint64_t{0});
  lies.push_back(bytes(50, 'x'));
  lies.push_back(bytes());
  for (const auto& lie : lies) {
    const auto extent = measure(lie);
    CHECK(extent.kind == image_kind::none);
    CHECK_FALSE(extent.problem.empty());
  }
}

TEST_CASE("wrappers that lie are refused") {
  const auto image = fatbin(8);
  wrapper w;
  CHECK(measure_image(&w, sizeof w).kind == image_kind::none);
  w.data = image.data();
  w.version = 3;
  CHECK(measure_image(&w).kind == image_kind::none);
  const bytes no_fatbin(64, 1);
  const void* list[] = {no_fatbin.data(), nullptr};
  w.version = 2;
  w.more = list;
  CHECK(measure_image(&w).kind == image_kind::none);
}

// Every prefix and many damaged copies lie at the end of memory that may be read: a sanitizer build
// sees any step beyond.
TEST_CASE("nothing beyond the readable bytes is read") {
  std::mt19937 random(20261130);
  for (const auto& whole : {fatbin(200), elf(200)}) {
    for (std::size_t n = 0; n <= whole.size(); ++n) {
      const bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      const auto extent = measure(cut);
      CHECK((extent.kind == image_kind::none || extent.bytes.size() <= n));
    }
    for (int i = 0; i < 3000; ++i) {
      bytes damaged = whole;
      for (int k = 0; k < 4; ++k) damaged[random() % 192] = static_cast<std::uint8_t>(random());
      put<std::uint32_t>(damaged, 0, i % 2 != 0 ? 0xBA55ED50 : 0x464c457f);
      const auto extent = measure(damaged);
      CHECK((extent.kind == image_kind::none || extent.bytes.size() <= damaged.size()));
    }
  }
}
