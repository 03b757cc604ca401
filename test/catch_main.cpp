// SPDX-License-Identifier: Apache-2.0
// main() of every Catch2 program. Version 3 brings its own in a library; version 2 wants it compiled once.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#endif
#include "test/catch.hpp"
