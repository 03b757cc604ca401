// SPDX-License-Identifier: Apache-2.0
#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gpuwire::bench {
namespace {

double middle(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace

double quantity::best() const {
  if (rounds.empty()) return 0;
  return direction == better::lower ? *std::min_element(rounds.begin(), rounds.end())
                                    : *std::max_element(rounds.begin(), rounds.end());
}

double quantity::median() const { return middle(rounds); }

double ratio::of_bests() const { return numerator->best() / denominator->best(); }

double ratio::median() const {
  std::vector<double> quotients;
  for (std::size_t i = 0; i < std::min(numerator->rounds.size(), denominator->rounds.size()); ++i) {
    quotients.push_back(numerator->rounds[i] / denominator->rounds[i]);
  }
  return middle(std::move(quotients));
}

bool ratio::met() const {
  if (limit == 0) return true;
  return direction == better::lower ? of_bests() <= limit : of_bests() >= limit;
}

quantity& report::add(std::string name, std::string unit, better direction) {
  quantities_.push_back(std::make_unique<quantity>(quantity{std::move(name), std::move(unit), direction, {}}));
  return *quantities_.back();
}

std::string report::text() const {
  std::string text;
  for (const auto& [key, value] : notes_) text += fmt::format("{}: {}\n", key, value);
  text += fmt::format("\n{:<58} {:>10} {:>10}  {}\n", "", "best", "median", "unit");
  for (const auto& q : quantities_) {
    text += fmt::format("{:<58} {:>10.3f} {:>10.3f}  {}\n", q->name, q->best(), q->median(), q->unit);
  }
  text += fmt::format("\n{:<58} {:>10} {:>10}\n", "ratios", "of bests", "median");
  for (const auto& r : ratios_) {
    text += fmt::format("{:<58} {:>10.3f} {:>10.3f}", r.name, r.of_bests(), r.median());
    if (r.limit != 0) {
      text += fmt::format("  must be {} {}: {}", r.direction == better::lower ? "<=" : ">=", r.limit, r.met() ? "met" : "MISSED");
    }
    text += '\n';
  }
  return text;
}

std::string report::json() const {
  nlohmann::ordered_json root;
  for (const auto& [key, value] : notes_) root["notes"][key] = value;
  for (const auto& q : quantities_) {
    root["quantities"].push_back(
        {{"name", q->name}, {"unit", q->unit}, {"best", q->best()}, {"median", q->median()}, {"rounds", q->rounds}});
  }
  for (const auto& r : ratios_) {
    nlohmann::ordered_json entry{{"name", r.name}, {"of_bests", r.of_bests()}, {"median", r.median()}};
    if (r.limit != 0) {
      entry["limit"] = r.limit;
      entry["met"] = r.met();
    }
    root["ratios"].push_back(std::move(entry));
  }
  return root.dump(2) + "\n";
}

}  // namespace gpuwire::bench
