// SPDX-License-Identifier: Apache-2.0
// The one connection of the process: made by the first call that needs the server, ended by the
// library's own end.
#pragma once

#include <cuda.h>

#include <string>

namespace gpuwire::shim {

// One thread connects, the others wait for its result. After a failure nothing is left behind and
// the next call tries anew.
CUresult need_connection();

// The same for a caller that can do without a server. The next call shares a failure that is
// younger than a second: a program that asks for the version and then initialises waits for one
// deadline, not two.
CUresult try_connection();

// The connection is lost: says so on stderr, once. Returns when the line is written, whichever thread wrote it, so that a
// program which ends at its first error ends after it.
void tell_connection_lost(const std::string& why);

// What the driver's cuInit said when the session opened; the session must be open.
CUresult initialise();

}  // namespace gpuwire::shim
