// SPDX-License-Identifier: Apache-2.0
#include "shim/export_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "shim/context_storage.hpp"
#include "shim/contexts.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/images.hpp"
#include "shim/log.hpp"

namespace gpuwire::shim {
namespace {

union slot {
  std::uintptr_t number;
  const void* function;
};

template <class Function>
slot at(Function* function) {
  slot s{};
  s.function = reinterpret_cast<const void*>(function);
  return s;
}

enum class table_id {
  cudart_interface,
  tools_tls,
  callback_hooks,
  context_checks,
  requirements,
  tools_context,
  tools_module,
  sm_map,
  jit_cache
};

constexpr const char* name_of(table_id table) {
  switch (table) {
    case table_id::cudart_interface:
      return "6bd5fb6c (the runtime's own)";
    case table_id::tools_tls:
      return "42d85a81 (current context)";
    case table_id::callback_hooks:
      return "a094798c (callbacks of the runtime)";
    case table_id::context_checks:
      return "263e8860 (context checks)";
    case table_id::requirements:
      return "f8cff951 (requirements and log)";
    case table_id::tools_context:
      return "21318c60 (contexts for tools)";
    case table_id::tools_module:
      return "6e163fbe (modules for tools)";
    case table_id::sm_map:
      return "1734dc26 (GPC of each TPC)";
    case table_id::jit_cache:
      return "da9151d3 (cache of compiled code)";
  }
  return "?";
}

// One function for each slot, so that the log can say which was called.
template <table_id Table, std::size_t Slot>
CUresult unknown_slot() {
  static once said;
  if (said.first())
    log_debug("slot {} of export table {} was called, which is not supported", Slot,
              name_of(Table));
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Slot 0 is the size in bytes; every other one is callable from the start.
template <table_id Table, std::size_t... Slot>
std::array<slot, sizeof...(Slot)> make_table(std::index_sequence<Slot...>) {
  std::array<slot, sizeof...(Slot)> table = {at(&unknown_slot<Table, Slot>)...};
  table[0].number = sizeof table;
  return table;
}
template <table_id Table, std::size_t Slots>
std::array<slot, Slots> make_table() {
  return make_table<Table>(std::make_index_sequence<Slots>());
}

CUresult nothing_to_do() {
  return CUDA_SUCCESS;
}

// ---- CUDART_INTERFACE ----

CUresult load_wrapper(CUmodule* out, const void* wrapper) {
  return enter("export table: load module", CUDA_ERROR_NOT_INITIALIZED,
               [&] { return load_module(out, wrapper); });
}
CUresult load_header(const void* header, CUmodule* out) {
  return enter("export table: load fatbin", CUDA_ERROR_NOT_INITIALIZED,
               [&] { return load_module_from_fatbin(out, header); });
}
CUresult primary_of(CUcontext* out, CUdevice device) {
  return enter("export table: primary context", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    const context_record* c = primary_context(device);
    if (c == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle_of(*c);
    return CUDA_SUCCESS;
  });
}

// ---- TOOLS_TLS, RUNTIME_CALLBACK_HOOKS ----

CUresult current_context(CUcontext* out) {
  return enter("export table: current context", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const thread_state& t = self();
    *out = t.stack.empty() ? nullptr : handle_from<CUcontext>(t.stack_ids.back());
    return CUDA_SUCCESS;
  });
}

std::array<std::uint64_t, 1024> driver_callbacks{}, other_callbacks{};

CUresult callback_flags(void** flags, std::size_t* count) {
  if (flags == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = driver_callbacks.data();
  *count = 0x400;
  return CUDA_SUCCESS;
}
CUresult other_flags(void** flags, std::size_t* count) {
  if (flags == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = other_callbacks.data();
  *count = 14;
  return CUDA_SUCCESS;
}
CUresult context_id(CUcontext context, std::uint64_t* out) {
  return enter("export table: context id", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_UNKNOWN;
    const context_record* c = context_or_current(context);
    if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    msg::cuCtxGetId::request q;
    q.ctx = c->id.load(std::memory_order_acquire);
    q.ctxId_wanted = true;
    const auto a = cached_call<msg::cuCtxGetId>(q);
    // An inactive primary context has no id on the server yet; its index is as unique.
    *out = a.result == CUDA_SUCCESS ? a.body.ctxId : c->index;
    return CUDA_SUCCESS;
  });
}
CUresult stream_number(CUcontext, CUstream stream, std::uint64_t* out) {
  return enter("export table: stream number", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto target = find_stream(stream);
    if (target.result != CUDA_SUCCESS) return target.result;
    *out = target.record != nullptr ? 16 + wire::handle_index(target.id) : target.id;
    return CUDA_SUCCESS;
  });
}

// The handle that stands for a stream of the context, also for the default ones; cuBLAS asks for its number then.
CUresult stream_itself(CUcontext, CUstream stream, CUstream* out) {
  return enter("export table: stream", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto target = find_stream(stream);
    if (target.result != CUDA_SUCCESS) return target.result;
    *out = target.id == 0 ? CU_STREAM_LEGACY : handle_from<CUstream>(target.id);
    return CUDA_SUCCESS;
  });
}

// ---- CONTEXT_LOCAL_STORAGE ----

context_record* storage_context(CUcontext context) {
  return context_or_current(id_of(context) == ~std::uint64_t{0} ? nullptr : context);
}

CUresult storage_put(CUcontext context, void* key, void* value,
                     context_storage::destructor at_end) {
  return enter("export table: context storage put", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    context_record* c = storage_context(context);
    if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    context_storage* storage = c->storage.load(std::memory_order_acquire);
    if (storage == nullptr) {
      auto fresh = std::make_unique<context_storage>();
      if (c->storage.compare_exchange_strong(storage, fresh.get(), std::memory_order_acq_rel))
        storage = fresh.release();
    }
    storage->put(key, value, at_end);
    return CUDA_SUCCESS;
  });
}
CUresult storage_delete(CUcontext context, void* key) {
  return enter(
      "export table: context storage delete", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
        const context_record* c = storage_context(context);
        if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
        context_storage* storage = c->storage.load(std::memory_order_acquire);
        return storage != nullptr && storage->erase(key) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
      });
}
CUresult storage_get(void** value, CUcontext context, void* key) {
  return enter("export table: context storage get", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const context_record* c = storage_context(context);
    if (c == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    const context_storage* storage = c->storage.load(std::memory_order_acquire);
    return storage != nullptr && storage->get(key, value) ? CUDA_SUCCESS
                                                          : CUDA_ERROR_INVALID_HANDLE;
  });
}

