// SPDX-License-Identifier: Apache-2.0
// Both ends of a session in one process, over loopback: order, replies, pushes, bulk data, goodbye,
// idleness.
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>
#include <map>
#include <numeric>

#include "test/wire/session_fixture.hpp"
#include "wire/limits.hpp"

using namespace wire_test;

namespace {

enum : std::uint16_t { echo = 1, record = 2, push_many = 3, upload = 4, download = 5, large = 6 };

std::byte pattern(std::uint64_t i) {
  return static_cast<std::byte>(i * 131 + (i >> 12));
}

// Collects a transfer and answers its command when all of it has arrived.
class collector final : public bulk_sink {
 public:
  collector(server_session& s, std::uint64_t sequence, std::uint64_t bytes)
      : session_(s), sequence_(sequence), data_(bytes) {}
  std::span<std::byte> place(std::uint64_t offset, std::uint32_t bytes) override {
    return std::span(data_).subspan(offset, bytes);
  }
  void arrived(std::uint64_t, std::uint32_t bytes) override {
    if (arrived_.fetch_add(bytes) + bytes != data_.size()) return;
    std::int32_t wrong = 0;
    for (std::size_t i = 0; i < data_.size(); ++i) wrong += data_[i] != pattern(i);
    MUST(session_.reply(sequence_, 0, wrong, nothing{}) == error::ok);
  }
  void lost() override {}

 private:
  server_session& session_;
  std::uint64_t sequence_;
  std::vector<std::byte> data_;
  std::atomic<std::uint64_t> arrived_{0};
};

struct log_entry {
  std::uint32_t lane;
  std::uint64_t value;
};

struct main_handler {
  guarded<log_entry>* log = nullptr;
  guarded<std::thread>* helpers = nullptr;

  void operator()(server_session& s, const received_frame& f) const {
    const auto n = decoded(f);
    const auto sequence = f.header.sequence;
    switch (f.header.call) {
      case record:
        log->add(log_entry{f.header.lane, n.value});
        break;
      case echo:
        MUST(s.reply(sequence, f.header.lane, 17, n) == error::ok);
        break;
      case push_many:
        for (std::uint64_t i = 0; i < n.value; ++i) MUST(s.push(note{i, "p", {}}, 99) == error::ok);
        MUST(s.reply(sequence, f.header.lane, 0, nothing{}) == error::ok);
        break;
      case upload:
        s.expect_bulk(sequence, std::make_shared<collector>(s, sequence, n.value), n.value);
        break;
      case download:
        helpers->add([&s, sequence, bytes = n.value] {
          std::vector<std::byte> data(bytes);
          for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(i);
          MUST(s.send_bulk(sequence, 0, data) == error::ok);
          MUST(s.reply(sequence, 0, 0, nothing{}) == error::ok);
        });
        break;
      case large: {
        std::vector<std::byte> data(n.value);
        for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
        MUST(s.reply(sequence, 0, 0, note{n.value, "", {data.data(), data.size()}}) == error::ok);
        break;
      }
      default:
        MUST(false);
    }
  }
};

struct setup {
  guarded<log_entry> log;
  guarded<std::thread> helpers;
  test_server server{main_handler{&log, &helpers}};
  ~setup() {
    for (auto& t : helpers.take()) t.join();
  }
};

double cpu_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

}  // namespace

TEST_CASE("a call brings back its answer", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  reply r;
  for (std::uint64_t i = 0; i < 500; ++i) {
    const std::string text(i, 'q');
    REQUIRE(c->call({echo, 3, 1}, note{i, text, {}}, r) == error::ok);
    REQUIRE(r.result == 17);
    note back;
    auto d = r.body();
    REQUIRE(decode_from(d, back));
    REQUIRE(back.value == i);
    REQUIRE(back.text == text);
  }
  CHECK(c->stats().called == 500);
}

TEST_CASE("posted commands of one thread arrive in order, before a later call", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  reply r;
  std::uint64_t value = 0;
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 100; ++i)
      REQUIRE(c->post({record, 1, 0}, note{++value, "x", {}}) == error::ok);
    REQUIRE(c->call({echo, 1, 0}, note{}, r) == error::ok);
    REQUIRE(t.log.size() == value);
  }
  bool ordered = true;
  const auto log = t.log.take();
  for (std::uint64_t i = 0; i < value; ++i) ordered = ordered && log[i].value == i + 1;
  CHECK(ordered);
}

