// SPDX-License-Identifier: Apache-2.0
#include "daemon/credits.hpp"

namespace gpuwire::daemon {

bool credit_ledger::count(const credit_key& key, std::uint64_t bytes) {
  if (last_ == nullptr || !(key == last_key_)) {
    last_ = &accounts_[key];  // elements of an unordered_map stay where they are
    last_key_ = key;
  }
  auto& a = *last_;
  ++a.operations;
  a.bytes += bytes;
  unmarked_bytes_ += bytes;
  return a.operations - a.marked_operations >= limits::credit_operations ||
         a.bytes - a.marked_bytes >= limits::credit_stream_bytes;
}

std::vector<credit_key> credit_ledger::streams_with_unmarked_bytes() const {
  std::vector<credit_key> result;
  for (const auto& [key, a] : accounts_) {
    if (a.bytes != a.marked_bytes) result.push_back(key);
  }
  return result;
}

credit_ledger::account credit_ledger::mark(const credit_key& key) {
  auto& a = accounts_[key];
  unmarked_bytes_ -= a.bytes - a.marked_bytes;
  a.marked_operations = a.operations;
  a.marked_bytes = a.bytes;
  return a;
}

void credit_ledger::forget(const credit_key& key) {
  const auto found = accounts_.find(key);
  if (found == accounts_.end()) return;
  unmarked_bytes_ -= found->second.bytes - found->second.marked_bytes;
  accounts_.erase(found);
  last_ = nullptr;
}

void credit_ledger::forget_context(std::uint32_t context) {
  std::vector<credit_key> gone;
  for (const auto& [key, a] : accounts_) {
    if (context != 0 && key.context == context) gone.push_back(key);
  }
  for (const auto& key : gone) forget(key);
}

void credit_ledger::forget_lane(std::uint32_t lane) {
  std::vector<credit_key> gone;
  for (const auto& [key, a] : accounts_) {
    if (lane != 0 && key.lane == lane) gone.push_back(key);
  }
  for (const auto& key : gone) forget(key);
}

}  // namespace gpuwire::daemon
