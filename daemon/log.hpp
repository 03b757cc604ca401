// SPDX-License-Identifier: Apache-2.0
// One line per event on a descriptor of its own (stderr in the main process, a copy of it in a
// worker, whose fd 2 belongs to device output): time, level, process, event, then key=value. Never
// a token, a session id or user data. Any thread; a line is one write.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace gpuwire::daemon {

enum class log_level { error = 0, warning, info, debug };

std::optional<log_level> parse_log_level(std::string_view name);
const char* log_level_name(log_level level);

struct log_field {
  std::string_view key;
  std::string value;
};

// `process` names the process in every line ("gpuwired", "worker 3").
void start_log(log_level level, int descriptor, std::string process);
bool log_enabled(log_level level);
void log(log_level level, std::string_view event, std::initializer_list<log_field> fields = {});

inline void log_error(std::string_view e, std::initializer_list<log_field> f = {}) {
  log(log_level::error, e, f);
}
inline void log_warning(std::string_view e, std::initializer_list<log_field> f = {}) {
  log(log_level::warning, e, f);
}
inline void log_info(std::string_view e, std::initializer_list<log_field> f = {}) {
  log(log_level::info, e, f);
}
inline void log_debug(std::string_view e, std::initializer_list<log_field> f = {}) {
  log(log_level::debug, e, f);
}

// The line without its end, for tests and for the writer.
std::string format_log_line(std::string_view time, log_level level, std::string_view process,
                            std::string_view event, std::initializer_list<log_field> fields);

}  // namespace gpuwire::daemon