TEST_CASE("eight threads post and call: every lane keeps its order", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  constexpr std::uint64_t count = 2000;
  for (std::uint32_t lane = 1; lane <= 8; ++lane) {
    threads.emplace_back([&, lane] {
      reply r;
      for (std::uint64_t i = 1; i <= count; ++i) {
        if (c->post({record, lane, 0}, note{i, "ordered", {}}) != error::ok) ++failures;
        if (i % (20 + lane) != 0) continue;
        if (c->call({echo, lane, 0}, note{i, "", {}}, r) != error::ok) ++failures;
        note back;
        auto d = r.body();
        if (!decode_from(d, back) || back.value != i) ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  REQUIRE(failures == 0);
  reply r;
  REQUIRE(c->call({echo, 1, 0}, note{}, r) == error::ok);
  std::map<std::uint32_t, std::uint64_t> last;
  bool ordered = true;
  const auto log = t.log.take();
  for (const auto& entry : log) ordered = ordered && entry.value == ++last[entry.lane];
  CHECK(ordered);
  CHECK(log.size() == 8 * count);
}

TEST_CASE("a post after idle arrives without any further call", "[session]") {
  std::atomic<int> arrived{0};
  test_server server([&](server_session&, const received_frame&) { ++arrived; });
  auto c = connected(server.options());
  for (int burst = 1; burst <= 5; ++burst) {
    for (int i = 0; i < burst; ++i) REQUIRE(c->post({record, 1, 0}, note{}) == error::ok);
    const int expected = burst * (burst + 1) / 2;
    for (int i = 0; i < 1000 && arrived != expected; ++i) std::this_thread::sleep_for(1ms);
    CHECK(arrived == expected);
    std::this_thread::sleep_for(2ms);
  }
}

TEST_CASE("a call returns only when the pushes it presupposes were handled", "[session]") {
  setup t;
  std::atomic<std::uint64_t> handled{0};
  std::atomic<bool> ordered{true};
  auto o = t.server.options();
  o.on_push = [&](std::uint16_t call, std::uint32_t, decoder& d) {
    note n;
    if (call != 99 || !decode_from(d, n) || n.value != handled % 200) ordered = false;
    if (n.value % 50 == 0) std::this_thread::sleep_for(200us);  // a slow reader is waited for
    ++handled;
  };
  auto c = connected(o);
  reply r;
  for (std::uint64_t round = 1; round <= 20; ++round) {
    REQUIRE(c->call({push_many, 1, 0}, note{200, "", {}}, r) == error::ok);
    REQUIRE(handled == 200 * round);
  }
  CHECK(ordered);
}

TEST_CASE("payloads up to the inline limit ride in the command", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  std::vector<std::byte> data(limits::inline_payload_bytes_max);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
  reply r;
  for (int i = 0; i < 50; ++i)  // more than the ring holds
    REQUIRE(c->post({record, 1, 0}, note{1, "", {data.data(), data.size()}}) == error::ok);
  REQUIRE(c->call({echo, 1, 0}, note{5, "", {data.data(), data.size()}}, r) == error::ok);
  note back;
  auto d = r.body();
  REQUIRE(decode_from(d, back));
  CHECK(back.payload.size == data.size());
  CHECK(std::memcmp(back.payload.data, data.data(), data.size()) == 0);
  CHECK(t.log.size() == 50);
  std::vector<std::byte> too_large(limits::frame_bytes_max);
  CHECK(c->post({record, 1, 0}, note{1, "", {too_large.data(), too_large.size()}}) ==
        error::limit_exceeded);
  CHECK(c->call({echo, 1, 0}, note{}, r) == error::ok);  // which harmed nobody
}

TEST_CASE("a reply may be larger than the receive buffer", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  reply r;
  for (const std::uint64_t bytes : {1000ull, 300'000ull, 20'000'000ull, 8ull}) {
    REQUIRE(c->call({large, 1, 0}, note{bytes, "", {}}, r) == error::ok);
    note back;
    auto d = r.body();
    REQUIRE(decode_from(d, back));
    REQUIRE(back.payload.size == bytes);
    bool same = true;
    for (std::size_t i = 0; i < bytes; ++i) same = same && back.payload.data[i] == pattern(i);
    CHECK(same);
  }
}

TEST_CASE("64 MB travel both ways on one and on several bulk connections", "[session][bulk]") {
  for (const std::uint32_t connections : {1u, 3u}) {
    setup t;
    auto c = connected(t.server.options(connections));
    std::vector<std::byte> data(64u << 20), back(data.size());
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
    reply r;
    transfer out;
    out.send = data;
    REQUIRE(c->call({upload, 1, 0}, note{data.size(), "", {}}, r, out) == error::ok);
    CHECK(r.result == 0);
    transfer in;
    in.receive = back;
    REQUIRE(c->call({download, 1, 0}, note{back.size(), "", {}}, r, in) == error::ok);
    CHECK(back == data);
    std::fill(back.begin(), back.end(), std::byte{});  // a shorter answer is legal
    REQUIRE(c->call({download, 1, 0}, note{5'000'001, "", {}}, r, in) == error::ok);
    CHECK(std::equal(back.begin(), back.begin() + 5'000'001, data.begin()));
    CHECK(back[5'000'001] == std::byte{});
  }
}

TEST_CASE("threads move bulk data at the same time while others call", "[session][bulk]") {
  setup t;
  auto c = connected(t.server.options(2));
  std::vector<std::byte> data(9'000'000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = pattern(i);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (std::uint32_t lane = 1; lane <= 4; ++lane) {
    threads.emplace_back([&, lane] {
      reply r;
      std::vector<std::byte> back(data.size() - lane);
      for (int i = 0; i < 3; ++i) {
        transfer out;
        out.send = std::span(data).first(data.size() - lane);
        if (c->call({upload, lane, 0}, note{out.send.size(), "", {}}, r, out) != error::ok ||
            r.result)
          ++failures;
        transfer in;
        in.receive = back;
        if (c->call({download, lane, 0}, note{back.size(), "", {}}, r, in) != error::ok) ++failures;
        if (!std::equal(back.begin(), back.end(), data.begin())) ++failures;
        for (int k = 0; k < 20; ++k) {
          if (c->call({echo, lane, 0}, note{}, r) != error::ok) ++failures;
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

TEST_CASE("a goodbye ends the session in order and is no loss", "[session]") {
  setup t;
  std::atomic<int> losses{0};
  auto o = t.server.options();
  o.on_lost = [&](error, const std::string&) { ++losses; };
  auto c = connected(o);
  for (std::uint64_t i = 0; i < 1000; ++i)
    REQUIRE(c->post({record, 1, 0}, note{i, "", {}}) == error::ok);
  const auto start = std::chrono::steady_clock::now();
  c->goodbye(5s);
  CHECK(std::chrono::steady_clock::now() - start < 4s);
  t.server.wait_until_over();
  CHECK(t.server.said_goodbye());
  CHECK(t.server.lost_text().empty());
  CHECK(t.log.size() == 1000);
  CHECK(losses == 0);
  CHECK(c->state() == error::shut_down);
  reply r;
  CHECK(c->call({echo, 1, 0}, note{}, r) == error::shut_down);
  CHECK(c->post({echo, 1, 0}, note{}) == error::shut_down);
}

TEST_CASE("the child of a fork forgets its parent's session without harm to it", "[session]") {
  setup t;
  auto c = connected(t.server.options());
  reply r;
  REQUIRE(c->call({echo, 1, 0}, note{}, r) == error::ok);
  const pid_t child = fork();
  if (child == 0) {
    c->abandon_after_fork();
    const bool forgotten = c->post({record, 1, 0}, note{}) == error::shut_down &&
                           c->call({echo, 1, 0}, note{}, r) == error::shut_down;
    _exit(forgotten ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(c->post({record, 1, 0}, note{}) == error::ok);
  CHECK(c->call({echo, 1, 0}, note{}, r) == error::ok);
  CHECK(t.log.size() == 1);
}

TEST_CASE("idle ends use no processor time", "[session]") {
  setup t;
  auto c = connected(t.server.options(2));
  reply r;
  for (int i = 0; i < 100; ++i) {
    REQUIRE(c->post({record, 1, 0}, note{}) == error::ok);
    REQUIRE(c->call({echo, 1, 0}, note{}, r) == error::ok);
  }
  std::this_thread::sleep_for(20ms);
  const auto before = cpu_seconds();
  std::this_thread::sleep_for(1s);
  // The fixture's executor looks up twenty times a second; a spinning thread would use a whole
  // second.
  CHECK(cpu_seconds() - before < 0.05);
}

TEST_CASE("notices come in order while the ordered stream stands still", "[session]") {
  std::atomic<bool> stand_still{true};
  test_server server([&](server_session& s, const received_frame& f) {
    while (stand_still) std::this_thread::sleep_for(1ms);
    MUST(s.reply(f.header.sequence, 0, 0, nothing{}) == error::ok);
  });
  auto c = connected(server.options());
  std::thread caller([&] {
    reply r;
    MUST(c->call({1, 1, 0}, note{}, r) == error::ok);
  });
  constexpr std::uint64_t count = 500;
  for (std::uint64_t i = 0; i < count; ++i) {
    note n;
    n.value = i;
    REQUIRE(c->notify(7, 9, n) == error::ok);
  }
  for (int i = 0; i < 5000 && server.notices.size() < count; ++i) std::this_thread::sleep_for(1ms);
  stand_still = false;
  caller.join();
  const auto heard = server.notices.take();
  REQUIRE(heard.size() == count);
  for (std::uint64_t i = 0; i < count; ++i)
    REQUIRE((heard[i].call == 7 && heard[i].lane == 9 && heard[i].value == i));
}
