// SPDX-License-Identifier: Apache-2.0
#include "image.hpp"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "device.hpp"
#include "safe_read.hpp"

namespace gpuwire::softgpu {
namespace {

constexpr std::uint32_t wrapper_magic = 0x466243B1;
constexpr std::uint32_t fatbin_magic = 0xBA55ED50;
constexpr std::uint32_t elf_magic = 0x464C457F;
constexpr std::uint64_t fatbin_header_bytes = 16;
constexpr std::uint64_t entry_header_bytes_min = 64;
constexpr std::uint16_t kind_ptx = 1;
constexpr std::uint16_t kind_elf = 2;
constexpr std::uint64_t flag_zstd = 0x8000;
constexpr std::uint64_t flag_lz4 = 0x2000;
constexpr std::uint64_t flag_architecture_specific = 0x100000;
// Ours: this entry belongs together with all others that have it.
constexpr std::uint64_t flag_linked = std::uint64_t{1} << 62;
constexpr std::uint32_t architecture = limits::compute_major * 10 + limits::compute_minor;
// LZ4 cannot do better than 255:1; zstd can, but PTX text does not.
constexpr std::uint64_t ratio_max = 4096;

struct wrapper {
  std::uint32_t magic;
  std::uint32_t version;
  std::uint64_t data;
  std::uint64_t filename_or_fatbins;
};

image failed(CUresult result, std::string message) {
  return {result, {}, std::move(message)};
}

template <typename Value>
Value at(std::span<const std::byte> bytes, std::uint64_t offset) {
  Value value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

bool looks_like_ptx(std::string_view text) {
  // A directive follows white space and comments only.
  while (!text.empty()) {
    if (std::strchr(" \t\r\n", text.front()) != nullptr) {
      text.remove_prefix(1);
    } else if (text.substr(0, 2) == "//") {
      const auto end = text.find('\n');
      text.remove_prefix(end == std::string_view::npos ? text.size() : end);
    } else if (text.substr(0, 2) == "/*") {
      const auto end = text.find("*/");
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
    } else {
      return text.substr(0, 8) == ".version";
    }
  }
  return false;
}

image ptx_text(std::string text) {
  if (const auto end = text.find('\0'); end != std::string::npos) text.resize(end);
  if (!looks_like_ptx(text)) {
    return failed(CUDA_ERROR_INVALID_IMAGE, "the image is neither a fat binary nor PTX text");
  }
  image made;
  made.texts.push_back(std::move(text));
  return made;
}

// PTX text has no length: it is read page by page up to its NUL.
image read_text(std::uint64_t address) {
  std::string text;
  char page[4096];
  while (text.size() < ptx_bytes_max) {
    const std::uint64_t here = address + text.size();
    const std::uint64_t room = sizeof page - here % sizeof page;
    if (!read_memory(here, page, room)) {
      return failed(CUDA_ERROR_INVALID_IMAGE,
                    "the image cannot be read, or PTX text without a NUL at its end");
    }
    const auto* end = static_cast<const char*>(std::memchr(page, 0, room));
    text.append(page, end == nullptr ? room : static_cast<std::uint64_t>(end - page));
    if (end != nullptr) return ptx_text(std::move(text));
  }
  return failed(CUDA_ERROR_INVALID_IMAGE, "PTX text of more than 256 MiB");
}

struct entry {
  std::uint32_t architecture = 0;
  std::uint64_t flags = 0;
  std::span<const std::byte> payload;
  std::uint64_t compressed_bytes = 0;
  std::uint64_t text_bytes = 0;
};

image decompress(const entry& chosen) {
  if (chosen.compressed_bytes == 0 && (chosen.flags & (flag_zstd | flag_lz4)) == 0) {
    return ptx_text({reinterpret_cast<const char*>(chosen.payload.data()), chosen.payload.size()});
  }
  const std::uint64_t packed = chosen.compressed_bytes;
  const std::uint64_t bytes = chosen.text_bytes;
  if (packed == 0 || packed > chosen.payload.size() || bytes == 0 || bytes > ptx_bytes_max ||
      bytes / ratio_max > packed) {
    return failed(CUDA_ERROR_INVALID_IMAGE,
                  "a compressed entry of the fat binary has impossible sizes");
  }
  std::string text(bytes, '\0');
  if ((chosen.flags & flag_zstd) != 0) {
    const std::size_t got = ZSTD_decompress(text.data(), bytes, chosen.payload.data(), packed);
    if (ZSTD_isError(got) != 0 || got != bytes) {
      return failed(CUDA_ERROR_INVALID_IMAGE, "an entry of the fat binary is damaged (zstd)");
    }
  } else if ((chosen.flags & flag_lz4) != 0) {
    const int got =
        LZ4_decompress_safe(reinterpret_cast<const char*>(chosen.payload.data()), text.data(),
                            static_cast<int>(packed), static_cast<int>(bytes));
    if (got < 0 || static_cast<std::uint64_t>(got) != bytes) {
      return failed(CUDA_ERROR_INVALID_IMAGE, "an entry of the fat binary is damaged (LZ4)");
    }
  } else {
    return failed(CUDA_ERROR_INVALID_IMAGE,
                  "an entry of the fat binary is compressed in an unknown way");
  }
  return ptx_text(std::move(text));
}

bool usable(const entry& candidate) {
  if ((candidate.flags & flag_architecture_specific) != 0)
    return candidate.architecture == architecture;
  return candidate.architecture <= architecture;
}

std::optional<std::vector<std::byte>> copy_fatbin(std::uint64_t address) {
  std::byte header[fatbin_header_bytes];
  if (!read_memory(address, header, sizeof header)) return std::nullopt;
  if (at<std::uint32_t>(header, 0) != fatbin_magic) return std::nullopt;
  const std::uint64_t body = at<std::uint64_t>(header, 8);
  const std::uint64_t start = at<std::uint16_t>(header, 6);
  if (start < fatbin_header_bytes || body > fatbin_bytes_max) return std::nullopt;
  std::vector<std::byte> bytes(start + body);
  if (!read_memory(address, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

image read_fatbin_at(std::uint64_t address) {
  auto bytes = copy_fatbin(address);
  if (!bytes) return failed(CUDA_ERROR_INVALID_IMAGE, "the fat binary's header is damaged");
  return read_fatbin(*bytes);
}

// nvcc -rdc=true: the wrapper's own data is machine code; the PTX of the linked objects hangs off
// the array.
image read_linked(const wrapper& outer) {
  image linked;
  for (std::size_t number = 0; number < linked_fatbins_max; ++number) {
    std::uint64_t fatbin = 0;
    if (!read_memory(outer.filename_or_fatbins + number * sizeof fatbin, &fatbin, sizeof fatbin)) {
      return failed(CUDA_ERROR_INVALID_IMAGE, "the wrapper's array of fat binaries cannot be read");
    }
    if (fatbin == 0) {
      if (linked.texts.empty())
        return failed(CUDA_ERROR_NO_BINARY_FOR_GPU, "no PTX in any of the linked fat binaries");
      return linked;
    }
    image part = read_fatbin_at(fatbin);
    if (part.result != CUDA_SUCCESS) return part;
    for (auto& text : part.texts) linked.texts.push_back(std::move(text));
  }
  return failed(CUDA_ERROR_INVALID_IMAGE, "the wrapper's array of fat binaries does not end");
}

image read_wrapper(std::uint64_t address) {
  wrapper outer{};
  if (!read_memory(address, &outer, sizeof outer)) {
    return failed(CUDA_ERROR_INVALID_IMAGE, "the fat binary's wrapper cannot be read");
  }
  if (outer.version == 2 && outer.filename_or_fatbins != 0) return read_linked(outer);
  if (outer.version != 1 && outer.version != 2) {
    return failed(CUDA_ERROR_INVALID_IMAGE, "the fat binary's wrapper has an unknown version");
  }
  return read_fatbin_at(outer.data);
}

}  // namespace

image read_fatbin(std::span<const std::byte> bytes) {
  const auto damaged = [] { return failed(CUDA_ERROR_INVALID_IMAGE, "the fat binary is damaged"); };
  if (bytes.size() < fatbin_header_bytes || at<std::uint32_t>(bytes, 0) != fatbin_magic)
    return damaged();
  const std::uint64_t start = at<std::uint16_t>(bytes, 6);
  const std::uint64_t body = at<std::uint64_t>(bytes, 8);
  if (start < fatbin_header_bytes || start > bytes.size() || body > bytes.size() - start)
    return damaged();
  auto rest = bytes.subspan(start, body);

  std::optional<entry> best;
  image linked;
  bool machine_code = false;
  while (rest.size() >= entry_header_bytes_min) {
    const std::uint64_t header = at<std::uint32_t>(rest, 4);
    const std::uint64_t payload = at<std::uint64_t>(rest, 8);
    if (header < entry_header_bytes_min || header > rest.size() || payload > rest.size() - header)
      return damaged();
    const auto kind = at<std::uint16_t>(rest, 0);
    machine_code = machine_code || kind == kind_elf;
    entry candidate;
    candidate.architecture = at<std::uint32_t>(rest, 28);
    candidate.flags = at<std::uint64_t>(rest, 40);
    candidate.payload = rest.subspan(header, payload);
    candidate.compressed_bytes = at<std::uint32_t>(rest, 16);
    candidate.text_bytes = at<std::uint64_t>(rest, 56);
    if (kind == kind_ptx && (candidate.flags & flag_linked) != 0) {
      const std::string_view padded(reinterpret_cast<const char*>(candidate.payload.data()),
                                    candidate.payload.size());
      linked.texts.emplace_back(padded.substr(0, padded.find('\0')));
    }
    if (kind == kind_ptx && usable(candidate) &&
        (!best || candidate.architecture > best->architecture)) {
      best = candidate;
    }
    rest = rest.subspan(header + payload);
  }
  if (!linked.texts.empty()) return linked;
  if (!best) {
    return failed(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        machine_code
            ? "the fat binary has machine code only; build it with PTX (nvcc's default, or "
              "-gencode arch=compute_75,code=compute_75)"
            : "the fat binary has no PTX for compute capability 9.0 or lower");
  }
  return decompress(*best);
}

image read_image(const void* pointer) {
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  std::uint32_t magic = 0;
  // The shortest image is an empty text, one byte.
  if (!read_memory(address, &magic, sizeof magic)) return read_text(address);
  switch (magic) {
    case wrapper_magic:
      return read_wrapper(address);
    case fatbin_magic:
      return read_fatbin_at(address);
    case elf_magic:
      return failed(CUDA_ERROR_NO_BINARY_FOR_GPU,
                    "the image is machine code; the soft GPU runs PTX only");
    default:
      return read_text(address);
  }
}

std::optional<std::string> read_file(const char* path) {
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path, "rb"), std::fclose);
  if (!file) return std::nullopt;
  std::string bytes;
  char part[65536];
  while (const std::size_t got = std::fread(part, 1, sizeof part, file.get())) {
    bytes.append(part, got);
    if (bytes.size() > fatbin_bytes_max) break;
  }
  return bytes;
}

image read_image_file(const char* path) {
  auto read = read_file(path);
  if (!read) return failed(CUDA_ERROR_FILE_NOT_FOUND, std::string("cannot open ") + path);
  auto& bytes = *read;
  if (bytes.size() > fatbin_bytes_max)
    return failed(CUDA_ERROR_INVALID_IMAGE, "the file is larger than 1 GiB");
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes.data(), std::min(bytes.size(), sizeof magic));
  if (magic == fatbin_magic) return read_fatbin(std::as_bytes(std::span(bytes)));
  if (magic == elf_magic) {
    return failed(CUDA_ERROR_NO_BINARY_FOR_GPU,
                  "the file is machine code; the soft GPU runs PTX only");
  }
  return ptx_text(std::move(bytes));
}

image read_ptx(std::string_view text) {
  return ptx_text(std::string(text));
}

std::vector<std::byte> write_linked(std::span<const std::string> texts) {
  std::vector<std::byte> bytes(fatbin_header_bytes);
  const auto put = [&bytes](std::uint64_t offset, auto value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  };
  for (const auto& text : texts) {
    const std::uint64_t begin = bytes.size();
    const std::uint64_t padded = (text.size() + 7) / 8 * 8;
    bytes.resize(begin + entry_header_bytes_min + padded);
    put(begin, kind_ptx);
    put(begin + 4, static_cast<std::uint32_t>(entry_header_bytes_min));
    put(begin + 8, padded);
    put(begin + 28, architecture);
    put(begin + 40, flag_linked);
    std::memcpy(bytes.data() + begin + entry_header_bytes_min, text.data(), text.size());
  }
  put(0, fatbin_magic);
  put(4, std::uint16_t{1});
  put(6, static_cast<std::uint16_t>(fatbin_header_bytes));
  put(8, std::uint64_t{bytes.size() - fatbin_header_bytes});
  return bytes;
}

}  // namespace gpuwire::softgpu
