// SPDX-License-Identifier: Apache-2.0
// User objects. The driver counts references and calls our function when the last one goes, on a
// thread of its own or in the middle of a call; all that function does is tell the client, which
// knows the program's destructor.
#include "daemon/call_context.hpp"
#include "daemon/generated/custom.hpp"

namespace gpuwire::daemon::custom {
namespace {

struct object_record {
  worker* owner = nullptr;
  std::uint64_t destructor = 0;  // the client's number
  std::atomic<wire::handle_id> handle{0};
};

void CUDA_CB last_reference_gone(void* data) {
  std::unique_ptr<object_record> record(static_cast<object_record*>(data));
  auto& w = *record->owner;
  if (const auto id = record->handle.load()) w.handles(handle_kind::user_object).remove(id);
  msg::host_call::request m;
  m.id = record->destructor;
  // A lost session needs no destructors of its program.
  (void)w.session->push(m, msg::host_call::call_id);
}

template <class Call>
outcome change_count(call_context& c, const typename Call::request& q,
                     CUresult(CUDAAPI* function)(CUuserObject, unsigned)) {
  const auto object = c.native<handle_kind::user_object>(q.object);
  if (c.failed()) return c.finish<Call>(c.failure(), {});
  if (function == nullptr || object == nullptr) return c.finish<Call>(CUDA_ERROR_NOT_SUPPORTED, {});
  return c.finish<Call>(function(object, q.count), {});
}

}  // namespace

outcome user_object_create(call_context& c, const msg::user_object_create::request& q) {
  using call = msg::user_object_create;
  call::reply r;
  if (c.driver().cuUserObjectCreate == nullptr) return c.finish<call>(CUDA_ERROR_NOT_SUPPORTED, r);
  auto record = std::make_unique<object_record>();
  record->owner = &c.owner();
  record->destructor = q.destructor;
  CUuserObject object = nullptr;
  const auto result =
      c.driver().cuUserObjectCreate(&object, record.get(), &last_reference_gone, q.count, q.flags);
  if (result == CUDA_SUCCESS) {
    r.object = c.mint<handle_kind::user_object>(object);
    record.release()->handle.store(r.object);
  }
  return c.finish<call>(result, r);
}

outcome user_object_retain(call_context& c, const msg::user_object_retain::request& q) {
  return change_count<msg::user_object_retain>(c, q, c.driver().cuUserObjectRetain);
}

outcome user_object_release(call_context& c, const msg::user_object_release::request& q) {
  return change_count<msg::user_object_release>(c, q, c.driver().cuUserObjectRelease);
}

}  // namespace gpuwire::daemon::custom
