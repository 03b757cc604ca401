// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies from pinned memory of the client to the device. At the copy's place in the
// stream lie, for each segment of it, a wait for a pinned word and a driver copy from the range's
// mirror. A bulk receive thread receives straight into the mirror and opens the word with a plain
// store: neither executor nor driver nor another stream takes part in the release.
//
// The client sends at once, or, where the memory's content is not known until the stream gets there
// (a host function may still fill it), when the daemon tells it that the stream has got there.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>

#include "daemon/mirrors.hpp"
#include "daemon/stream_reference.hpp"

namespace gpuwire::daemon {

struct worker;

struct upload {
  std::uint64_t sequence = 0;  // of the client's command, which the data names
  std::uint32_t lane = 0;
  std::shared_ptr<mirror> source;
  std::uint64_t offset = 0, bytes = 0;
  CUdeviceptr destination = 0;
  bool when_reached = false;
};

class uploads {
 public:
  explicit uploads(worker& w) : worker_(w) {}

  // Can streams of this context wait for words? The context is current.
  bool works(std::uint32_t context);
  // Executor, the stream's context current. Whatever comes out, the data will be received.
  CUresult issue(const upload& u, const stream_reference& s);
  // The copy will not take place; its data is thrown away.
  void refuse(const upload& u);

  // Returns when no copy from the range is outstanding; or none in the context, before it is
  // destroyed. Never on the executor.
  void settle_range(std::uint64_t range);
  void settle_context(std::uint32_t context);
  void context_gone(std::uint32_t context);

 private:
  struct outstanding {
    std::shared_ptr<mirror> source;
    CUevent event = nullptr;
    std::uint32_t context = 0;
  };
  struct told_when_reached;

  static void CUDA_CB tell(CUstream stream, CUresult result, void* data);
  static void tell_client(worker& w, std::uint64_t sequence, std::uint32_t lane);
  CUresult issue_segments(const upload& u, const stream_reference& s, CUdeviceptr word,
                          std::uint32_t before);
  void recycle();
  template <class Chosen>
  void settle(Chosen chosen);

  worker& worker_;
  std::mutex mutex_;
  std::list<outstanding> outstanding_;
};

}  // namespace gpuwire::daemon
