// SPDX-License-Identifier: Apache-2.0
// One question of a client to its answer. The thread of the connection.
#pragma once

#include "daemon/nvml/answer.hpp"
#include "wire/light_server.hpp"

namespace gpuwire::nvml {

// False: the question was malformed, the connection ends.
bool answer_question(client_of_helper& client, const wire::light_question& q,
                     wire::light_answer& a);

// The client is gone: what it made is given back to the library.
void release(client_of_helper& client);

}  // namespace gpuwire::nvml
