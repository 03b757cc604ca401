// SPDX-License-Identifier: Apache-2.0
// Copies to the device whose data came inside the command. The executor issues them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include "daemon/staging.hpp"
#include "daemon/stream_reference.hpp"

namespace gpuwire::daemon {

struct worker;

class inline_copies {
 public:
  explicit inline_copies(worker& w) : worker_(w) {}
  // Issues the copy; `data` may be reused on return.
  CUresult copy(CUdeviceptr destination, const std::byte* data, std::size_t bytes,
                const stream_reference& s);
  // The same for data that is more than one run of bytes on the device: `issue` issues the driver's copies from the given
  // place, which stays as it is until they are done.
  using issue_function = std::function<CUresult(const std::byte*)>;
  CUresult copy_staged(const std::byte* data, std::size_t bytes, const stream_reference& s,
                       const issue_function& issue);
  // A lane's thread, before it destroys a context: waits for the copies of that context.
  void settle(std::uint32_t context);

 private:
  struct busy_block {
    staging_block block;
    CUevent event = nullptr;
    std::uint32_t context = 0;
  };
  void recycle();

  worker& worker_;
  std::mutex mutex_;
  std::list<busy_block> busy_;
};

}  // namespace gpuwire::daemon
