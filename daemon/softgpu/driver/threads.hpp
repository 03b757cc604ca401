// SPDX-License-Identifier: Apache-2.0
// The library's own threads.
#pragma once

#include <functional>

namespace gpuwire::softgpu {

// Starts a detached thread on which no signal of the application is handled. The name is at most 15
// characters.
void start_thread(const char* name, std::function<void()> body);

}  // namespace gpuwire::softgpu
