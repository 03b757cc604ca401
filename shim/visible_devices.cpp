// SPDX-License-Identifier: Apache-2.0
#include "shim/visible_devices.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace gpuwire::shim {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The driver reads integers as strtoul does: "1gpu" is 1, "gpu1" and "-1" are nothing.
std::optional<std::size_t> leading_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  std::size_t value = 0, digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    value =
        std::min<std::size_t>(value * 10 + static_cast<std::size_t>(text[digits] - '0'), 1u << 20);
    ++digits;
  }
  if (digits == 0) return std::nullopt;
  return value;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

std::optional<std::size_t> by_uuid(const std::vector<device_identity>& devices,
                                   std::string_view text) {
  const std::string wanted = lower(text.substr(4));
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::string uuid = uuid_text(devices[i].uuid).substr(4);
    if (uuid.compare(0, wanted.size(), wanted) != 0) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text.push_back('-');
    text.push_back(digits[uuid[i] >> 4]);
    text.push_back(digits[uuid[i] & 15]);
  }
  return text;
}

std::vector<int> visible_devices(const std::vector<device_identity>& devices,
                                 std::optional<std::string_view> visible,
                                 std::optional<std::string_view> order) {
  std::vector<int> ordered(devices.size());
  std::iota(ordered.begin(), ordered.end(), 0);
  if (order && *order == "PCI_BUS_ID") {
    std::stable_sort(ordered.begin(), ordered.end(), [&](int a, int b) {
      const auto& x = devices[static_cast<std::size_t>(a)];
      const auto& y = devices[static_cast<std::size_t>(b)];
      return std::tie(x.pci_domain, x.pci_bus, x.pci_device) <
             std::tie(y.pci_domain, y.pci_bus, y.pci_device);
    });
  }
  if (!visible) return ordered;

  std::vector<int> chosen;
  std::string_view rest = *visible;
  for (bool more = true; more;) {
    const auto comma = rest.find(',');
    const auto entry = trimmed(rest.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);

    int ordinal = -1;
    if (entry.substr(0, 4) == "GPU-") {
      if (const auto found = by_uuid(devices, entry)) ordinal = static_cast<int>(*found);
    } else if (const auto number = leading_number(entry); number && *number < ordered.size()) {
      ordinal = ordered[*number];
    }
    if (ordinal < 0) break;
    if (std::find(chosen.begin(), chosen.end(), ordinal) != chosen.end()) return {};
    chosen.push_back(ordinal);
  }
  return chosen;
}

}  // namespace gpuwire::shim
