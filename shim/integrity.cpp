// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <vector>

#include "shim/export_tables.hpp"
#include "shim/md2.hpp"
#include "shim/state.hpp"

namespace gpuwire::shim {
namespace {

constexpr std::array<std::uint8_t, 16> key = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                                              0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};

template <class Value>
void append(std::vector<std::uint8_t>& message, const Value& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  message.insert(message.end(), bytes, bytes + sizeof value);
}

}  // namespace

void integrity_answer(unsigned version, std::uint64_t unix_seconds, std::uint64_t out[2]) {
  if (version % 10 < 2) {
    out[0] = version % 10 == 0 ? 0x3341181c03cb675c : 0x1841181c03cb675c;
    out[1] = 0x8ed383aa1f4cd1e8;
    return;
  }
  const process_state& s = state();
  std::vector<std::uint8_t> message;
  append(message, static_cast<std::uint32_t>(s.driver_version));
  append(message, static_cast<std::uint32_t>(version));
  append(message, static_cast<std::uint32_t>(::getpid()));
  append(message, static_cast<std::uint32_t>(::pthread_self()));
  append(message, cudart_interface_table());
  append(message, integrity_table());
  append(message, integrity_function());
  append(message, unix_seconds);
  for (const auto& device : s.devices) {
    append(message, device.uuid_v2);
    for (const int attribute : {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                                CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID})
      append(message, static_cast<std::int32_t>(device.attribute(attribute)));
  }
  const auto digest = hmac_md2(key, message);
  std::memcpy(out, digest.data(), digest.size());
}

}  // namespace gpuwire::shim
