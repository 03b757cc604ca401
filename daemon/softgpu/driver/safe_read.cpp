// SPDX-License-Identifier: Apache-2.0
#include "safe_read.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace gpuwire::softgpu {

bool read_memory(std::uint64_t address, void* into, std::uint64_t bytes) {
  auto* out = static_cast<char*>(into);
  while (bytes > 0) {
    iovec local{out, bytes};
    iovec remote{reinterpret_cast<void*>(address), bytes};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got < 0 && (errno == ENOSYS || errno == EPERM)) {
      std::memcpy(out, reinterpret_cast<const void*>(address), bytes);
      return true;
    }
    if (got <= 0) return false;
    out += got;
    address += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::uint64_t>(got);
  }
  return true;
}

bool readable(std::uint64_t address, std::uint64_t bytes) {
  char byte = 0;
  return bytes == 0 || (bytes - 1 <= UINT64_MAX - address && read_memory(address, &byte, 1) &&
                        read_memory(address + bytes - 1, &byte, 1));
}

}  // namespace gpuwire::softgpu
