// SPDX-License-Identifier: Apache-2.0
#include "shim/logs.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/generated/error_table.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::size_t entries_max = 100;
constexpr std::size_t dump_bytes_max = 25600;  // what a dump to memory gives at most
constexpr std::string_view truncated = "[the oldest messages are not in this dump]\n";

struct log_callback {
  CUlogsCallback function = nullptr;
  void* data = nullptr;
};

// Never destroyed, like everything that a call during exit may need.
struct log_store {
  std::mutex mutex;  // for the entries and the list; never held while a callback runs
  std::deque<std::string> entries;  // each with its newline
  CUlogIterator first = 0;          // the number of entries.front()
  std::vector<std::shared_ptr<log_callback>> callbacks;

  CUlogIterator end() const { return first + static_cast<CUlogIterator>(entries.size()); }
};

log_store& store() {
  static auto* the_store = new log_store;
  return *the_store;
}

thread_local bool inside_callback = false;

std::string head() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  char text[64];
  std::snprintf(text, sizeof text, "[%02d:%02d:%02d.%03ld][%ld][CUDA][E] ", parts.tm_hour,
                parts.tm_min, parts.tm_sec, now.tv_nsec / 1'000'000, ::syscall(SYS_gettid));
  return text;
}

void tell_callbacks(std::vector<std::shared_ptr<log_callback>> callbacks, std::string message) {
  if (callbacks.empty() || inside_callback) return;
  inside_callback = true;
  for (const auto& callback : callbacks)
    callback->function(callback->data, CU_LOG_LEVEL_ERROR, message.data(), message.size());
  inside_callback = false;
}

// From the entry that `from` names, or from the oldest that is left; `lost` tells that there were
// older ones.
struct selection {
  std::string text;
  CUlogIterator end = 0;
  bool lost = false;
};

// At most `bytes`, the newest last.
selection select(const CUlogIterator* from, std::size_t bytes) {
  log_store& s = store();
  std::lock_guard lock(s.mutex);
  selection chosen;
  chosen.end = s.end();
  CUlogIterator wanted = from != nullptr ? *from : 0;
  if (wanted > chosen.end) wanted = chosen.end;
  CUlogIterator begin = std::max(wanted, s.first);
  std::size_t total = 0;
  for (CUlogIterator i = begin; i < chosen.end; ++i) total += s.entries[i - s.first].size();
  chosen.lost = begin > wanted;
  const auto room = [&] {
    const std::size_t taken = chosen.lost ? truncated.size() : 0;
    return bytes > taken ? bytes - taken : 0;
  };
  while (begin < chosen.end && total > room()) {
    total -= s.entries[begin - s.first].size();
    chosen.lost = true;
    ++begin;
  }
  for (CUlogIterator i = begin; i < chosen.end; ++i) chosen.text += s.entries[i - s.first];
  if (chosen.lost && !chosen.text.empty()) chosen.text.insert(0, truncated);
  return chosen;
}

}  // namespace

namespace detail {

void note_failure(const char* name, CUresult result) noexcept {
  try {
    const char* code = error_name(static_cast<int>(result));
    const std::string message = "Returning " + std::to_string(static_cast<int>(result)) + " (" +
                                (code != nullptr ? code : "?") + ") from " + name;
    log_store& s = store();
    std::vector<std::shared_ptr<log_callback>> callbacks;
    {
      std::lock_guard lock(s.mutex);
      s.entries.push_back(head() + message + "\n");
      if (s.entries.size() > entries_max) {
        s.entries.pop_front();
        ++s.first;
      }
      callbacks = s.callbacks;
    }
    tell_callbacks(std::move(callbacks), message);
  } catch (...) {
    // Without memory for a message the call's own result is what the program gets.
    return;
  }
}

}  // namespace detail

namespace custom {

CUresult cuLogsRegisterCallback(CUlogsCallback callbackFunc, void* userData,
                                CUlogsCallbackHandle* callback_out) {
  if (callbackFunc == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto callback = std::make_shared<log_callback>(log_callback{callbackFunc, userData});
  if (callback_out != nullptr)
    *callback_out = reinterpret_cast<CUlogsCallbackHandle>(callback.get());
  log_store& s = store();
  std::lock_guard lock(s.mutex);
  s.callbacks.push_back(std::move(callback));
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle callback) {
  log_store& s = store();
  std::lock_guard lock(s.mutex);
  const auto found = std::find_if(s.callbacks.begin(), s.callbacks.end(), [&](const auto& one) {
    return reinterpret_cast<CUlogsCallbackHandle>(one.get()) == callback;
  });
  if (found == s.callbacks.end()) return CUDA_ERROR_INVALID_VALUE;
  s.callbacks.erase(found);
  return CUDA_SUCCESS;
}

// The flags are reserved, and the driver does not look at them here.
CUresult cuLogsCurrent(CUlogIterator* iterator_out, unsigned int) {
  if (iterator_out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  log_store& s = store();
  std::lock_guard lock(s.mutex);
  *iterator_out = s.end();
  return CUDA_SUCCESS;
}

CUresult cuLogsDumpToFile(CUlogIterator* iterator, const char* pathToFile, unsigned int flags) {
  if (pathToFile == nullptr || *pathToFile == '\0' || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto chosen = select(iterator, ~std::size_t{0});
  std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(pathToFile, "w"), std::fclose);
  if (file == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::fwrite(chosen.text.data(), 1, chosen.text.size(), file.get()) != chosen.text.size())
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (iterator != nullptr) *iterator = chosen.end;
  return CUDA_SUCCESS;
}

CUresult cuLogsDumpToMemory(CUlogIterator* iterator, char* buffer, std::size_t* size,
                            unsigned int flags) {
  if (buffer == nullptr || size == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::size_t room = *size;
  *size = 0;
  if (room == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto chosen = select(iterator, std::min(room - 1, dump_bytes_max));
  buffer[0] = '\0';
  if (chosen.text.empty() && chosen.lost) return CUDA_ERROR_INVALID_VALUE;  // not one message fits
  std::memcpy(buffer, chosen.text.c_str(), chosen.text.size() + 1);
  *size = chosen.text.size();
  if (iterator != nullptr) *iterator = chosen.end;
  return CUDA_SUCCESS;
}

}  // namespace custom
}  // namespace gpuwire::shim
