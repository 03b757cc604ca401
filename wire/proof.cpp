// SPDX-License-Identifier: Apache-2.0
#include "wire/proof.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cerrno>
#include <vector>

namespace gpuwire::wire {
namespace {

// The library may live inside somebody else's program: no configuration file is read and no exit
// handler left behind.
void prepare_library() {
  static const int done =
      OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  static_cast<void>(done);
}

}  // namespace

std::optional<proof> make_proof(std::string_view token, prover who, std::uint32_t version,
                                const nonce& server, const nonce& client) {
  prepare_library();
  const std::string_view name = who == prover::client ? "gpuwire client" : "gpuwire server";
  std::vector<std::uint8_t> text(name.begin(), name.end());
  for (int shift = 0; shift < 32; shift += 8)
    text.push_back(static_cast<std::uint8_t>(version >> shift));
  text.insert(text.end(), server.begin(), server.end());
  text.insert(text.end(), client.begin(), client.end());
  proof result{};
  unsigned bytes = 0;
  if (!HMAC(EVP_sha256(), token.data(), static_cast<int>(token.size()), text.data(), text.size(),
            result.data(), &bytes) ||
      bytes != result.size()) {
    return {};
  }
  return result;
}

bool same_proof(const proof& a, const proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool fill_random(std::span<std::uint8_t> out) {
  while (!out.empty()) {
    const auto n = getrandom(out.data(), out.size(), 0);
    if (n > 0) {
      out = out.subspan(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace gpuwire::wire
