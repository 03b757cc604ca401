// SPDX-License-Identifier: Apache-2.0
// What was measured, round by round, and how it is shown. A quantity has one number for each round, already reduced within
// the round (best, median or mean, as its name says); across the rounds the report shows best and median.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace gpuwire::bench {

enum class better { lower, higher };

struct quantity {
  std::string name, unit;
  better direction = better::lower;
  std::vector<double> rounds;
  double limit = 0;  // a promise about the best round; 0: none

  double best() const;
  double median() const;
  bool met() const;
};

// A quotient of two quantities, round by round, because each round measured both under the same conditions. With `limit`
// it is a promise: met when the quotient of the bests is on the right side of it.
struct ratio {
  std::string name;
  const quantity* numerator = nullptr;
  const quantity* denominator = nullptr;
  better direction = better::lower;
  double limit = 0;

  double of_bests() const;
  double median() const;
  bool met() const;
};

class report {
 public:
  // The references stay valid: a report only grows.
  quantity& add(std::string name, std::string unit, better direction);
  void add(ratio r) { ratios_.push_back(std::move(r)); }
  void note(std::string key, std::string value) { notes_[std::move(key)] = std::move(value); }
  std::string text() const;
  std::string json() const;

 private:
  std::map<std::string, std::string> notes_;
  std::vector<std::unique_ptr<quantity>> quantities_;
  std::vector<ratio> ratios_;
};

}  // namespace gpuwire::bench
