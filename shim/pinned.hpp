// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies between the device and pinned memory of the program, which return at once.
// The server holds a mirror of a range from its first such copy of some size on. Bytes for the
// program come in beside its calls (wire/delivery_board.hpp) and are there before anything says
// that the copy is complete; bytes for the device are read by a thread of ours (gpuwire-upload),
// because the program may not change them until the stream has passed.
//
// Any thread.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "shim/entry.hpp"
#include "shim/memory.hpp"

namespace gpuwire::shim {

// Both: nothing if the copy is not one of these; the caller then takes the way that waits.
std::optional<CUresult> deliver_to_pinned(void* destination, CUdeviceptr source, std::size_t bytes,
                                          const stream_target& target);
std::optional<CUresult> upload_from_pinned(CUdeviceptr destination, const void* source,
                                           std::size_t bytes, const stream_target& target);

// Until all is done that the stream holds now.
CUresult wait_for_stream(const stream_target& target);

// Whether the content of this memory is still being decided by what was given to the GPU before: a
// copy or a host function may write to it. Then it may be read only when the stream has got there.
bool is_still_written(const void* memory, std::size_t bytes);
// Uploads whose data has not been sent. A transfer whose caller waits could then be in their way.
bool uploads_pending();

// A place inside of the mirror of a pinned range; the mirror is made if there is none.
struct mirror_place {
  std::uint64_t range = 0, offset = 0;
  bool at_client_address = false;
  bool takes_uploads = false;  // the server's streams can wait for data
};
std::optional<mirror_place> mirror_of(const void* memory, std::size_t bytes);
// The range is about to go: waits for the copies that use it, and drops its mirror.
void release_mirror(const memory_range& range);

// Side thread: the stream has got to the copy with this sequence.
void take_upload_wanted(std::uint64_t sequence);

}  // namespace gpuwire::shim
