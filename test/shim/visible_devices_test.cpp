// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER over three devices whose PCI order is not the server's
// order.
#include <optional>
#include <string_view>
#include <vector>

#include "shim/visible_devices.hpp"
#include "test/catch.hpp"

namespace {

using namespace gpuwire::shim;

std::vector<device_identity> three() {
  std::vector<device_identity> devices(3);
  devices[0].uuid = {0xaa, 0x01};
  devices[1].uuid = {0xaa, 0x02};
  devices[2].uuid = {0xbb, 0x03};
  devices[0].pci_bus = 9;
  devices[1].pci_bus = 7;
  devices[2].pci_bus = 8;
  return devices;
}

std::vector<int> seen(std::optional<std::string_view> visible,
                      std::optional<std::string_view> order = std::nullopt) {
  return visible_devices(three(), visible, order);
}

using list = std::vector<int>;

}  // namespace

TEST_CASE("without the variable all devices are visible in the server's order") {
  CHECK(seen(std::nullopt) == list{0, 1, 2});
}

TEST_CASE("integers choose and order devices") {
  CHECK(seen("0") == list{0});
  CHECK(seen("2,0") == list{2, 0});
  CHECK(seen(" 1 , 2 ") == list{1, 2});
  CHECK(seen("+1") == list{1});
  CHECK(seen("1gpu2,2ampere") == list{1, 2});
}

TEST_CASE("the list ends at the first entry that names no device") {
  CHECK(seen("1,3,0") == list{1});
  CHECK(seen("0,-1,2") == list{0});
  CHECK(seen("1,,2") == list{1});
  CHECK(seen("1,x,2") == list{1});
  CHECK(seen("99999999999999999999,0").empty());
}

TEST_CASE("an empty list hides all devices") {
  CHECK(seen("").empty());
  CHECK(seen("-1").empty());
  CHECK(seen("NoDevFiles").empty());
}

TEST_CASE("a repeated device empties the list") {
  CHECK(seen("0,1,0").empty());
  CHECK(seen("GPU-aa01,0").empty());
}

TEST_CASE("UUIDs may be shortened while they are unambiguous") {
  CHECK(seen("GPU-aa010000-0000-0000-0000-000000000000") == list{0});
  CHECK(seen("GPU-bb") == list{2});
  CHECK(seen("GPU-BB,GPU-AA02") == list{2, 1});
  CHECK(seen("GPU-aa").empty());
  CHECK(seen("GPU-cc,0").empty());
}

TEST_CASE("the PCI order renumbers integers but not UUIDs") {
  CHECK(seen(std::nullopt, "PCI_BUS_ID") == list{1, 2, 0});
  CHECK(seen("0", "PCI_BUS_ID") == list{1});
  CHECK(seen("GPU-aa01", "PCI_BUS_ID") == list{0});
  CHECK(seen("0", "FASTEST_FIRST") == list{0});
}
