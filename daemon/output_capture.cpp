// SPDX-License-Identifier: Apache-2.0
#include "daemon/output_capture.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "daemon/limits.hpp"
#include "wire/generated/messages_internal.hpp"
#include "wire/server.hpp"

namespace gpuwire::daemon {

int output_capture::start() {
  const int log = ::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 4);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const int number = static_cast<int>(i) + 1;
    descriptor file(::memfd_create(number == 1 ? "gpuwire-stdout" : "gpuwire-stderr", MFD_CLOEXEC));
    if (!file || ::fcntl(file.get(), F_SETFL, O_APPEND) != 0 || ::dup2(file.get(), number) < 0)
      return -1;
    streams_[i].file = std::move(file);
  }
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  return log;
}

void output_capture::flush(wire::server_session& session) {
  std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < streams_.size(); ++i)
    flush(session, streams_[i], static_cast<std::uint8_t>(i + 1));
}

void output_capture::flush(wire::server_session& session, stream& s, std::uint8_t number) {
  // Most flushes find nothing, so the first look costs one system call and no memory.
  std::byte first[4096];
  auto bytes = s.file ? ::pread(s.file.get(), first, sizeof first, static_cast<off_t>(s.taken)) : 0;
  std::vector<std::byte> more;
  const auto begin = s.taken;
  const std::byte* data = first;
  while (bytes > 0) {
    msg::printf::request output;
    output.descriptor = number;
    output.text = {data, static_cast<std::uint64_t>(bytes)};
    (void)session.push(output, msg::printf::call_id);
    s.taken += static_cast<std::uint64_t>(bytes);
    more.resize(limits::printf_push_bytes_max);
    data = more.data();
    bytes = ::pread(s.file.get(), more.data(), more.size(), static_cast<off_t>(s.taken));
  }
  if (s.taken / (1u << 20) != begin / (1u << 20)) {
    // What was read is given back to the system; the file keeps its length, since the driver may
    // append at any moment.
    ::fallocate(s.file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                static_cast<off_t>(s.taken & ~std::uint64_t{4095}));
  }
}

}  // namespace gpuwire::daemon
