// SPDX-License-Identifier: Apache-2.0
// The virtual handles of one kind: the number a client holds, the driver's pointer behind it. A
// number is only ever an index into this table; kind and generation must agree, or it is nobody's.
// Looking up takes no lock, because every command does it; changing takes a short one.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "daemon/limits.hpp"
#include "wire/handle.hpp"

namespace gpuwire::daemon {

// What an entry depends on: it disappears with its context (an index) and with its parent (an
// image's handle).
struct handle_owner {
  std::uint32_t context = 0;
  wire::handle_id parent = 0;
};

class handle_table {
 public:
  struct record {
    void* native = nullptr;
    std::uint32_t context = 0;
  };

  handle_table(std::uint8_t kind, std::uint32_t first_index = 1);
  ~handle_table();
  handle_table(const handle_table&) = delete;
  handle_table& operator=(const handle_table&) = delete;

  // Nothing: wrong kind, index out of bounds, stale, or never made.
  std::optional<record> find(wire::handle_id id) const;
  // Was this number valid once? Then the driver would call it destroyed.
  bool is_stale(wire::handle_id id) const;

  // The handle of `native`; a new one when it has none. 0 when the table is full.
  wire::handle_id mint(void* native, const handle_owner& owner = {});
  // For handles that the client chose. False: out of bounds, wrong kind, or the index is taken. A
  // null `native` holds the place of a creation that failed: it is never found.
  bool place(wire::handle_id id, void* native, const handle_owner& owner = {});
  // Sets the entry of a fixed index (primary contexts), replacing what was there.
  wire::handle_id place_at(std::uint32_t index, void* native);

  std::optional<record> remove(wire::handle_id id);
  // Undoes the remove() of an entry whose object the driver refused to destroy. Nothing if the index has
  // a new life already.
  void put_back(wire::handle_id id, void* native, const handle_owner& owner = {});
  // Removes what belongs to a context or an image; returns the driver's pointers.
  std::vector<void*> remove_context(std::uint32_t context);
  std::vector<void*> remove_parent(wire::handle_id parent);
  // The same; returns the handles.
  std::vector<wire::handle_id> remove_family(wire::handle_id parent);

  // The handle of a driver's object that has one; else 0. Looks through the table when the client chose the handle.
  wire::handle_id id_of(const void* native) const;
  // The image that a live entry depends on; 0 when none.
  wire::handle_id parent_of(wire::handle_id id) const;

  // By index alone, for the context in a frame header.
  std::optional<record> find_index(std::uint32_t index) const;
  std::size_t size() const;

 private:
  struct entry {
    std::atomic<std::uint32_t> tag{0};  // generation << 1 | live; readers check it before and after
    std::atomic<void*> native{nullptr};
    std::atomic<std::uint32_t> context{0};
    wire::handle_id parent = 0;  // under the mutex
    bool held = false;           // under the mutex: live, or the place of a failed creation
  };
  static constexpr std::uint32_t chunk_entries = 1024;
  using chunk = std::array<entry, chunk_entries>;

  entry* at(std::uint32_t index) const;
  entry* make(std::uint32_t index);
  std::optional<record> read(const entry& e, std::uint32_t generation) const;
  void fill(entry& e, std::uint32_t generation, void* native, const handle_owner& owner);
  void* clear(std::uint32_t index, entry& e);

  const std::uint8_t kind_;
  const std::uint32_t first_index_;
  std::array<std::atomic<chunk*>, limits::handle_index_end / chunk_entries> chunks_{};
  mutable std::mutex mutex_;
  std::uint32_t next_index_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<void*, wire::handle_id> by_native_;
  std::size_t size_ = 0;
};

}  // namespace gpuwire::daemon
