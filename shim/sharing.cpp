// SPDX-License-Identifier: Apache-2.0
// Sharing with other processes that use the same server. What the program passes on is a ticket of the server's: in the
// opaque structs of the IPC functions, or in an ordinary file where a descriptor is wanted, so that it can be passed over a
// socket and closed like the driver's.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/log.hpp"
#include "shim/memory.hpp"
#include "shim/streams.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::size_t ticket_bytes = 32;
constexpr std::array<char, 8> mark = {'g', 'p', 'u', 'w', 't', 'k', 't', '1'};
struct marked_ticket {
  std::array<char, 8> mark;
  std::array<std::byte, ticket_bytes> ticket;
};

// As the daemon numbers them.
enum class kind : std::uint8_t { memory = 1, event = 2, allocation = 3, pool = 4, pool_pointer = 5 };

CUresult export_object(kind k, std::uint64_t object, marked_ticket& out) {
  msg::ipc_export::request q;
  q.kind = static_cast<std::uint8_t>(k);
  q.object = object;
  const auto a = call<msg::ipc_export>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  if (a.body.ticket.size != ticket_bytes) {
    detail::reply_is_malformed("ipc_export");
    return CUDA_ERROR_UNKNOWN;
  }
  out.mark = mark;
  std::memcpy(out.ticket.data(), a.body.ticket.data, ticket_bytes);
  return CUDA_SUCCESS;
}

template <class Opaque>
void put_into(Opaque& out, const marked_ticket& t) {
  static_assert(sizeof(Opaque) >= sizeof t);
  std::memset(&out, 0, sizeof out);
  std::memcpy(&out, &t, sizeof t);
}

// False: no handle of ours.
template <class Opaque>
bool take_from(const Opaque& in, marked_ticket& t) {
  std::memcpy(&t, &in, sizeof t);
  return t.mark == mark;
}

int file_with(const marked_ticket& t) {
  const int fd = ::memfd_create("gpuwire-ticket", MFD_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t written;
  do written = ::pwrite(fd, &t, sizeof t, 0);
  while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(sizeof t)) return fd;
  ::close(fd);
  return -1;
}

bool read_file(int fd, marked_ticket& t) {
  ssize_t got;
  do got = ::pread(fd, &t, sizeof t, 0);
  while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof t) && t.mark == mark;
}

CUresult export_descriptor(kind k, std::uint64_t object, void* out) {
  marked_ticket t{};
  if (const CUresult r = export_object(k, object, t); r != CUDA_SUCCESS) return r;
  const int fd = file_with(t);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memcpy(out, &fd, sizeof fd);
  return CUDA_SUCCESS;
}

CUresult check_type(CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_SUCCESS;
  return type == CU_MEM_HANDLE_TYPE_NONE ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
}

answer<msg::ipc_import> import_object(kind k, const marked_ticket& t, std::uint64_t pool) {
  msg::ipc_import::request q;
  q.kind = static_cast<std::uint8_t>(k);
  q.ticket = {t.ticket.data(), t.ticket.size()};
  q.pool = pool;
  return call<msg::ipc_import>(q);
}

// How often a range was opened: the driver gives the same address again, and each wants its own close.
struct open_counts {
  std::mutex mutex;
  std::map<std::uint64_t, unsigned> times;
};
open_counts& opened() {
  static auto* o = new open_counts;
  return *o;
}

