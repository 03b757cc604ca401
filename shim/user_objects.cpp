// SPDX-License-Identifier: Apache-2.0
// User objects: the driver of the server counts the references, of the program and of graphs; the
// destructor is a function of the program, known to the server by a number, and runs here when the
// server says that the last reference has gone.
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/graphs.hpp"
#include "shim/host_functions.hpp"

namespace gpuwire::shim::custom {
namespace {

template <class Call>
CUresult change_count(CUuserObject object, unsigned count) {
  if (does_nothing_yet()) return CUDA_SUCCESS;
  if (const CUresult r = admit(Call::name, CUDA_ERROR_NOT_INITIALIZED); r != CUDA_SUCCESS) return r;
  typename Call::request q;
  // Null has no references, which the driver does not call an error.
  if (object == nullptr) return CUDA_SUCCESS;
  q.object = id_of(object);
  q.count = count;
  return call<Call>(q).result;
}

}  // namespace

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags) {
  if (object_out == nullptr || destroy == nullptr || initialRefcount == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  host_function destructor;
  destructor.function = destroy;
  destructor.argument = ptr;
  destructor.destructor = true;
  msg::user_object_create::request q;
  if (const CUresult r = register_host_function(destructor, q.destructor); r != CUDA_SUCCESS)
    return r;
  q.count = initialRefcount;
  q.flags = flags;
  const auto a = call<msg::user_object_create>(q);
  if (a.result == CUDA_SUCCESS)
    *object_out = handle_from<CUuserObject>(a.body.object);
  else
    forget_host_function(q.destructor);
  return a.result;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  return change_count<msg::user_object_retain>(object, count);
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return change_count<msg::user_object_release>(object, count);
}

}  // namespace gpuwire::shim::custom
