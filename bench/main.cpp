// SPDX-License-Identifier: Apache-2.0
// gpuwire-bench: in one run and interleaved, what loopback TCP can do here and what the driver API costs over it. Each round
// measures every quantity once, so that a neighbour on the machine disturbs both sides of a ratio.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/driver.hpp"
#include "bench/raw_tcp.hpp"
#include "bench/report.hpp"

namespace gpuwire::bench {
namespace {

using clock_type = std::chrono::steady_clock;

struct settings {
  int pairs = 9;
  std::size_t calls = 4'000;
  std::size_t posts = 1'024;
  std::size_t megabytes = 256;
  bool json = false;
};

double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

struct reduced {
  double best = 0, median = 0;
};

reduced reduce(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

// The cost of one posted command in three ways of use.
struct posting {
  quantity &issue, &drained, &paced;

  posting(report& r, const char* what)
      : issue(r.add(fmt::format("posted: {}, back to back, issue only (mean)", what), "us", better::lower)),
        drained(r.add(fmt::format("posted: {}, back to back, drained (mean)", what), "us", better::lower)),
        paced(r.add(fmt::format("posted: {}, paced at 10 us, issue only (mean)", what), "us", better::lower)) {
    issue.limit = 0.5;
  }

  // Back to back in batches that a stream takes without making the program wait for the GPU, which is drained in between:
  // the issue time is what the program pays, the drained time includes the wait.
  void measure(driver& gpu, const std::function<void()>& post, std::size_t count) {
    constexpr std::size_t batch = 256;
    double issue_seconds = 0, drained_seconds = 0;
    std::size_t done = 0;
    for (; done < count; done += batch) {
      gpu.synchronise();
      const auto begin = clock_type::now();
      for (std::size_t i = 0; i < batch; ++i) post();
      issue_seconds += seconds_since(begin);
      gpu.synchronise();
      drained_seconds += seconds_since(begin);
    }
    issue.rounds.push_back(issue_seconds * 1e6 / static_cast<double>(done));
    drained.rounds.push_back(drained_seconds * 1e6 / static_cast<double>(done));

    using namespace std::chrono_literals;
    double paced_seconds = 0;
    auto next = clock_type::now();
    for (std::size_t i = 0; i < count; ++i) {
      while (clock_type::now() < next) {
      }
      const auto begin = clock_type::now();
      post();
      paced_seconds += seconds_since(begin);
      next = std::max(next + 10us, begin);
    }
    gpu.synchronise();
    paced.rounds.push_back(paced_seconds * 1e6 / static_cast<double>(count));
  }
};

class benchmark {
 public:
  benchmark(report& r, const settings& s)
      : settings_(s),
        bytes_(s.megabytes << 20),
        raw_best_(r.add("raw TCP: round trip of 64 bytes, spinning (best)", "us", better::lower)),
        raw_median_(r.add("raw TCP: round trip of 64 bytes, spinning (median)", "us", better::lower)),
        called_best_(r.add("called: cuMemGetInfo (best)", "us", better::lower)),
        called_median_(r.add("called: cuMemGetInfo (median)", "us", better::lower)),
        launch_(r, "cuLaunchKernel"),
        memset_(r, "cuMemsetD32Async"),
        record_(r, "cuEventRecord"),
        raw_gigabytes_{&throughput(r, "raw TCP: 1 connection"), &throughput(r, "raw TCP: 2 connections"),
                       &throughput(r, "raw TCP: 4 connections")},
        memcpy_gigabytes_(throughput(r, "memcpy")),
        ceiling_(throughput(r, "raw TCP with 1 connection, then memcpy")),
        to_device_(throughput(r, "cuMemcpyHtoD, pageable")),
        from_device_(throughput(r, "cuMemcpyDtoH, pageable")),
        source_(bytes_, 7),
        target_(bytes_, 1),
        raw_throughput_{raw_throughput(1, source_, target_), raw_throughput(2, source_, target_),
                        raw_throughput(4, source_, target_)} {
    gpu_.reserve(bytes_);
    r.note("device", gpu_.device_name());
    r.note("driver library", gpu_.library_path());
    r.note("rounds", fmt::format("{}, each with {} calls, {} posts of each kind, copies of {} MiB", s.pairs, s.calls, s.posts,
                                 s.megabytes));
    r.add({"called / raw round trip (best)", &called_best_, &raw_best_, better::lower, 1.3});
    r.add({"called / raw round trip (median)", &called_median_, &raw_median_, better::lower, 0});
    r.add({"cuMemcpyHtoD / (raw TCP, then memcpy)", &to_device_, &ceiling_, better::higher, 0.8});
    r.add({"cuMemcpyDtoH / (raw TCP, then memcpy)", &from_device_, &ceiling_, better::higher, 0.8});
    r.add({"cuMemcpyHtoD / raw TCP, 1 connection", &to_device_, raw_gigabytes_[0], better::higher, 0});
    r.add({"cuMemcpyDtoH / raw TCP, 1 connection", &from_device_, raw_gigabytes_[0], better::higher, 0});
  }

  void warm_up() {
    for (int i = 0; i < 200; ++i) gpu_.called_us();
    gpu_.launch();
    gpu_.set_memory();
    gpu_.record_event();
    gpu_.synchronise();
    gpu_.copy_to_device(source_.data(), bytes_);
    gpu_.copy_from_device(target_.data(), bytes_);
    if (target_ != source_) throw std::runtime_error("what came back from the device is not what was sent");
    for (auto& raw : raw_throughput_) raw.measure_seconds();
  }

  void round() {
    const reduced raw = reduce(raw_round_trip_.measure_us(settings_.calls));
    raw_best_.rounds.push_back(raw.best);
    raw_median_.rounds.push_back(raw.median);
    std::vector<double> times(settings_.calls);
    for (double& time : times) time = gpu_.called_us();
    const reduced called = reduce(std::move(times));
    called_best_.rounds.push_back(called.best);
    called_median_.rounds.push_back(called.median);

    launch_.measure(gpu_, [this] { gpu_.launch(); }, settings_.posts);
    memset_.measure(gpu_, [this] { gpu_.set_memory(); }, settings_.posts);
    record_.measure(gpu_, [this] { gpu_.record_event(); }, settings_.posts);

    const double one = raw_throughput_[0].measure_seconds();
    raw_gigabytes_[0]->rounds.push_back(rate(one));
    to_device_.rounds.push_back(rate(timed([this] { gpu_.copy_to_device(source_.data(), bytes_); })));
    from_device_.rounds.push_back(rate(timed([this] { gpu_.copy_from_device(target_.data(), bytes_); })));
    const double copy = memory_copy_seconds(target_, source_);
    memcpy_gigabytes_.rounds.push_back(rate(copy));
    ceiling_.rounds.push_back(rate(one + copy));
    for (std::size_t i = 1; i < raw_throughput_.size(); ++i) {
      raw_gigabytes_[i]->rounds.push_back(rate(raw_throughput_[i].measure_seconds()));
    }
  }

 private:
  static quantity& throughput(report& r, const char* what) { return r.add(what, "GB/s", better::higher); }
  double rate(double seconds) const { return static_cast<double>(bytes_) / 1e9 / seconds; }
  static double timed(const std::function<void()>& work) {
    const auto begin = clock_type::now();
    work();
    return seconds_since(begin);
  }

  settings settings_;
  std::size_t bytes_;
  quantity &raw_best_, &raw_median_, &called_best_, &called_median_;
  posting launch_, memset_, record_;
  std::array<quantity*, 3> raw_gigabytes_;
  quantity &memcpy_gigabytes_, &ceiling_, &to_device_, &from_device_;
  std::vector<char> source_, target_;
  raw_round_trip raw_round_trip_;
  std::array<raw_throughput, 3> raw_throughput_;
  driver gpu_;
};

int run(const settings& s) {
  report r;
  benchmark b(r, s);
  b.warm_up();
  for (int i = 0; i < s.pairs; ++i) {
    fmt::print(stderr, "\rround {} of {}", i + 1, s.pairs);
    b.round();
  }
  fmt::print(stderr, "\n");
  fmt::print("{}", s.json ? r.json() : r.text());
  return 0;
}

}  // namespace
}  // namespace gpuwire::bench

int main(int argc, char** argv) {
  gpuwire::bench::settings s;
  CLI::App app{"Measures the driver API beside raw loopback TCP, in interleaved rounds.", "gpuwire-bench"};
  app.add_flag("--json", s.json, "print JSON instead of a table");
  app.add_option("--pairs", s.pairs, "interleaved rounds (default 9)")->check(CLI::Range(1, 1000));
  app.add_option("--calls", s.calls, "round trips a round (default 4000)")->check(CLI::Range(100, 1'000'000));
  app.add_option("--posts", s.posts, "posted commands of each kind a round (default 1024)")->check(CLI::Range(256, 1'000'000));
  app.add_option("--megabytes", s.megabytes, "size of the large copies in MiB (default 256)")->check(CLI::Range(1, 4096));
  CLI11_PARSE(app, argc, argv);
  try {
    return gpuwire::bench::run(s);
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpuwire-bench: {}\n", e.what());
    return 1;
  }
}
