// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the driver reads them. A pure function of the
// environment and the server's device list; knows no CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuwire::shim {

struct device_identity {
  std::array<std::uint8_t, 16> uuid{};
  std::int32_t pci_domain = 0, pci_bus = 0, pci_device = 0;
};

std::string uuid_text(const std::array<std::uint8_t, 16>& uuid);  // "GPU-01234567-89ab-..."

// Server ordinals in the order the program counts them. `visible` absent: all. The list ends at the
// first entry that names no device; an entry that repeats an earlier device empties the list.
// Integers count in the order `order` asks for (PCI_BUS_ID, else the server's own order). UUIDs may
// be shortened as long as they are unambiguous.
std::vector<int> visible_devices(const std::vector<device_identity>& devices,
                                 std::optional<std::string_view> visible,
                                 std::optional<std::string_view> order);

}  // namespace gpuwire::shim
