// SPDX-License-Identifier: Apache-2.0
#include "shim/nvml/question.hpp"

#include <mutex>
#include <set>
#include <string>

#include "shim/log.hpp"

namespace gpuwire::nvml {

bool question::send() {
  if (early_ != NVML_SUCCESS) {
    result_ = early_;
    return false;
  }
  body_.pad();
  result_ = ask(call_, body_.bytes(), answer_);
  if (result_ != NVML_SUCCESS) return false;
  result_ = answer_.result;
  decoder_ = wire::decoder(answer_.body.data(), answer_.body.size());
  if (answer_.body.empty()) return false;  // the server answered without calling its library
  bool called = false;
  decoder_(called);
  return good() && called;
}

const char* kept_text(std::string_view text) {
  static auto* mutex = new std::mutex;
  static auto* kept = new std::set<std::string, std::less<>>;
  constexpr std::size_t kept_max = 4096;  // a server cannot make the process grow without end
  std::lock_guard lock(*mutex);
  const auto found = kept->find(text);
  if (found != kept->end()) return found->c_str();
  return kept->size() < kept_max ? kept->emplace(text).first->c_str() : "";
}

std::int32_t refuse(const char* name) {
  if (!initialised()) return NVML_ERROR_UNINITIALIZED;
  static auto* mutex = new std::mutex;
  static auto* told = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (told->insert(name).second) shim::log_debug("{} is not carried", name);
  return NVML_ERROR_NOT_SUPPORTED;
}

}  // namespace gpuwire::nvml
