// SPDX-License-Identifier: Apache-2.0
// Catch2 in either of its generations: Debian 12 has version 2, Ubuntu 24.04 version 3.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
