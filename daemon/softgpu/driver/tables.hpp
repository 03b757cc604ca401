// SPDX-License-Identifier: Apache-2.0
// The tables of streams and events, and how a stream argument is understood.
#pragma once

#include <memory>

#include "context.hpp"
#include "handles.hpp"
#include "stream.hpp"

namespace gpuwire::softgpu {

using stream_table = handle_table<stream, CUstream, handle_kind::stream>;
using event_table = handle_table<event, CUevent, handle_kind::event>;
stream_table& streams_table();
event_table& events();

// Set while the thread is in a function for which stream 0 is its own.
extern thread_local bool null_stream_is_own;
// What the functions without a stream argument use.
std::shared_ptr<stream> default_stream(context& current);

// A stream of the caller: 0 and 1 are the current context's legacy stream, 2 the thread's own
// default stream in it. Refuses with 400, with the sticky error of the stream's context, or with
// 201 for 0, 1, 2 without a context.
std::shared_ptr<stream> stream_of(CUstream handle);
// The same, but a broken context is no reason to refuse.
std::shared_ptr<stream> any_stream_of(CUstream handle);
std::shared_ptr<event> event_of(CUevent handle);

}  // namespace gpuwire::softgpu
