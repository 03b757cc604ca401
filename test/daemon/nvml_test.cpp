// SPDX-License-Identifier: Apache-2.0
// The NVML helper's part without a socket: whatever bytes a client sends, the answer is an answer
// or the end of its connection.
#include <cstring>
#include <random>
#include <vector>

#include "daemon/generated/nvml/dispatch.hpp"
#include "daemon/nvml/serve.hpp"
#include "test/catch.hpp"
#include "wire/growing_encoder.hpp"

using namespace gpuwire;
using namespace gpuwire::nvml;

namespace {

struct helper {
  helper() {
    std::string problem;
    shared.open(GPUWIRE_SOFT_NVML, problem);
    REQUIRE(problem.empty());
  }
  // 8-aligned, as a received body is.
  bool ask(std::uint16_t call, std::uint32_t fingerprint, const std::vector<std::byte>& bytes) {
    std::vector<std::uint64_t> body((bytes.size() + 7) / 8);
    if (!bytes.empty()) std::memcpy(body.data(), bytes.data(), bytes.size());
    answered = {};
    return answer_question(
        client, {call, fingerprint, std::as_bytes(std::span(body)).first(bytes.size())}, answered);
  }
  bool ask(const call_number& call, wire::growing_encoder& body) {
    body.pad();
    return ask(call.id, call.fingerprint, body.bytes());
  }

  host shared;
  client_of_helper client{shared};
  wire::light_answer answered;
};

std::vector<const call_number*> all_calls() {
  std::vector<const call_number*> calls;
  for (unsigned id = 0; id <= 0xffff; ++id)
    if (const auto found = find_handler(static_cast<std::uint16_t>(id));
        found.function != nullptr) {
      REQUIRE(found.call->id == id);
      calls.push_back(found.call);
    }
  return calls;
}

}  // namespace

TEST_CASE("any bytes as a question give an answer or the end of the connection") {
  helper h;
  const auto calls = all_calls();
  REQUIRE(calls.size() > 350);
  std::mt19937 random(1);
  for (const auto* call : calls) {
    if (std::strstr(call->name, "Wait") != nullptr) continue;  // random times to wait
    for (std::size_t bytes = 0; bytes <= 256; bytes += 8) {
      h.ask(call->id, call->fingerprint, std::vector<std::byte>(bytes));
      for (int round = 0; round < 4; ++round) {
        std::vector<std::byte> body(bytes);
        for (auto& b : body) b = static_cast<std::byte>(round % 2 == 0 ? random() % 3 : random());
        h.ask(call->id, call->fingerprint, body);
        REQUIRE(h.answered.body.size() < (8u << 20));
      }
    }
  }
}

TEST_CASE("a client that was built from other declarations hears that a call is not supported") {
  helper h;
  REQUIRE(h.ask(calls::nvmlDeviceGetCount_v2.id, calls::nvmlDeviceGetCount_v2.fingerprint + 1, {}));
  REQUIRE(h.answered.result == NVML_ERROR_NOT_SUPPORTED);
  REQUIRE(h.answered.body.empty());
  REQUIRE(h.ask(0xfff0, 0, {}));
  REQUIRE(h.answered.result == NVML_ERROR_NOT_SUPPORTED);
}

TEST_CASE("a number that is no handle of this kind is refused, and a change of the server too") {
  helper h;
  for (const std::uint64_t id :
       {std::uint64_t{1}, ~std::uint64_t{0}, wire::make_handle(0, kind::unit, 0, 0),
        wire::make_handle(0, kind::device, 0, 1000)}) {
    wire::growing_encoder body;
    body(id);
    body(true);
    REQUIRE(h.ask(calls::nvmlDeviceGetIndex, body));
    REQUIRE(h.answered.result == NVML_ERROR_INVALID_ARGUMENT);
  }
  wire::growing_encoder body;
  body(wire::make_handle(0, kind::device, 0, 0));
  body(std::uint32_t{100});
  REQUIRE(h.ask(calls::nvmlDeviceSetPowerManagementLimit, body));
  REQUIRE(h.answered.result == NVML_ERROR_NO_PERMISSION);
}

TEST_CASE("an array as large as no machine is refused before memory is taken for it") {
  helper h;
  wire::growing_encoder body;
  body(wire::make_handle(0, kind::device, 0, 0));
  body(std::int32_t{0x7fffffff});
  body(true);
  body(std::uint32_t{0x7fffffff});
  REQUIRE(h.ask(calls::nvmlDeviceGetFieldValues, body));
  REQUIRE(h.answered.result == NVML_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("what a client made is its own and is given back when it goes") {
  helper h;
  wire::growing_encoder wanted;
  wanted(true);
  REQUIRE(h.ask(calls::nvmlEventSetCreate, wanted));
  REQUIRE(h.answered.result == NVML_SUCCESS);
  std::uint64_t id = 0;
  std::memcpy(&id, h.answered.body.data() + 1, sizeof id);
  REQUIRE(wire::handle_kind_of(id) == kind::event_set);

  client_of_helper other{h.shared};
  std::vector<std::uint64_t> body{id};
  wire::light_answer answered;
  REQUIRE(answer_question(other,
                          {calls::nvmlEventSetFree.id, calls::nvmlEventSetFree.fingerprint,
                           std::as_bytes(std::span(body))},
                          answered));
  REQUIRE(answered.result == NVML_ERROR_INVALID_ARGUMENT);

  void* const native = h.client.handles.find(id, kind::event_set).value();
  release(h.client);
  REQUIRE(h.shared.table.nvmlEventSetFree(native) == NVML_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("the worker of a client's own process is shown under the client's number") {
  helper h;
  h.client.process_key = 77;
  h.client.pid = 1234;
  h.shared.sessions.begin(5000, 77);
  h.shared.sessions.begin(5001, 78);
  wire::decoder none(nullptr, 0);
  wire::growing_encoder out;
  answer a(h.client, none, out);
  REQUIRE(a.seen_by_client(5000) == 1234);
  REQUIRE(a.seen_by_client(5001) == 5001);
  REQUIRE(a.seen_by_client(6000) == 6000);
  h.shared.sessions.end(5000);
  REQUIRE(a.seen_by_client(5000) == 5000);
}
