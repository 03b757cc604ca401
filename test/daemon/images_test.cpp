// SPDX-License-Identifier: Apache-2.0
// Device code, kernels and launches without the shim between: what a load tells, and what wrong
// numbers achieve.
#include <cstring>
#include <string>

#include "test/catch.hpp"
#include "test/daemon/server_process.hpp"
#include "wire/limits.hpp"

using namespace daemon_test;

namespace {

constexpr char twice_ptx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry twice(.param .u64 data, .param .u32 count) {
  .reg .pred p; .reg .u32 i, n, v; .reg .u64 a, o;
  ld.param.u64 a, [data];
  ld.param.u32 n, [count];
  mov.u32 i, %tid.x;
  setp.ge.u32 p, i, n;
  @p bra END;
  mul.wide.u32 o, i, 4;
  add.u64 a, a, o;
  ld.global.u32 v, [a];
  add.u32 v, v, v;
  st.global.u32 [a], v;
END:
  ret;
}
)";

msg::load_image::request request_for(std::string_view image) {
  msg::load_image::request q;
  q.kind = 1;
  q.image_bytes = image.size();
  q.image = {reinterpret_cast<const std::byte*>(image.data()), image.size()};
  return q;
}

msg::launch::request launch_of(std::uint64_t function, const std::vector<std::byte>& parameters) {
  msg::launch::request q;
  q.function = function;
  q.grid_x = q.grid_y = q.grid_z = q.block_y = q.block_z = 1;
  q.block_x = 32;
  q.parameters = {parameters.data(), parameters.size()};
  return q;
}

}  // namespace

TEST_CASE("a load tells names, handles and layouts; a launch uses them; an unload ends them") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  const auto loaded = c.call<msg::load_image>(request_for(twice_ptx));
  REQUIRE(loaded.result == 0);
  REQUIRE(loaded.body.kernels.size == 1);
  CHECK(std::memcmp(loaded.body.kernel_names.data, "twice", 5) == 0);
  REQUIRE(loaded.body.parameter_counts[0] == 2);
  CHECK(loaded.body.parameter_offsets[0] == 0);
  CHECK(loaded.body.parameter_bytes[0] == 8);
  CHECK(loaded.body.parameter_offsets[1] == 8);
  CHECK(loaded.body.parameter_bytes[1] == 4);
  const auto kernel = loaded.body.kernels[0];

  const auto address = c.allocate(128);
  std::vector<std::uint32_t> values(32);
  for (std::uint32_t i = 0; i < 32; ++i) values[i] = i;
  msg::copy_to_device::request in;
  in.destination = address;
  in.bytes = 128;
  in.data = {reinterpret_cast<const std::byte*>(values.data()), 128};
  REQUIRE(c.post<msg::copy_to_device>(in) == wire::error::ok);
  std::vector<std::byte> parameters(12);
  const std::uint32_t count = 30;
  std::memcpy(parameters.data(), &address, 8);
  std::memcpy(parameters.data() + 8, &count, 4);
  REQUIRE(c.post<msg::launch>(launch_of(kernel, parameters)) == wire::error::ok);
  msg::copy_from_device::request out;
  out.source = address;
  out.bytes = 128;
  const auto copied = c.call<msg::copy_from_device>(out);
  REQUIRE(copied.result == 0);
  std::memcpy(values.data(), copied.body.data.data, 128);
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == (i < 30 ? 2 * i : i));

  auto too_large = launch_of(kernel, parameters);
  too_large.block_x = 4096;
  CHECK(c.call<msg::launch>(too_large).result == 1);
  CHECK(c.call<msg::launch>(launch_of(kernel + 1, parameters)).result == 400);
  CHECK(c.call<msg::launch>(launch_of(loaded.body.handle, parameters)).result == 400);

  CHECK(c.call<msg::unload_image>({loaded.body.handle}).result == 0);
  CHECK(c.call<msg::launch>(launch_of(kernel, parameters)).result == 400);
  CHECK(c.call<msg::unload_image>({loaded.body.handle}).result == 400);
  CHECK(c.posted_errors().empty());
}

TEST_CASE("an image above the inline limit comes on the bulk connection") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  std::string text = twice_ptx;
  text.insert(text.find(".visible"), std::string((3u << 20) + 5, '\n'));
  auto q = request_for(text);
  q.image = {};
  const auto loaded =
      c.call<msg::load_image>(q, {std::as_bytes(std::span(text.data(), text.size())), {}});
  REQUIRE(loaded.result == 0);
  CHECK(loaded.body.kernels.size == 1);
}

TEST_CASE("text that is no PTX is refused with the driver's code and its log") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  auto q = request_for(".version 7.0\n.target sm_70\n.address_size 64\nthis is no code\n");
  q.kind = 0;
  const std::int32_t options[] = {5, 6};  // error log buffer and its size
  const std::uint64_t values[] = {0, 1000};
  q.options = {options, 2};
  q.option_values = {values, 2};
  q.error_log_bytes = 1000;
  const auto loaded = c.call<msg::load_image>(q);
  CHECK(loaded.result == 218);
  CHECK_FALSE(loaded.body.error_log.empty());
  CHECK(loaded.body.option_results.size == 2);
}

TEST_CASE("options that are pointers, or unknown, never reach the driver") {
  server_process server;
  test_client c(server.endpoint());
  c.open();
  for (const auto& [option, code] : {std::pair{17, 1}, {18, 1}, {19, 1}, {25, 1}, {1000, 1}, {-1, 1}}) {
    auto q = request_for(twice_ptx);
    const std::int32_t options[] = {option};
    const std::uint64_t values[] = {0x4141414141414141};
    q.options = {options, 1};
    q.option_values = {values, 1};
    CHECK(c.call<msg::load_image>(q).result == code);
  }
  auto q = request_for(twice_ptx);
  const std::int32_t table[] = {0};
  const std::uint64_t pointer[] = {0x4141414141414141};
  q.library_options = {table, 1};
  q.library_option_values = {pointer, 1};
  CHECK(c.call<msg::load_image>(q).result == 801);
}
