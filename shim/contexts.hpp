// SPDX-License-Identifier: Apache-2.0
// Contexts of this process and each thread's stack of them.
#pragma once

#include <cuda.h>

#include "shim/thread.hpp"

namespace gpuwire::shim {

// The live context of a handle, or null.
context_record* find_context(std::uint64_t id);
context_record* find_context(CUcontext context);
// Handle 0 means the current context; null without one or for a dead handle.
context_record* context_or_current(CUcontext context);

inline CUcontext handle_of(const context_record& c) {
  return reinterpret_cast<CUcontext>(c.id.load(std::memory_order_acquire));
}
// The primary context of a device the program has, else null. Exists whether it is active or not.
context_record* primary_context(CUdevice device);

// A context that the server made besides the primary ones; null if its handle cannot be one.
context_record* learn_context(std::uint64_t id, CUdevice device);
// It is gone on the server, with all that lived in it; the calling thread leaves it.
void forget_context(context_record& context);

}  // namespace gpuwire::shim
