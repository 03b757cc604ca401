// SPDX-License-Identifier: Apache-2.0
#include "daemon/log.hpp"

#include "test/catch.hpp"

using namespace gpuwire::daemon;

TEST_CASE("a log line is time, level, process, event and fields") {
  CHECK(format_log_line("T", log_level::info, "gpuwired", "session started",
                        {{"session", "1"}, {"peer", "[::1]:7"}}) ==
        "T info    gpuwired: session started session=1 peer=[::1]:7");
}

TEST_CASE("what a peer sent cannot forge a line or a field") {
  CHECK(format_log_line("T", log_level::warning, "w", "e",
                        {{"program", "a b=\"c\"\nT error"}, {"x", ""}}) ==
        "T warning w: e program=\"a b=\\\"c\\\"\\x0aT error\" x=\"\"");
}

TEST_CASE("levels are read by their names") {
  CHECK(parse_log_level("debug") == log_level::debug);
  CHECK(parse_log_level("error") == log_level::error);
  CHECK_FALSE(parse_log_level("DEBUG"));
  CHECK_FALSE(parse_log_level(""));
}