// ---- INTEGRITY_CHECK, CONTEXT_CHECKS, requirements ----

CUresult integrity_check(unsigned version, std::uint64_t unix_seconds, std::uint64_t* out) {
  return enter_anytime("export table: integrity check", [&]() -> CUresult {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    integrity_answer(version, unix_seconds, out);
    return CUDA_SUCCESS;
  });
}
CUresult integrity_accept(int) {
  return CUDA_SUCCESS;
}

// The second value must stay as it is: cublasCreate breaks on a null there.
CUresult context_check(CUcontext, unsigned* out, const void**) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  return CUDA_SUCCESS;
}

CUresult requirement(CUcontext, std::uint32_t* out, void*) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = 0;
  return CUDA_SUCCESS;
}
CUresult requirement_accepted(unsigned, const void*, const void*) {
  return CUDA_SUCCESS;
}

CUresult library_log(const char* domain, int severity, const char* format, std::va_list arguments) {
  if (!debug_log_wanted() || format == nullptr) return CUDA_SUCCESS;
  char text[512];
  if (std::vsnprintf(text, sizeof text, format, arguments) < 0) return CUDA_SUCCESS;
  log_debug("{} ({}): {}", domain != nullptr ? domain : "a library", severity, text);
  return CUDA_SUCCESS;
}

// ---- TOOLS_MODULE ----

