// SPDX-License-Identifier: Apache-2.0
// The variants of functions for which stream 0 is the calling thread's own default stream, as
// cuGetProcAddress gives them out. They are the plain functions under a mark of the thread.
#pragma once

#include <string_view>

namespace gpuwire::softgpu {

// Null for a function that has no such variant: it takes no stream, and does not mean one.
void* per_thread_entry(std::string_view symbol);

}  // namespace gpuwire::softgpu
