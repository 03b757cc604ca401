// SPDX-License-Identifier: Apache-2.0
// What can go wrong with the transport and the protocol. The driver's own answers are no errors of this kind: they travel
// inside replies.
#pragma once

#include <boost/system/error_code.hpp>

namespace gpuwire::wire {

enum class error : int {
  ok = 0,
  not_resolved,           // the name of the server has no address
  refused_connection,     // nobody listens there, or the way is closed
  timed_out,              // a deadline passed without an answer
  not_gpuwire,            // the peer speaks something else
  version_mismatch,       // the peer speaks another version of the protocol
  authentication_failed,  // one side could not prove that it knows the token
  refused,                // the server said no, with a reason
  connection_lost,        // an established session broke
  protocol_violation,     // the peer sent something that the protocol does not allow
  limit_exceeded,         // a length above its named limit
  shut_down,              // this end said goodbye
  system_failure,         // the operating system refused a thread, memory or a descriptor
};

const char* describe(error e);  // a short phrase; never null

const boost::system::error_category& error_category();
inline boost::system::error_code make_error_code(error e) {
  return {static_cast<int>(e), error_category()};
}

}  // namespace gpuwire::wire

template <>
struct boost::system::is_error_code_enum<gpuwire::wire::error> : std::true_type {};
