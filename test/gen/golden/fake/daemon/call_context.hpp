// SPDX-License-Identifier: Apache-2.0
// What generated dispatch needs of the daemon, without a daemon. A handle's id is its native value
// plus 1000.
#pragma once

#include <toy.h>

#include <cstdint>
#include <vector>

#include "daemon/generated/driver_table.hpp"
#include "daemon/generated/kinds.hpp"
#include "wire/codec.hpp"

namespace gpuwire::daemon {

enum class outcome { answered, malformed };

class call_context {
 public:
  static inline driver_table table;
  static inline std::vector<std::uint64_t> released;

  toyResult result{};
  std::vector<std::uint64_t> reply;

  const driver_table& driver() const { return table; }
  outcome malformed() { return outcome::malformed; }
  bool failed() const { return failed_; }
  toyResult failure() const { return TOY_INVALID; }

  template <class Call>
  outcome finish(toyResult r, const typename Call::reply& body) {
    result = r;
    reply.assign(wire::encoded_bytes(body) / 8, 0);
    wire::encoder e(reinterpret_cast<std::byte*>(reply.data()), reply.size() * 8);
    wire::encode_into(body, e);
    return outcome::answered;
  }

  template <handle_kind Kind>
  auto native(std::uint64_t id) {
    if (id > 2 && id < 1000) failed_ = true;
    return reinterpret_cast<typename native_type<Kind>::type>(id < 1000 ? id : id - 1000);
  }
  toyQueue queue(std::uint64_t id) { return native<handle_kind::queue>(id); }
  template <handle_kind Kind>
  std::uint64_t mint(typename native_type<Kind>::type native) {
    return reinterpret_cast<std::uint64_t>(native) + 1000;
  }
  template <handle_kind Kind>
  void release(std::uint64_t id) {
    released.push_back(id);
  }

 private:
  bool failed_ = false;
};

}  // namespace gpuwire::daemon
