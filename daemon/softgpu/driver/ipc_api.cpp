// SPDX-License-Identifier: Apache-2.0
// Device memory between processes of one host and user: a handle names a process, a descriptor of
// it, and a place in that file. Events between processes do not exist.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "context.hpp"
#include "guard.hpp"
#include "memory.hpp"
#include "scheduler.hpp"
#include "shared_file.hpp"

using namespace gpuwire::softgpu;

namespace {

struct memory_ticket {
  std::uint32_t magic = 0;
  std::int32_t process = 0;
  std::int32_t file = -1;
  std::int32_t device = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t buffer_id = 0;
};
static_assert(sizeof(memory_ticket) <= sizeof(CUipcMemHandle));
constexpr std::uint32_t magic = 0x67777331;

// Opened handles of this process. Opening one again in the same context gives the same address.
struct opened {
  std::uint64_t buffer_id = 0;  // in this process
  unsigned count = 0;
};
using ticket_key = std::tuple<std::int32_t, std::uint64_t, unsigned>;  // process, buffer, context

struct open_tickets {
  std::mutex mutex;
  std::map<ticket_key, std::uint64_t> address_of;
  std::map<std::uint64_t, opened> by_address;
};

open_tickets& tickets() {
  static auto* only = new open_tickets;
  return *only;
}

class descriptor {
 public:
  explicit descriptor(int file) : file_(file) {}
  ~descriptor() {
    if (file_ >= 0) close(file_);
  }
  descriptor(const descriptor&) = delete;
  descriptor& operator=(const descriptor&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

bool still_mapped(std::uint64_t address, const opened& known) {
  const auto found = memory_table::instance().find(address);
  return found && found->base == address && found->buffer_id == known.buffer_id;
}

std::uint64_t map_ticket(context& in, const memory_ticket& ticket) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", ticket.process, ticket.file);
  const descriptor file(open(path, O_RDWR | O_CLOEXEC));
  require(file.get() >= 0 && device_of_memory_file(file.get()) == ticket.device,
          CUDA_ERROR_MAP_FAILED);
  struct stat state {};
  require(fstat(file.get(), &state) == 0 && ticket.bytes > 0 &&
          ticket.bytes <= static_cast<std::uint64_t>(state.st_size) &&
          ticket.offset <= static_cast<std::uint64_t>(state.st_size) - ticket.bytes);
  const auto base = map_shared(file.get(), ticket.offset, ticket.bytes);
  require(base.has_value(), CUDA_ERROR_MAP_FAILED);
  allocation entry;
  entry.base = *base;
  entry.bytes = ticket.bytes;
  entry.kind = memory_kind::imported;
  entry.context_id = in.id;
  entry.device_ordinal = ticket.device;
  memory_table::instance().enter(entry);
  return *base;
}

}  // namespace

CUresult cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  return with_context([&](context&) {
    require(out != nullptr);
    const auto place = memory_table::instance().shared_place_of(address);
    require(place.has_value());
    memory_ticket ticket;
    ticket.magic = magic;
    ticket.process = getpid();
    ticket.file = place->file;
    ticket.device = place->whole.device_ordinal;
    ticket.offset = place->offset;
    ticket.bytes = place->whole.bytes;
    ticket.buffer_id = place->whole.buffer_id;
    *out = {};
    std::memcpy(out, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return with_context([&](context& current) {
    require(out != nullptr && flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    memory_ticket ticket;
    std::memcpy(static_cast<void*>(&ticket), &handle, sizeof ticket);
    require(ticket.magic == magic && ticket.device >= 0 &&
            static_cast<std::size_t>(ticket.device) < devices().size());
    // A process cannot open its own memory.
    require(ticket.process != getpid(), CUDA_ERROR_INVALID_CONTEXT);
    auto& all = tickets();
    std::lock_guard lock(all.mutex);
    const ticket_key key{ticket.process, ticket.buffer_id, current.id};
    auto again = all.address_of.find(key);
    if (again != all.address_of.end()) {
      auto& known = all.by_address[again->second];
      if (still_mapped(again->second, known)) {
        ++known.count;
        *out = again->second;
        return CUDA_SUCCESS;
      }
    }
    const std::uint64_t base = map_ticket(current, ticket);
    all.address_of[key] = base;
    all.by_address[base] = {memory_table::instance().find(base)->buffer_id, 1};
    *out = base;
    return CUDA_SUCCESS;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle, unsigned int flags) {
  return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  return with_context([&](context& current) {
    auto& all = tickets();
    std::lock_guard lock(all.mutex);
    auto found = all.by_address.find(address);
    require(found != all.by_address.end() && still_mapped(address, found->second));
    if (--found->second.count > 0) return CUDA_SUCCESS;
    scheduler::instance().synchronise(current);
    memory_table::instance().remove(address, {memory_kind::imported});
    all.by_address.erase(found);
    std::erase_if(all.address_of, [&](const auto& one) { return one.second == address; });
    return CUDA_SUCCESS;
  });
}
