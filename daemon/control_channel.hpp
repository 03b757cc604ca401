// SPDX-License-Identifier: Apache-2.0
// What the main process tells a worker, over a SOCK_SEQPACKET pair: one small message each, at most
// one descriptor with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "daemon/descriptor.hpp"
#include "wire/server.hpp"

namespace gpuwire::daemon {

enum class control_kind : std::uint8_t {
  attach = 1,  // a connection of the session, its descriptor in the message
  end = 2,     // the daemon shuts down: end the session now
  tickets = 3,  // the channel for tickets, its descriptor in the message
};

struct control_message {
  control_kind kind{};
  wire::connection_role role{};
};

struct received_control {
  control_message message;
  descriptor connection;
};

enum class control_state { message, would_block, closed };

std::optional<std::pair<descriptor, descriptor>> make_control_pair();

// Packets of one fixed length, at most one descriptor with each. Never block; a packet of another length counts as closed.
bool send_packet(int channel, std::span<const std::byte> packet, int fd);
control_state receive_packet(int channel, std::span<std::byte> packet, descriptor& fd);

// Never blocks; false if the worker does not read any more.
bool send_control(int channel, const control_message& message, int fd = -1);

// Never blocks. Descriptors that come in are close-on-exec. A malformed message counts as closed.
control_state receive_control(int channel, received_control& out);

}  // namespace gpuwire::daemon
