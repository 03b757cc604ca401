// SPDX-License-Identifier: Apache-2.0
#include "wire/error.hpp"

#include <string>

namespace gpuwire::wire {

const char* describe(error e) {
  switch (e) {
    case error::ok:
      return "no error";
    case error::not_resolved:
      return "the server's name could not be resolved";
    case error::refused_connection:
      return "the connection was refused";
    case error::timed_out:
      return "the deadline passed";
    case error::not_gpuwire:
      return "the peer does not speak gpuwire";
    case error::version_mismatch:
      return "the peer speaks another protocol version";
    case error::authentication_failed:
      return "authentication failed";
    case error::refused:
      return "the server refused the session";
    case error::connection_lost:
      return "the connection was lost";
    case error::protocol_violation:
      return "the peer broke the protocol";
    case error::limit_exceeded:
      return "a length is above its limit";
    case error::shut_down:
      return "the session was ended by this side";
    case error::system_failure:
      return "the operating system refused a resource";
  }
  return "an unknown error";
}

namespace {

class category final : public boost::system::error_category {
 public:
  const char* name() const noexcept override { return "gpuwire"; }
  std::string message(int value) const override { return describe(static_cast<error>(value)); }
};

}  // namespace

const boost::system::error_category& error_category() {
  static const category instance;
  return instance;
}

}  // namespace gpuwire::wire
