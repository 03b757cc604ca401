// SPDX-License-Identifier: Apache-2.0
// The links of a session. A link is used by one thread at a time, and lives until nobody uses it
// even if another lane destroys it meanwhile.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "daemon/jit_options.hpp"

namespace gpuwire::daemon {

struct link_state {
  std::mutex mutex;  // for everything below
  jit_options options;
  CUlinkState native = nullptr;
};

class link_table {
 public:
  std::uint64_t add(std::shared_ptr<link_state> link);  // 0: there are too many
  std::shared_ptr<link_state> find(std::uint64_t id) const;
  std::shared_ptr<link_state> remove(std::uint64_t id);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<link_state>> links_;
  std::uint32_t next_ = 1;
};

}  // namespace gpuwire::daemon
