// SPDX-License-Identifier: Apache-2.0
// What surrounds the body of every exported function: is the driver initialised, is there a usable
// context, and no C++ exception leaves the library.
//
// A body refuses a call by throwing `refusal` (or by returning the code); look-ups of handles do so
// for it.
#pragma once

#include <atomic>
#include <memory>
#include <new>

#include "cuda_api.hpp"

namespace gpuwire::softgpu {

class context;

struct refusal {
  CUresult code;
};

[[noreturn]] inline void refuse(CUresult code) {
  throw refusal{code};
}
inline void require(bool condition, CUresult code = CUDA_ERROR_INVALID_VALUE) {
  if (!condition) throw refusal{code};
}

enum class process_state { fresh, ready, forked };
extern std::atomic<process_state> driver_state;

// True on a thread that runs a host function: CUDA refuses API calls there.
extern thread_local bool inside_host_function;

// The calling thread's current context; refuses with 201 when there is none, 709 when it was
// destroyed, and with the sticky error of a context that a kernel has broken.
std::shared_ptr<context> usable_context();
// The same without the check for a sticky error.
std::shared_ptr<context> live_context();

template <typename Body>
CUresult guarded(Body&& body) noexcept {
  try {
    return body();
  } catch (const refusal& refused) {
    return refused.code;
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (...) {
    return CUDA_ERROR_UNKNOWN;
  }
}

template <typename Body>
CUresult initialised(Body&& body) noexcept {
  if (driver_state.load(std::memory_order_acquire) != process_state::ready) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  return guarded(body);
}

// `body` takes context&; it runs only with a current context that no error has broken.
template <typename Body>
CUresult with_context(Body&& body) noexcept {
  return initialised([&] {
    auto current = usable_context();
    return body(*current);
  });
}

}  // namespace gpuwire::softgpu
