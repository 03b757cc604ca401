// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace gpuwire::daemon {
namespace {

struct log_state {
  log_level level = log_level::info;
  int descriptor = STDERR_FILENO;
  std::string process = "gpuwired";
};

// Written once before any other thread starts; leaked so that a thread that outlives main can still
// write.
log_state& state() {
  static auto* instance = new log_state;
  return *instance;
}

std::string now_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     now.tv_nsec / 1'000'000);
}

bool is_plain(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || c == 0x7f) return false;
  }
  return true;
}

void append_value(std::string& line, std::string_view value) {
  if (is_plain(value)) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (line += '\\') += c;
    else if (byte < ' ' || byte == 0x7f)
      line += fmt::format("\\x{:02x}", byte);  // what a peer sent must not forge a line
    else
      line += c;
  }
  line += '"';
}

}  // namespace

std::optional<log_level> parse_log_level(std::string_view name) {
  for (const auto level :
       {log_level::error, log_level::warning, log_level::info, log_level::debug}) {
    if (name == log_level_name(level)) return level;
  }
  return std::nullopt;
}

const char* log_level_name(log_level level) {
  switch (level) {
    case log_level::error:
      return "error";
    case log_level::warning:
      return "warning";
    case log_level::info:
      return "info";
    case log_level::debug:
      return "debug";
  }
  return "unknown";
}

void start_log(log_level level, int descriptor, std::string process) {
  state() = {level, descriptor, std::move(process)};
}

bool log_enabled(log_level level) {
  return level <= state().level;
}

std::string format_log_line(std::string_view time, log_level level, std::string_view process,
                            std::string_view event, std::initializer_list<log_field> fields) {
  auto line = fmt::format("{} {:<7} {}: {}", time, log_level_name(level), process, event);
  for (const auto& field : fields) {
    (line += ' ') += field.key;
    line += '=';
    append_value(line, field.value);
  }
  return line;
}

void log(log_level level, std::string_view event, std::initializer_list<log_field> fields) {
  if (!log_enabled(level)) return;
  auto line = format_log_line(now_text(), level, state().process, event, fields);
  line += '\n';
  const char* at = line.data();
  auto left = line.size();
  while (left > 0) {
    const auto written = ::write(state().descriptor, at, left);
    if (written <= 0) return;  // a log that cannot be written must not stop the service
    at += written;
    left -= static_cast<std::size_t>(written);
  }
}

}  // namespace gpuwire::daemon
