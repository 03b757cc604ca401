// SPDX-License-Identifier: Apache-2.0
// Everything the shim knows about this process, in one object that is made when it is first needed
// and never destroyed: calls during exit are answered as before. Each part says who may touch it.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/credits.hpp"
#include "shim/flat_table.hpp"
#include "shim/interval_map.hpp"
#include "wire/client.hpp"
#include "wire/handle.hpp"

namespace gpuwire::shim {

struct image_record;    // images.hpp
struct kernel_record;   // images.hpp
struct exec_memory;     // graph_memory.hpp
class context_storage;  // context_storage.hpp

// A device of the server, as it was described when the session opened. Immutable.
struct device_record {
  int server_ordinal = 0;
  std::string name, pci_bus_id;
  std::array<std::uint8_t, 16> uuid{}, uuid_v2{};
  std::uint64_t total_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  std::vector<std::int32_t> attribute_results, attribute_values;  // overrides already applied

  int attribute(int number) const {  // 0 for one that the driver does not know
    const auto n = static_cast<std::size_t>(number);
    return n < attribute_values.size() && attribute_results[n] == 0 ? attribute_values[n] : 0;
  }
};

// Primary contexts have the server's index device + 1 and live as long as the process; explicit
// ones come and go.
struct context_record {
  std::atomic<wire::handle_id> id{0};  // 0: no such context
  std::uint32_t index = 0;
  int device = 0;  // ordinal as the program counts
  bool primary = false;
  std::atomic<bool> active{false};  // primary only: retained and not reset since
  std::atomic<int> flags{-1};       // primary only: -1 while nobody asked the server
  std::mutex primary_mutex;  // held across the calls that activate and release a primary context
  std::atomic<int> attached{0};  // explicit only: cuCtxAttach without its cuCtxDetach
  std::atomic<int> sticky{0};    // CUresult that every later call in this context returns
  std::atomic<context_storage*> storage{nullptr};
  stream_credit legacy;  // of the legacy default stream
  std::atomic<std::uint64_t> idle_at{0};  // see known_idle() in entry.hpp
};

struct stream_record {
  std::atomic<wire::handle_id> id{0};
  std::atomic<std::uint32_t> context{0};
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t green = 0;  // the green context that it was made in, or 0
  stream_credit credit;
};

struct event_record {
  std::atomic<wire::handle_id> id{0};
  std::atomic<std::uint32_t> context{0};
  unsigned flags = 0;
};

// An executable graph.
struct exec_record {
  std::atomic<wire::handle_id> id{0};
  bool watched = false;  // the driver may refuse a launch, so it is called
  std::atomic<exec_memory*> memory{nullptr};  // of the program, if it copies from or to any; never freed
};

// pool: of stream-ordered allocation; graph: allocated by a graph, alive only while the graph says so;
// mapped: an allocation in a range that the program reserved; shared: opened from another process.
enum class memory_kind : std::uint8_t { device, global, pinned, registered, managed, pool, graph, mapped, shared };

// Of pinned and registered memory: see direct_memory.hpp.
enum class direct_access : std::uint8_t { none, granted, refused };

struct memory_entry {
  memory_kind kind = memory_kind::device;
  direct_access direct = direct_access::none;
  std::uint32_t context = 0;
  int device = 0;
  unsigned flags = 0;       // host memory: as the program passed them; mapped: a bit for each device that may write
  std::uint64_t owner = 0;  // global: the image it belongs to; pool: the pool, 0 the device's current one
  std::uint64_t buffer_id = 0;
};

// What the daemon and other threads may say about one client thread. Never freed: a late push finds
// it.
struct lane_record {
  std::atomic<int> error{0};  // CUresult of a posted command, not reported yet
  std::atomic<std::uint32_t> error_context{0};
  std::mutex mutex;  // for the list below; the owning thread reads without it
  std::vector<std::pair<std::uint32_t, std::unique_ptr<stream_credit>>>
      per_thread_streams;  // by context
};

// Ids that the client chooses: an index that is free and a generation that tells its lives apart.
class handle_minter {
 public:
  explicit handle_minter(std::uint8_t kind) : kind_(kind) {}
  wire::handle_id mint();  // 0: the table is full
  std::uint32_t end();     // one more than the highest index ever given out
  void give_back(wire::handle_id id);

 private:
  std::mutex mutex_;
  std::vector<std::pair<std::uint32_t, std::uint16_t>> free_;  // index, generation of its next life
  std::uint32_t next_ = 1;
  std::uint8_t kind_;
};

struct statistics {
  std::atomic<std::uint64_t> entered{0}, cached_answers{0}, credit_waits{0};
};

struct process_state {
  // Set once by the thread that connects, before the phase says so.
  std::unique_ptr<wire::client> client;
  std::vector<device_record> devices;  // those the program sees, in its order
  int driver_version = 0;
  int init_result = 0;
  std::string server_name;

  flat_table<context_record> contexts;
  flat_table<stream_record> streams;
  flat_table<event_record> events;
  flat_table<kernel_record> kernels, functions;
  flat_table<image_record> modules, libraries;
  flat_table<exec_record> execs;
  flat_table<lane_record> lanes;
  std::atomic<unsigned> captures{0};  // of streams, in the whole process
  std::atomic<std::uint32_t> lanes_minted{0};
  handle_minter stream_ids{3}, event_ids{4};
  interval_map<memory_entry> memory;
  std::atomic<std::uint64_t> buffer_ids{0};
  credit_desk credits;
  statistics counts;
};

process_state& state();

}  // namespace gpuwire::shim
