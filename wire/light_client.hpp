// SPDX-License-Identifier: Apache-2.0
// The calling end of a light connection: one socket, no thread, one question at a time. For
// questions about the server that need no session of their own.
//
// Any thread may ask; threads wait for one another. Nothing here throws; nothing knows what the
// questions mean.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "wire/client.hpp"
#include "wire/endpoint.hpp"
#include "wire/error.hpp"

namespace gpuwire::wire {

class light_client {
 public:
  struct options {
    endpoint server;
    std::string token;
    std::chrono::milliseconds connect_deadline{10'000};
    std::uint64_t process_key = 0;
  };
  struct answer {
    std::int32_t result = 0;
    std::vector<std::byte> body;
  };

  static std::variant<std::unique_ptr<light_client>, connect_failure> connect(options o);
  virtual ~light_client() = default;

  // `body` is a multiple of 8 bytes. After an error every later question gives the same error.
  virtual error ask(std::uint16_t call, std::uint32_t fingerprint, std::span<const std::byte> body,
                    answer& out) = 0;
  virtual void
  abandon() = 0;  // child of fork: forgets the socket without a word to the peer; takes no lock
  virtual const std::string& state_text() const = 0;  // why the connection ended; after an error
};

}  // namespace gpuwire::wire
