// SPDX-License-Identifier: Apache-2.0
#include "wire/magic_ring.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace gpuwire::wire {

magic_ring::~magic_ring() {
  if (base_) munmap(base_, 2 * bytes_);
}

int magic_ring::map(std::size_t bytes) {
  if (bytes == 0 || (bytes & (bytes - 1)) != 0) return EINVAL;
  const int fd = memfd_create("gpuwire-commands", MFD_CLOEXEC);
  if (fd < 0) return errno;
  int problem = ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
  if (problem == 0) {
    void* both = mmap(nullptr, 2 * bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (both == MAP_FAILED) {
      problem = errno;
    } else {
      auto* base = static_cast<std::byte*>(both);
      for (int half = 0; half < 2 && problem == 0; ++half) {
        if (mmap(base + static_cast<std::size_t>(half) * bytes, bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)
          problem = errno;
      }
      if (problem != 0) {
        munmap(both, 2 * bytes);
      } else {
        // Shared memory would let the child of a fork write into its parent's stream.
        madvise(both, 2 * bytes, MADV_DONTFORK);
        base_ = base;
        bytes_ = bytes;
      }
    }
  }
  close(fd);
  return problem;
}

}  // namespace gpuwire::wire