// The number of kernels is the return value.
int each_kernel(CUcontext, CUmodule module, void (*callback)(void*, CUfunction), void* opaque,
                CUmodule) {
  int count = 0;
  enter("export table: each kernel", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    unsigned known = 0;
    if (callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const CUresult r = custom::cuModuleGetFunctionCount(&known, module); r != CUDA_SUCCESS)
      return r;
    std::vector<CUfunction> functions(known);
    const CUresult r = custom::cuModuleEnumerateFunctions(functions.data(), known, module);
    if (r != CUDA_SUCCESS) return r;
    for (const auto function : functions) callback(opaque, function);
    count = static_cast<int>(known);
    return CUDA_SUCCESS;
  });
  return count;
}

// ---- which GPC and row each TPC belongs to ----

// The caller knows how many TPCs there are and may read that many; a server that sent fewer must
// not make it read beyond.
std::uint8_t* copy_of_map(const wire::bytes_view& bytes) {
  constexpr std::size_t entries_min = 1024;
  auto* copy =
      static_cast<std::uint8_t*>(std::calloc(std::max<std::size_t>(bytes.size, entries_min), 1));
  if (copy != nullptr && bytes.size != 0) std::memcpy(copy, bytes.data, bytes.size);
  return copy;
}

CUresult sm_map(std::uint8_t** gpc, std::uint8_t** row) {
  return enter("export table: SM map", CUDA_ERROR_NOT_INITIALIZED, [&]() -> CUresult {
    if (gpc == nullptr || row == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto a = cached_call<msg::sm_map>({});
    if (a.result != CUDA_SUCCESS) return a.result;
    *gpc = copy_of_map(a.body.gpc);
    *row = copy_of_map(a.body.row);
    return *gpc != nullptr && *row != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}
CUresult sm_map_free(std::uint8_t* gpc, std::uint8_t* row) {
  std::free(gpc);
  std::free(row);
  return CUDA_SUCCESS;
}

// ---- JIT compute cache: always a miss ----

int cache_entry = 0;
CUresult cache_open(void** entry, int, const void*, std::size_t, const char*, const char*) {
  if (entry == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *entry = &cache_entry;
  return CUDA_SUCCESS;
}
CUresult cache_find(void*, int, void**, int*) {
  return CUDA_ERROR_NOT_FOUND;
}
CUresult cache_store(void*, int, const void*, std::size_t) {
  return CUDA_SUCCESS;
}

// ---- the tables ----

struct tables {
  std::array<slot, 13> cudart_interface = make_table<table_id::cudart_interface, 13>();
  std::array<slot, 3> tools_tls = make_table<table_id::tools_tls, 3>();
  std::array<slot, 7> callback_hooks = make_table<table_id::callback_hooks, 7>();
  std::array<slot, 3> context_storage = {at(&storage_put), at(&storage_delete), at(&storage_get)};
  std::array<slot, 3> integrity = {slot{24}, at(&integrity_check), at(&integrity_accept)};
  std::array<slot, 15> context_checks = make_table<table_id::context_checks, 15>();
  std::array<slot, 37> requirements = make_table<table_id::requirements, 37>();
  std::array<slot, 93> tools_context = make_table<table_id::tools_context, 93>();
  std::array<slot, 99> tools_module = make_table<table_id::tools_module, 99>();
  std::array<slot, 17> sm_map_table = make_table<table_id::sm_map, 17>();
  std::array<slot, 7> jit_cache = make_table<table_id::jit_cache, 7>();

  tables() {
    cudart_interface[1] = at(&load_wrapper);
    cudart_interface[2] = at(&primary_of);
    cudart_interface[6] = at(&load_wrapper);
    cudart_interface[7] = at(&nothing_to_do);
    cudart_interface[8] = at(&load_header);
    cudart_interface[12] = at(&nothing_to_do);
    tools_tls[2] = at(&current_context);
    callback_hooks[1] = at(&nothing_to_do);
    callback_hooks[2] = at(&callback_flags);
    callback_hooks[3] = at(&stream_number);
    callback_hooks[4] = at(&context_id);
    callback_hooks[5] = at(&nothing_to_do);
    callback_hooks[6] = at(&other_flags);
    context_checks[2] = at(&context_check);
    context_checks[3] = at(&nothing_to_do);
    // Several tables in a row: the sizes in bytes of each, a zero between some of them.
    constexpr std::pair<std::size_t, std::uintptr_t> sizes[] = {
        {0, 0x18}, {3, 0},  {4, 0x10},  {6, 0x20}, {10, 0x10},
        {12, 0},   {13, 0}, {14, 0x38}, {21, 0},   {22, 0x78}};
    for (const auto& [word, bytes] : sizes) requirements[word].number = bytes;
    requirements[1] = at(&library_log);
    requirements[24] = at(&requirement);
    requirements[25] = at(&requirement_accepted);
    tools_context[4] = at(&context_id);
    tools_context[39] = at(&stream_number);
    tools_context[51] = at(&stream_itself);
    tools_module[7] = at(&each_kernel);
    sm_map_table[4] = at(&sm_map);
    sm_map_table[13] = at(&sm_map_free);
    jit_cache[1] = at(&cache_open);
    jit_cache[2] = at(&nothing_to_do);
    jit_cache[3] = at(&cache_find);
    jit_cache[4] = at(&cache_store);
  }
};

const tables& all() {
  static const auto* the_tables = new tables;
  return *the_tables;
}

struct served {
  std::array<std::uint8_t, 16> id;
  const void* table;
};

}  // namespace

const void* cudart_interface_table() {
  return all().cudart_interface.data();
}
const void* integrity_table() {
  return all().integrity.data();
}
const void* integrity_function() {
  return all().integrity[1].function;
}

const void* export_table(const CUuuid& id) {
  const tables& t = all();
  const served list[] = {
      {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d,
        0xf9},
       t.cudart_interface.data()},
      {{0x42, 0xd8, 0x5a, 0x81, 0x23, 0xf6, 0xcb, 0x47, 0x82, 0x98, 0xf6, 0xe7, 0x8a, 0x3a, 0xec,
        0xdc},
       t.tools_tls.data()},
      {{0xa0, 0x94, 0x79, 0x8c, 0x2e, 0x74, 0x2e, 0x74, 0x93, 0xf2, 0x08, 0x00, 0x20, 0x0c, 0x0a,
        0x66},
       t.callback_hooks.data()},
      {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95,
        0x93},
       t.context_storage.data()},
      {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1,
        0xf2},
       t.integrity.data()},
      {{0x26, 0x3e, 0x88, 0x60, 0x7c, 0xd2, 0x61, 0x43, 0x92, 0xf6, 0xbb, 0xd5, 0x00, 0x6d, 0xfa,
        0x7e},
       t.context_checks.data()},
      {{0xf8, 0xcf, 0xf9, 0x51, 0x21, 0x46, 0x8b, 0x4e, 0xb9, 0xe2, 0xfb, 0x46, 0x9e, 0x7c, 0x0d,
        0xd9},
       t.requirements.data()},
      {{0x21, 0x31, 0x8c, 0x60, 0x97, 0x14, 0x32, 0x48, 0x8c, 0xa6, 0x41, 0xff, 0x73, 0x24, 0xc8,
        0xf2},
       t.tools_context.data()},
      {{0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d, 0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99,
        0x1e},
       t.tools_module.data()},
      {{0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1, 0xe7, 0xdd, 0x8b,
        0xca},
       t.sm_map_table.data()},
      {{0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41, 0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3,
        0x28},
       t.jit_cache.data()},
  };
  for (const auto& entry : list)
    if (std::memcmp(entry.id.data(), id.bytes, sizeof id.bytes) == 0) return entry.table;
  if (debug_log_wanted()) {
    std::string text;
    for (const char byte : id.bytes) text += fmt::format("{:02x}", static_cast<std::uint8_t>(byte));
    log_debug("the export table {} was asked for, which is not served", text);
  }
  return nullptr;
}

}  // namespace gpuwire::shim
