// SPDX-License-Identifier: Apache-2.0
// What loopback TCP itself can do here and now: the ceiling that everything else is compared with. Two threads of this
// process are the ends; connections are made once and used in every round. Congestion control is cubic on both ends,
// because some systems' default is slow and unstable on loopback.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace gpuwire::bench {

// Ping-pong of 64 bytes, both ends spinning on a non-blocking receive.
class raw_round_trip {
 public:
  raw_round_trip();
  ~raw_round_trip();
  std::vector<double> measure_us(std::size_t count);  // one number for each round trip

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

// One-way transfer over some connections at once, split evenly. The memory is the caller's and should have been touched.
class raw_throughput {
 public:
  raw_throughput(std::size_t connections, std::vector<char>& source, std::vector<char>& target);
  raw_throughput(raw_throughput&&) noexcept;
  ~raw_throughput();
  double measure_seconds();  // until the last byte has been received

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

// One copy of that much touched memory on this processor, in seconds.
double memory_copy_seconds(std::vector<char>& target, const std::vector<char>& source);

}  // namespace gpuwire::bench
