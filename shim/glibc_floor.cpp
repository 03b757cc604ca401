// SPDX-License-Identifier: Apache-2.0
// What the static C++ runtime of newer compilers wants of a glibc newer than the floor of 2.34:
// definitions of our own, hidden in the library.
//  - Its unwinder finds exception tables with _dl_find_object (2.35); here dl_iterate_phdr answers.
//  - Its std::random_device, which nothing here uses, is linked in with other objects and wants
//  arc4random (2.36).
#include <link.h>
#include <sys/random.h>

#include <cstdint>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != static_cast<ssize_t>(sizeof value)) {
  }
  return value;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE

namespace {

struct search {
  std::uintptr_t address;
  dl_find_object* result;
  bool found;
};

int look_at(dl_phdr_info* info, std::size_t, void* data) {
  auto* s = static_cast<search*>(data);
  std::uintptr_t start = UINTPTR_MAX, end = 0, eh_frame = 0;
  bool inside = false;
  for (unsigned i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    const std::uintptr_t from = info->dlpi_addr + segment.p_vaddr, to = from + segment.p_memsz;
    if (segment.p_type == PT_GNU_EH_FRAME) eh_frame = from;
    if (segment.p_type != PT_LOAD) continue;
    start = from < start ? from : start;
    end = to > end ? to : end;
    inside = inside || (s->address >= from && s->address < to);
  }
  if (!inside || eh_frame == 0) return 0;
  s->result->dlfo_flags = 0;
  s->result->dlfo_map_start = reinterpret_cast<void*>(start);
  s->result->dlfo_map_end = reinterpret_cast<void*>(end);
  s->result->dlfo_link_map = nullptr;
  s->result->dlfo_eh_frame = reinterpret_cast<void*>(eh_frame);
  s->found = true;
  return 1;
}

}  // namespace

extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(
    void* address, dl_find_object* result) noexcept {
  search s{reinterpret_cast<std::uintptr_t>(address), result, false};
  ::dl_iterate_phdr(look_at, &s);
  return s.found ? 0 : -1;
}

#endif