CUresult open_memory(CUdeviceptr* pdptr, const CUipcMemHandle& handle, unsigned flags) {
  if (pdptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  marked_ticket t{};
  if (!take_from(handle, t)) return CUDA_ERROR_INVALID_VALUE;
  msg::ipc_open_memory::request q;
  q.ticket = {t.ticket.data(), t.ticket.size()};
  q.flags = flags;
  auto& book = opened();
  std::lock_guard lock(book.mutex);
  const auto a = call<msg::ipc_open_memory>(q);
  if (a.result != CUDA_SUCCESS) return a.result;
  auto& times = book.times[a.body.address];
  if (times == 0 && a.body.bytes != 0 &&
      !keep_device_range(a.body.address, a.body.bytes, new_memory_entry(memory_kind::shared))) {
    book.times.erase(a.body.address);
    msg::cuIpcCloseMemHandle::request close;
    close.dptr = a.body.address;
    (void)call<msg::cuIpcCloseMemHandle>(close);
    write_line("the address of shared device memory is in use in this process; it cannot be opened");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++times;
  *pdptr = a.body.address;
  return CUDA_SUCCESS;
}

}  // namespace

namespace custom {

CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  marked_ticket t{};
  const CUresult r = export_object(kind::memory, dptr, t);
  if (r == CUDA_SUCCESS) put_into(*pHandle, t);
  return r;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return open_memory(pdptr, handle, Flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  auto& book = opened();
  std::lock_guard lock(book.mutex);
  const auto found = book.times.find(dptr);
  const bool last = found != book.times.end() && found->second == 1;
  // Unknown before the command is sent: nothing is posted into the range any more.
  const auto range = last ? forget_device_range(dptr, memory_kind::shared) : std::nullopt;
  msg::cuIpcCloseMemHandle::request q;
  q.dptr = dptr;
  const CUresult r = call<msg::cuIpcCloseMemHandle>(q).result;
  if (r != CUDA_SUCCESS) {
    if (range) keep_device_range(range->base, range->bytes, range->value);
    return r;
  }
  if (last)
    book.times.erase(found);
  else if (found != book.times.end())
    --found->second;
  return r;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (pHandle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (find_event(event) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  marked_ticket t{};
  const CUresult r = export_object(kind::event, id_of(event), t);
  if (r == CUDA_SUCCESS) put_into(*pHandle, t);
  return r;
}

CUresult cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  if (const CUresult r = need_context(); r != CUDA_SUCCESS) return r;
  if (phEvent == nullptr) return CUDA_ERROR_INVALID_VALUE;
  marked_ticket t{};
  if (!take_from(handle, t)) return CUDA_ERROR_INVALID_HANDLE;
  process_state& s = state();
  const auto id = s.event_ids.mint();
  event_record* record = id == 0 ? nullptr : s.events.make(wire::handle_index(id));
  if (record == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  record->context = self().context_index();
  record->flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
  msg::ipc_open_event::request q;
  q.ticket = {t.ticket.data(), t.ticket.size()};
  q.event = id;
  if (const CUresult r = call<msg::ipc_open_event>(q).result; r != CUDA_SUCCESS) {
    s.event_ids.give_back(id);
    return r;
  }
  record->id.store(id, std::memory_order_release);
  *phEvent = handle_from<CUevent>(id);
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags) {
  if (shareableHandle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_type(handleType); r != CUDA_SUCCESS) return r;
  return export_descriptor(kind::allocation, handle, shareableHandle);
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_type(shHandleType); r != CUDA_SUCCESS) return r;
  marked_ticket t{};
  if (!read_file(static_cast<int>(reinterpret_cast<std::intptr_t>(osHandle)), t))
    return CUDA_ERROR_INVALID_VALUE;
  const auto a = import_object(kind::allocation, t, 0);
  if (a.result == CUDA_SUCCESS) *handle = a.body.object;
  return a.result;
}

CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  if (handle_out == nullptr || pool == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_type(handleType); r != CUDA_SUCCESS) return r;
  return export_descriptor(kind::pool, id_of(pool), handle_out);
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  if (pool_out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = check_type(handleType); r != CUDA_SUCCESS) return r;
  marked_ticket t{};
  if (!read_file(static_cast<int>(reinterpret_cast<std::intptr_t>(handle)), t))
    return CUDA_ERROR_INVALID_VALUE;
  const auto a = import_object(kind::pool, t, 0);
  if (a.result == CUDA_SUCCESS) *pool_out = handle_from<CUmemoryPool>(a.body.object);
  return a.result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  if (shareData_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  marked_ticket t{};
  const CUresult r = export_object(kind::pool_pointer, ptr, t);
  if (r == CUDA_SUCCESS) put_into(*shareData_out, t);
  return r;
}

CUresult cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData* shareData) {
  if (ptr_out == nullptr || pool == nullptr || shareData == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  marked_ticket t{};
  if (!take_from(*shareData, t)) return CUDA_ERROR_INVALID_VALUE;
  const auto a = import_object(kind::pool_pointer, t, id_of(pool));
  if (a.result != CUDA_SUCCESS) return a.result;
  memory_entry e = new_memory_entry(memory_kind::pool);
  e.context = 0;
  e.owner = id_of(pool);
  if (a.body.bytes != 0 && !keep_device_range(a.body.object, a.body.bytes, e)) {
    write_line("the address of shared device memory is in use in this process; it cannot be opened");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *ptr_out = a.body.object;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
