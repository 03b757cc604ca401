// SPDX-License-Identifier: Apache-2.0
// Credits: who goes, who waits, who is released.
#include <atomic>
#include <chrono>
#include <thread>

#include "shim/credits.hpp"
#include "test/catch.hpp"

using namespace gpuwire::shim;

namespace {

// A thread that issues one more operation, and what became of it.
struct issuer {
  issuer(credit_desk& desk, stream_credit& stream, std::uint64_t bytes)
      : thread([this, &desk, &stream, bytes] {
          granted = desk.issue(stream, bytes, [this] { waits = true; });
          done = true;
        }) {}
  ~issuer() { thread.join(); }
  void until_it_waits() {
    while (!waits) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::atomic<bool> waits{false}, done{false}, granted{false};
  std::thread thread;
};

void issue(credit_desk& desk, stream_credit& stream, std::uint64_t count, std::uint64_t bytes = 0) {
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE(desk.issue(stream, bytes, [] { FAIL("it should not wait"); }));
}

}  // namespace

TEST_CASE("operations up to the limit do not wait, the next one waits for a completion") {
  credit_desk desk;
  stream_credit stream;
  issue(desk, stream, operations_outstanding_max);
  issuer one(desk, stream, 0);
  one.until_it_waits();
  CHECK_FALSE(one.done);
  desk.complete(stream, 1, 0);
  while (!one.done) std::this_thread::yield();
  CHECK(one.granted);
}

TEST_CASE("copies wait for bytes, other operations do not") {
  credit_desk desk;
  stream_credit stream;
  issue(desk, stream, 32, 1u << 20);
  issue(desk, stream, 1);
  issuer copy(desk, stream, 1);
  copy.until_it_waits();
  CHECK_FALSE(copy.done);
  desk.complete(stream, 1, 1u << 20);
  while (!copy.done) std::this_thread::yield();
  CHECK(copy.granted);
}

TEST_CASE("a copy above the limit goes when nothing else is outstanding") {
  credit_desk desk;
  stream_credit stream;
  issue(desk, stream, 1, copy_bytes_outstanding_max + 1);
  CHECK_FALSE(stream.has_room(1));
  desk.complete(stream, 1, copy_bytes_outstanding_max + 1);
  CHECK(stream.has_room(copy_bytes_outstanding_max + 1));
}

TEST_CASE("streams do not wait for one another") {
  credit_desk desk;
  stream_credit full, other;
  issue(desk, full, operations_outstanding_max);
  issue(desk, other, 1);
}

TEST_CASE("totals may repeat, come late or run ahead") {
  credit_desk desk;
  stream_credit stream;
  issue(desk, stream, 10, 10);
  desk.complete(stream, 10, 100);
  desk.complete(stream, 4, 40);
  CHECK(stream.operations_completed == 10);
  desk.complete(stream, 700, 7000);
  CHECK(stream.has_room(1));
  stream.restart();
  CHECK(stream.operations_completed == 0);
}

TEST_CASE("closing the desk releases everybody with a refusal") {
  credit_desk desk;
  stream_credit stream;
  issue(desk, stream, operations_outstanding_max);
  issuer one(desk, stream, 0);
  one.until_it_waits();
  desk.close();
  while (!one.done) std::this_thread::yield();
  CHECK_FALSE(one.granted);
}
