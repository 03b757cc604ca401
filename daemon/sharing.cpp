// SPDX-License-Identifier: Apache-2.0
// What clients share with one another: the driver's own handles go into the main process's book, the client gets a ticket.
#include <unistd.h>

#include <cstring>

#include "daemon/allocations.hpp"
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

template <class Handle>
std::span<const std::byte> bytes_of(const Handle& h) {
  static_assert(sizeof(Handle) <= ticket_payload_bytes_max);
  return {reinterpret_cast<const std::byte*>(&h), sizeof h};
}
template <class Handle>
Handle handle_from(const ticket_desk::shared& s) {
  Handle h{};
  std::memcpy(&h, s.payload.data(), sizeof h);
  return h;
}

std::span<const std::byte> name_in(const wire::bytes_view& v) {
  return {v.data, v.size};
}

// The driver's handle of the object, into the book. The descriptor is the caller's to close.
CUresult driver_handle(call_context& c, ticket_kind kind, std::uint64_t object,
                       std::vector<std::byte>& payload, descriptor& fd) {
  const auto& d = c.driver();
  const auto keep = [&](const auto& h) {
    const auto b = bytes_of(h);
    payload.assign(b.begin(), b.end());
  };
  const auto keep_descriptor = [&](CUresult result, int exported) {
    if (result == CUDA_SUCCESS) fd = descriptor(exported);
    return result;
  };
  switch (kind) {
    case ticket_kind::memory: {
      CUipcMemHandle h{};
      const auto r = d.cuIpcGetMemHandle ? d.cuIpcGetMemHandle(&h, object) : CUDA_ERROR_NOT_SUPPORTED;
      keep(h);
      return r;
    }
    case ticket_kind::event: {
      const auto event = c.native<handle_kind::event>(object);
      if (c.failed()) return c.failure();
      CUipcEventHandle h{};
      const auto r =
          d.cuIpcGetEventHandle ? d.cuIpcGetEventHandle(&h, event) : CUDA_ERROR_NOT_SUPPORTED;
      keep(h);
      return r;
    }
    case ticket_kind::allocation: {
      const auto allocation = c.native<handle_kind::allocation>(object);
      if (c.failed()) return c.failure();
      if (d.cuMemExportToShareableHandle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      int exported = -1;
      const auto r = d.cuMemExportToShareableHandle(
          &exported, allocation, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      return keep_descriptor(r, exported);
    }
    case ticket_kind::pool: {
      const auto pool = c.native<handle_kind::pool>(object);
      if (c.failed()) return c.failure();
      if (d.cuMemPoolExportToShareableHandle == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
      int exported = -1;
      const auto r = d.cuMemPoolExportToShareableHandle(
          &exported, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
      return keep_descriptor(r, exported);
    }
    case ticket_kind::pool_pointer: {
      CUmemPoolPtrExportData h{};
      const auto r =
          d.cuMemPoolExportPointer ? d.cuMemPoolExportPointer(&h, object) : CUDA_ERROR_NOT_SUPPORTED;
      keep(h);
      return r;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

std::uint64_t bytes_at(const driver_table& d, CUdeviceptr address) {
  std::size_t bytes = 0;
  if (d.cuMemGetAddressRange_v2 == nullptr ||
      d.cuMemGetAddressRange_v2(nullptr, &bytes, address) != CUDA_SUCCESS)
    return 0;
  return bytes;
}

}  // namespace

outcome ipc_export(call_context& c, const msg::ipc_export::request& q) {
  using call = msg::ipc_export;
  const auto kind = static_cast<ticket_kind>(q.kind);
  if (kind < ticket_kind::memory || kind > ticket_kind::pool_pointer || !c.called())
    return c.malformed();
  std::vector<std::byte> payload;
  descriptor fd;
  const auto result = driver_handle(c, kind, q.object, payload, fd);
  if (result != CUDA_SUCCESS) return c.finish<call>(result, {});
  const auto name = c.owner().tickets.keep(kind, payload, fd ? fd.get() : -1);
  if (!name) return c.finish<call>(CUDA_ERROR_OUT_OF_MEMORY, {});
  call::reply r;
  r.ticket = {name->data(), name->size()};
  return c.finish<call>(CUDA_SUCCESS, r);
}

outcome ipc_open_memory(call_context& c, const msg::ipc_open_memory::request& q) {
  using call = msg::ipc_open_memory;
  if (c.driver().cuIpcOpenMemHandle_v2 == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto shared = c.owner().tickets.find(ticket_kind::memory, name_in(q.ticket));
  if (!shared) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  CUdeviceptr address = 0;
  const auto result = c.driver().cuIpcOpenMemHandle_v2(
      &address, handle_from<CUipcMemHandle>(*shared), q.flags);
  call::reply r;
  if (result == CUDA_SUCCESS) {
    r.address = address;
    r.bytes = bytes_at(c.driver(), address);
  }
  return c.finish<call>(result, r);
}

outcome ipc_open_event(call_context& c, const msg::ipc_open_event::request& q) {
  using call = msg::ipc_open_event;
  if (c.driver().cuIpcOpenEventHandle == nullptr)
    return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, {});
  const auto shared = c.owner().tickets.find(ticket_kind::event, name_in(q.ticket));
  if (!shared) return c.finish<call>(CUDA_ERROR_INVALID_HANDLE, {});
  CUevent event = nullptr;
  const auto result =
      c.driver().cuIpcOpenEventHandle(&event, handle_from<CUipcEventHandle>(*shared));
  if (result == CUDA_SUCCESS &&
      !c.owner().handles(handle_kind::event).place(q.event, event, {c.ticket().context, 0}))
    return c.malformed();
  return c.finish<call>(result, {});
}

outcome ipc_import(call_context& c, const msg::ipc_import::request& q) {
  using call = msg::ipc_import;
  const auto& d = c.driver();
  const auto kind = static_cast<ticket_kind>(q.kind);
  if (kind < ticket_kind::allocation || kind > ticket_kind::pool_pointer) return c.malformed();
  auto shared = c.owner().tickets.find(kind, name_in(q.ticket));
  if (!shared) return c.finish<call>(CUDA_ERROR_INVALID_VALUE, {});
  const auto os_handle =
      reinterpret_cast<void*>(static_cast<std::intptr_t>(shared->fd ? shared->fd.get() : -1));
  call::reply r;
  auto result = CUDA_ERROR_NOT_SUPPORTED;
  if (kind == ticket_kind::allocation && d.cuMemImportFromShareableHandle != nullptr) {
    CUmemGenericAllocationHandle native = 0;
    result = d.cuMemImportFromShareableHandle(&native, os_handle,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    if (result == CUDA_SUCCESS) r.object = give_allocation(c, native);
  } else if (kind == ticket_kind::pool && d.cuMemPoolImportFromShareableHandle != nullptr) {
    CUmemoryPool native = nullptr;
    result = d.cuMemPoolImportFromShareableHandle(&native, os_handle,
                                                  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    if (result == CUDA_SUCCESS) r.object = c.mint<handle_kind::pool>(native);
  } else if (kind == ticket_kind::pool_pointer && d.cuMemPoolImportPointer != nullptr) {
    const auto pool = c.native<handle_kind::pool>(q.pool);
    if (c.failed()) return c.finish<call>(c.failure(), {});
    auto data = handle_from<CUmemPoolPtrExportData>(*shared);
    CUdeviceptr address = 0;
    result = d.cuMemPoolImportPointer(&address, pool, &data);
    if (result == CUDA_SUCCESS) {
      r.object = address;
      r.bytes = bytes_at(d, address);
    }
  }
  return c.finish<call>(result, r);
}

}  // namespace gpuwire::daemon::custom
