// SPDX-License-Identifier: Apache-2.0
// What works before cuInit: cuInit itself, versions, error texts, entry points by name.
#include "shim/connection.hpp"
#include "shim/entry.hpp"
#include "shim/export_tables.hpp"
#include "shim/generated/custom.hpp"
#include "shim/generated/error_table.hpp"
#include "shim/generated/proc_table.hpp"

namespace gpuwire::shim {
namespace {

constexpr cuuint64_t proc_flags =
    CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

// Before a connection the shim's own version stands for the server's.
int version_limit() {
  const phase p = guard::now();
  return p == phase::connected || p == phase::initialised ? state().driver_version : CUDA_VERSION;
}

struct lookup {
  CUresult result = CUDA_SUCCESS;
  proc_answer answer{};
};

lookup look_up(const char* symbol, void** pfn, int version, cuuint64_t flags) {
  lookup l;
  if (symbol == nullptr || pfn == nullptr || (flags & ~proc_flags) != 0 ||
      version > version_limit())
    l.result = CUDA_ERROR_INVALID_VALUE;
  else
    l.answer =
        find_proc(symbol, version, (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0);
  return l;
}

CUresult give_text(const char* text, const char** out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = text;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

namespace custom {

CUresult cuInit(unsigned int Flags) {
  if (Flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult r = shim::need_connection(); r != CUDA_SUCCESS) return r;
  return initialise();
}

// Without a server the answer is this library's own version, as a driver without a GPU would say;
// that there is no server is then cuInit's to tell. The CUDA runtime calls any other code here an
// outdated driver.
CUresult cuDriverGetVersion(int* driverVersion) {
  if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool known = guard::in_forked_child() || try_connection() == CUDA_SUCCESS;
  *driverVersion = known && state().driver_version != 0 ? state().driver_version : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** pStr) {
  return give_text(error_name(static_cast<int>(error)), pStr);
}
CUresult cuGetErrorString(CUresult error, const char** pStr) {
  return give_text(error_text(static_cast<int>(error)), pStr);
}

CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  const lookup l = look_up(symbol, pfn, cudaVersion, flags);
  if (l.result != CUDA_SUCCESS) return l.result;
  if (l.answer.status != proc_status::found) return CUDA_ERROR_NOT_FOUND;
  *pfn = l.answer.function;
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult* symbolStatus) {
  const lookup l = look_up(symbol, pfn, cudaVersion, flags);
  if (l.result != CUDA_SUCCESS) return l.result;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  if (l.answer.status == proc_status::name_unknown) status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (l.answer.status == proc_status::version_not_sufficient)
    status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  if (symbolStatus != nullptr) *symbolStatus = status;
  *pfn = l.answer.function;
  return CUDA_SUCCESS;
}

CUresult cuGetExportTable(const void** ppExportTable, const CUuuid* pExportTableId) {
  if (ppExportTable == nullptr || pExportTableId == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *ppExportTable = export_table(*pExportTableId);
  return *ppExportTable != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace custom
}  // namespace gpuwire::shim
