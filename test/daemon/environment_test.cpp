// SPDX-License-Identifier: Apache-2.0
#include "daemon/environment.hpp"

#include <algorithm>

#include "daemon/worker_process.hpp"
#include "test/catch.hpp"

using namespace gpuwire::daemon;

namespace {
bool has(const std::vector<std::string>& environment, const std::string& entry) {
  return std::find(environment.begin(), environment.end(), entry) != environment.end();
}
bool has_name(const std::vector<std::string>& environment, const std::string& name) {
  return std::any_of(environment.begin(), environment.end(),
                     [&](const auto& e) { return e.rfind(name + "=", 0) == 0; });
}
}  // namespace

TEST_CASE("what redirects a process does not reach a worker") {
  const auto e = worker_environment({"PATH=/bin", "LD_LIBRARY_PATH=/shim", "LD_PRELOAD=/x.so",
                                     "GPUWIRE_SERVER=a:1", "CUDA_VISIBLE_DEVICES=1"},
                                    {}, "");
  CHECK(has(e, "PATH=/bin"));
  CHECK(has(e, "CUDA_VISIBLE_DEVICES=1"));
  CHECK_FALSE(has_name(e, "LD_LIBRARY_PATH"));
  CHECK_FALSE(has_name(e, "LD_PRELOAD"));
  CHECK_FALSE(has_name(e, "GPUWIRE_SERVER"));
}

TEST_CASE("a client decides the variables on the list, and only those") {
  const auto e =
      worker_environment({"CUDA_LAUNCH_BLOCKING=1"},
                         {{"CUDA_MODULE_LOADING", "EAGER"},
                          {"CUDA_VISIBLE_DEVICES", "3"},
                          {"CUDA_CACHE_PATH", "/etc"},
                          {"LD_PRELOAD", "/evil.so"},
                          {"CUDA_DISABLE_JIT", std::string("0\0LD_PRELOAD=/evil.so", 21)}},
                         "");
  CHECK(has(e, "CUDA_MODULE_LOADING=EAGER"));
  CHECK_FALSE(has_name(e, "CUDA_VISIBLE_DEVICES"));
  CHECK_FALSE(has_name(e, "CUDA_CACHE_PATH"));
  CHECK_FALSE(has_name(e, "LD_PRELOAD"));
  CHECK_FALSE(has_name(e, "CUDA_DISABLE_JIT"));
  CHECK_FALSE(has_name(e, "CUDA_LAUNCH_BLOCKING"));  // the daemon's own value is not the client's
}

TEST_CASE("workers get 32 connections to the device unless the client chose") {
  CHECK(has(worker_environment({}, {}, ""), "CUDA_DEVICE_MAX_CONNECTIONS=32"));
  const auto e = worker_environment({}, {{"CUDA_DEVICE_MAX_CONNECTIONS", "1"}}, "");
  CHECK(has(e, "CUDA_DEVICE_MAX_CONNECTIONS=1"));
  CHECK_FALSE(has(e, "CUDA_DEVICE_MAX_CONNECTIONS=32"));
}

TEST_CASE("the folder of the driver is where its companions are looked for") {
  CHECK(has(worker_environment({"LD_LIBRARY_PATH=/other"}, {}, "/opt/driver"),
            "LD_LIBRARY_PATH=/opt/driver"));
}

TEST_CASE("the arguments of a worker are read as they were written") {
  const auto written = to_arguments({"/lib/libcuda.so.1", log_level::debug, "12"});
  std::vector<const char*> argv{"gpuwired"};
  for (const auto& a : written) argv.push_back(a.c_str());
  worker_arguments read;
  REQUIRE(from_arguments(static_cast<int>(argv.size()), argv.data(), read));
  CHECK(read.driver_path == "/lib/libcuda.so.1");
  CHECK(read.level == log_level::debug);
  CHECK(read.number == "12");
  CHECK_FALSE(from_arguments(static_cast<int>(argv.size()) - 1, argv.data(), read));
}
