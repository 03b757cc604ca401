// SPDX-License-Identifier: Apache-2.0
// Copies of host memory that travels in chunks on the bulk connections. What one chunk becomes on the device is the caller's.
#pragma once

#include <cstdint>
#include <functional>

#include "daemon/call_context.hpp"

namespace gpuwire::daemon {

// Issues the driver's copy of `bytes` bytes at `offset` of the transfer, between the device and `data`, in the transfer's
// stream. The lane's thread calls it with the stream's context current.
using chunk_copy =
    std::function<CUresult(std::uint64_t offset, std::byte* data, std::uint64_t bytes)>;

// Takes the command's bulk data, whatever comes of it, and answers when the last chunk was issued. Its reply has no fields.
// `refusal` is an answer that is known already.
outcome receive_in_chunks(call_context& c, std::uint64_t stream, std::uint64_t bytes,
                          chunk_copy issue, CUresult refusal);

// Sends `bytes` bytes of the device on the bulk connections and answers after the last; the reply's data stays empty.
outcome send_in_chunks(call_context& c, const stream_reference& s, std::uint64_t bytes,
                       chunk_copy issue);

// One copy of up to the limit of replies, answered when the GPU is done: the reply's data are the bytes.
outcome send_in_reply(call_context& c, const stream_reference& s, std::uint64_t bytes,
                      const chunk_copy& issue);

}  // namespace gpuwire::daemon
