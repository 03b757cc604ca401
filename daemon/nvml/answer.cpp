// SPDX-License-Identifier: Apache-2.0
#include "daemon/nvml/answer.hpp"

namespace gpuwire::nvml {
namespace {

// What a client makes for itself, in contrast to what belongs to the machine.
bool is_owned(int kind) {
  return kind == kind::event_set || kind == kind::gpm_sample;
}

}  // namespace

bool answer::ready(bool changes_the_server) {
  if (!in_.finished()) {
    malformed_ = true;
    return false;
  }
  if (refusal_ == NVML_SUCCESS && changes_the_server && !client_.shared.writes_allowed)
    refusal_ = NVML_ERROR_NO_PERMISSION;
  result_ = refusal_;
  return refusal_ == NVML_SUCCESS;
}

void* answer::native(std::uint64_t id, int kind) {
  const auto found =
      is_owned(kind) ? client_.handles.find(id, kind) : client_.shared.handles.find(id, kind);
  if (!found) refuse(NVML_ERROR_INVALID_ARGUMENT);
  return found.value_or(nullptr);
}

std::uint64_t answer::number(void* native, int kind) {
  if (result_ != NVML_SUCCESS) return 0;
  if (!is_owned(kind)) return client_.shared.handles.number_of(native, kind);
  const auto id = client_.handles.add(native, kind);
  if (id == 0 && native != nullptr) result_ = NVML_ERROR_INSUFFICIENT_RESOURCES;
  return id;
}

// The worker that serves the asking process stands for that process; others keep the server's
// numbers.
std::uint32_t answer::seen_by_client(std::uint32_t pid) {
  client_.shared.refresh();
  const auto key = client_.shared.sessions.client_of(pid);
  return key != 0 && key == client_.process_key && client_.pid != 0 ? client_.pid : pid;
}

}  // namespace gpuwire::nvml
