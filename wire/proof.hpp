// SPDX-License-Identifier: Apache-2.0
// The cryptography of the handshake: random challenges and proofs that a token is known. No token ever leaves this border
// in another form than a proof.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace gpuwire::wire {

using nonce = std::array<std::uint8_t, 32>;
using proof = std::array<std::uint8_t, 32>;

enum class prover { client, server };  // both ends prove with different words, so that none can be sent back

// HMAC-SHA256 under the token over the prover's name, the protocol version and both challenges.
// Nothing if the cryptographic library cannot do it.
std::optional<proof> make_proof(std::string_view token, prover who, std::uint32_t version,
                                const nonce& server, const nonce& client);
bool same_proof(const proof& a, const proof& b);  // in constant time

[[nodiscard]] bool fill_random(std::span<std::uint8_t> out);  // from the kernel

}  // namespace gpuwire::wire
