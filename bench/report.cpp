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

bool keeps(double value, double limit, better direction) {
  return limit == 0 || (direction == better::lower ? value <= limit : value >= limit);
}

std::string promise(bool met, double limit, better direction) {
  if (limit == 0) return "";
  return fmt::format("  must be {} {}: {}", direction == better::lower ? "<=" : ">=", limit, met ? "met" : "MISSED");
}

template <class Measured>
nlohmann::ordered_json with_promise(nlohmann::ordered_json entry, const Measured& measured) {
  if (measured.limit != 0) {
    entry["limit"] = measured.limit;
    entry["met"] = measured.met();
  }
  return entry;
}

}  // namespace

double quantity::best() const {
  if (rounds.empty()) return 0;
  return direction == better::lower ? *std::min_element(rounds.begin(), rounds.end())
                                    : *std::max_element(rounds.begin(), rounds.end());
}

double quantity::median() const { return middle(rounds); }

bool quantity::met() const { return keeps(best(), limit, direction); }

double ratio::of_bests() const { return numerator->best() / denominator->best(); }

double ratio::median() const {
  std::vector<double> quotients;
  for (std::size_t i = 0; i < std::min(numerator->rounds.size(), denominator->rounds.size()); ++i) {
    quotients.push_back(numerator->rounds[i] / denominator->rounds[i]);
  }
  return middle(std::move(quotients));
}

bool ratio::met() const { return keeps(of_bests(), limit, direction); }

quantity& report::add(std::string name, std::string unit, better direction) {
  quantities_.push_back(std::make_unique<quantity>(quantity{std::move(name), std::move(unit), direction, {}, 0}));
  return *quantities_.back();
}

std::string report::text() const {
  std::string text;
  for (const auto& [key, value] : notes_) text += fmt::format("{}: {}\n", key, value);
  text += fmt::format("\n{:<58} {:>10} {:>10}  {}\n", "", "best", "median", "unit");
  for (const auto& q : quantities_) {
    text += fmt::format("{:<58} {:>10.3f} {:>10.3f}  {}{}\n", q->name, q->best(), q->median(), q->unit,
                        promise(q->met(), q->limit, q->direction));
  }
  text += fmt::format("\n{:<58} {:>10} {:>10}\n", "ratios", "of bests", "median");
  for (const auto& r : ratios_) {
    text += fmt::format("{:<58} {:>10.3f} {:>10.3f}{}\n", r.name, r.of_bests(), r.median(), promise(r.met(), r.limit, r.direction));
  }
  return text;
}

std::string report::json() const {
  nlohmann::ordered_json root;
  for (const auto& [key, value] : notes_) root["notes"][key] = value;
  for (const auto& q : quantities_) {
    root["quantities"].push_back(with_promise(
        {{"name", q->name}, {"unit", q->unit}, {"best", q->best()}, {"median", q->median()}, {"rounds", q->rounds}}, *q));
  }
  for (const auto& r : ratios_) {
    root["ratios"].push_back(with_promise({{"name", r.name}, {"of_bests", r.of_bests()}, {"median", r.median()}}, r));
  }
  return root.dump(2) + "\n";
}

}  // namespace gpuwire::bench
