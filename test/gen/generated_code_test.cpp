// SPDX-License-Identifier: Apache-2.0
// The code that the generator writes for the toy API (golden/expected), compiled and run: entry,
// request, codec, dispatch, toy driver, reply, outputs. The transport between them is golden/fake.
#include <toy.h>

#include <cstring>
#include <string>
#include <vector>

#include "daemon/generated/custom.hpp"
#include "shim/entry.hpp"
#include "shim/generated/custom.hpp"
#include "shim/generated/error_table.hpp"
#include "shim/generated/proc_table.hpp"
#include "test/catch.hpp"
#include "wire/generated/call_table.hpp"

using gpuwire::daemon::call_context;
using gpuwire::shim::record;

namespace gpuwire::shim::custom {
toyResult toyInit(unsigned int flags) {
  return flags == 0 ? TOY_SUCCESS : TOY_INVALID;
}
toyResult toyHere(int* a) {
  *a = 5;
  return TOY_SUCCESS;
}
toyResult toyLaunch(void**, toyQueue queue) {
  return queue ? TOY_SUCCESS : TOY_INVALID;
}
toyResult toyBlob(const void* blob, void* answer) {
  msg::toyBlob::request q;
  q.blob = {static_cast<const std::byte*>(blob), 4};
  const auto a = call<msg::toyBlob>(q);
  std::memcpy(answer, a.body.answer.data, a.body.answer.size);
  return a.result;
}
}  // namespace gpuwire::shim::custom

namespace gpuwire::daemon::custom {
outcome open(call_context& c, const msg::open::request&) {
  return c.finish<msg::open>(TOY_SUCCESS, {});
}
outcome start(call_context& c, const msg::start::request&) {
  return c.finish<msg::start>(TOY_SUCCESS, {});
}
outcome create(call_context& c, const msg::create::request&) {
  return c.finish<msg::create>(TOY_SUCCESS, {});
}
outcome ask(call_context& c, const msg::ask::request&) {
  return c.finish<msg::ask>(TOY_SUCCESS, {});
}
outcome toyBlob(call_context& c, const msg::toyBlob::request& q) {
  msg::toyBlob::reply r;
  r.answer = q.blob;
  return c.finish<msg::toyBlob>(TOY_SUCCESS, r);
}
outcome toyBoth(call_context& c, const msg::toyBoth::request& q) {
  msg::toyBoth::reply r;
  r.a = q.a_wanted ? 77 : 0;
  return c.finish<msg::toyBoth>(TOY_SUCCESS, r);
}
}  // namespace gpuwire::daemon::custom

namespace {

std::string last;  // what the toy driver was asked for, as text

template <class... Values>
void note(const Values&... values) {
  last.clear();
  ((last += std::to_string(values) + " "), ...);
}

template <class Handle>
Handle handle(std::uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}

std::uintptr_t number(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

// The toy driver: every function that the daemon calls natively.
void install() {
  auto& t = call_context::table;
  t = {};
  call_context::released.clear();
  record::called.clear();
  record::posted.clear();
  record::cached.clear();
  record::forgotten.clear();
  record::refused = nullptr;
  record::initialised = true;
  last.clear();
  t.toyScalars = [](int a, unsigned char b, size_t c, float d, double e, toyMode mode, toySide side,
                    toyDevice device) {
    note(a, b, c, d, e, static_cast<int>(mode), static_cast<int>(side), device);
    return TOY_SUCCESS;
  };
  t.toyGetInfo = [](size_t* free, long long* total, toyMode* mode) {
    note(free != nullptr, total != nullptr, mode != nullptr);
    if (free) *free = ~size_t{0};
    if (total) *total = -4;
    if (mode) *mode = TOY_WARM;
    return TOY_SUCCESS;
  };
  t.toySetLimit = [](toyMode which, int value) {
    return value < 0 || which != TOY_WARM ? TOY_INVALID : TOY_SUCCESS;
  };
  t.toyExchange = [](int* value) {
    if (!value) return TOY_INVALID;
    *value = -*value;
    return TOY_SUCCESS;
  };
  t.toyPeek = [](const int* value, int* twice) {
    if (!value) return TOY_INVALID;
    if (twice) *twice = 2 * *value;
    return TOY_SUCCESS;
  };
  t.toySetPlace = [](const toyPlace* place, toyPlace p) {
    note(place ? place->words[1] : 0, static_cast<int>(p.side), p.id, p.words[0], p.words[1],
         p.inner.ratio);
    return TOY_SUCCESS;
  };
  t.toyGetPlace = [](toyPlace* place, int id) {
    if (place) *place = {TOY_LEFT, id, {8, 9}, {0.5f}};
    return TOY_SUCCESS;
  };
  t.toyQueueCreate = [](toyQueue* queue, int q, int r) {
    if (queue) *queue = handle<toyQueue>(static_cast<std::uintptr_t>(q + r));
    return TOY_SUCCESS;
  };
  t.toyQueueDestroy = [](toyQueue queue) {
    return number(queue) == 5000 ? TOY_NOT_READY : TOY_SUCCESS;
  };
  t.toyMarkGet = [](toyMark* mark, toyQueue queue) {
    note(number(queue));
    if (mark) *mark = handle<toyMark>(number(queue) + 1);
    return TOY_SUCCESS;
  };
  t.toyRecord = [](toyMark mark, toyQueue queue) {
    note(number(mark), number(queue));
    return TOY_SUCCESS;
  };
  t.toyFind = [](int* length, const char* name, const char* other) {
    if (!name) return TOY_INVALID;
    if (length) *length = static_cast<int>(std::strlen(name) + (other ? std::strlen(other) : 100));
    return TOY_SUCCESS;
  };
  t.toyWrite = [](const void* data, size_t bytes, size_t count) {
    last = data ? std::string(static_cast<const char*>(data), bytes * count) : "null";
    return TOY_SUCCESS;
  };
  t.toyRead = [](void* data, size_t bytes) {
    note(data != nullptr, bytes);
    if (data) std::memset(data, 'x', bytes);
    return TOY_SUCCESS;
  };
  t.toySum = [](long long* sum, const int* values, const toyMode* modes, unsigned int n) {
    long long total = 0;
    for (unsigned int i = 0; i < n && values; ++i)
      total += values[i] * (modes && modes[i] == TOY_WARM ? 10 : 1);
    if (sum) *sum = total;
    return TOY_SUCCESS;
  };
  t.toyFill = [](int* values, unsigned int n, int first) {
    note(values != nullptr, n, first);
    for (unsigned int i = 0; i < n && values; ++i) values[i] = first + static_cast<int>(i);
    return TOY_SUCCESS;
  };
  t.toyWaitAll = [](const toyQueue* queues, int n) {
    last = queues ? "" : "null";
    for (int i = 0; i < n && queues; ++i) last += std::to_string(number(queues[i])) + " ";
    return TOY_SUCCESS;
  };
  t.toyList = [](toyMark* marks, int n) {
    for (int i = 0; i < n; ++i) marks[i] = handle<toyMark>(static_cast<std::uintptr_t>(i));
    return TOY_SUCCESS;
  };
}

}  // namespace

TEST_CASE("scalars of every width arrive, devices translated") {
  install();
  CHECK(toyScalars(-1, 255, ~size_t{0}, 0.5f, 0.25, TOY_WARM, TOY_LEFT, 3) == TOY_SUCCESS);
  CHECK(last == "-1 255 18446744073709551615 0.500000 0.250000 1 -1 103 ");
  CHECK(record::posted.size() == 1);
}

TEST_CASE("outputs come back, and a null one stays null on the other side") {
  install();
  size_t free = 1;
  long long total = 1;
  toyMode mode = TOY_COLD;
  CHECK(toyGetInfo(&free, &total, &mode) == TOY_SUCCESS);
  CHECK(free == ~size_t{0});
  CHECK(total == -4);
  CHECK(mode == TOY_WARM);
  CHECK(toyGetInfo(nullptr, &total, nullptr) == TOY_SUCCESS);
  CHECK(last == "0 1 0 ");
}

TEST_CASE("a failed call writes no output") {
  install();
  int twice = 1;
  CHECK(toyPeek(nullptr, &twice) == TOY_INVALID);
  CHECK(twice == 1);
}

TEST_CASE("a value that goes both ways does") {
  install();
  int value = 7;
  CHECK(toyExchange(&value) == TOY_SUCCESS);
  CHECK(value == -7);
  CHECK(toyExchange(nullptr) == TOY_INVALID);
}

TEST_CASE("structs travel field by field") {
  install();
  const toyPlace place{TOY_RIGHT, 1, {2, 3}, {4.0f}};
  CHECK(toySetPlace(&place, {TOY_LEFT, 5, {6, 7}, {0.5f}}) == TOY_SUCCESS);
  CHECK(last == "3 -1 5 6 7 0.500000 ");
  CHECK(toySetPlace(nullptr, place) == TOY_SUCCESS);
  CHECK(last == "0 1 1 2 3 4.000000 ");
  toyPlace got{};
  CHECK(toyGetPlace(&got, 6) == TOY_SUCCESS);
  CHECK((got.side == TOY_LEFT && got.id == 6 && got.words[0] == 8 && got.words[1] == 9 &&
         got.inner.ratio == 0.5f));
}

TEST_CASE("handles are minted, translated and released") {
  install();
  toyQueue queue = nullptr;
  CHECK(toyQueueCreate(&queue, 40, 2) == TOY_SUCCESS);
  CHECK(number(queue) == 1042);
  toyMark mark = nullptr;
  CHECK(toyMarkGet(&mark, queue) == TOY_SUCCESS);
  CHECK(last == "42 ");
  CHECK(number(mark) == 1043);
  CHECK(toyMarkGet(&mark, handle<toyQueue>(500)) == TOY_INVALID);
  CHECK(toyQueueDestroy(handle<toyQueue>(6000)) == TOY_NOT_READY);
  CHECK(call_context::released.empty());
  CHECK(toyQueueDestroy(queue) == TOY_SUCCESS);
  CHECK(call_context::released == std::vector<std::uint64_t>{1042});
}

TEST_CASE("a per-thread entry makes the null queue the thread's own") {
  install();
  CHECK(toyRecord(handle<toyMark>(1001), nullptr) == TOY_SUCCESS);
  CHECK(last == "1 0 ");
  CHECK(toyRecord_ptsz(handle<toyMark>(1001), nullptr) == TOY_SUCCESS);
  CHECK(last == "1 2 ");
}

TEST_CASE("texts may be null") {
  install();
  int length = 0;
  CHECK(toyFind(&length, "four", "five5") == TOY_SUCCESS);
  CHECK(length == 9);
  CHECK(toyFind(&length, "four", nullptr) == TOY_SUCCESS);
  CHECK(length == 104);
  CHECK(toyFind(&length, nullptr, nullptr) == TOY_INVALID);
}

TEST_CASE("buffers have the length that was said") {
  install();
  CHECK(toyWrite("abcdef", 2, 3) == TOY_SUCCESS);
  CHECK(last == "abcdef");
  CHECK(toyWrite(nullptr, 2, 3) == TOY_SUCCESS);
  CHECK(last == "null");
  char data[8] = "-------";
  CHECK(toyRead(data, 3) == TOY_SUCCESS);
  CHECK(std::string(data) == "xxx----");
  CHECK(toyRead(data, 0) == TOY_SUCCESS);
  CHECK(last == "1 0 ");
  CHECK(toyRead(nullptr, 3) == TOY_SUCCESS);
  CHECK(last == "0 3 ");
}

TEST_CASE("a length beyond the limits is refused on the side that sees it first") {
  install();
  CHECK(toyWrite("a", ~size_t{0}, 2) == TOY_INVALID);
  CHECK(toyWrite("a", 1 << 20, 2) == TOY_INVALID);
  CHECK(record::called.empty());
  char data[1];
  CHECK(toyRead(data, ~size_t{0}) == TOY_INVALID);
  toyMark marks[1];
  CHECK(toyList(marks, -1) == TOY_INVALID);
  CHECK(last.empty());
}

TEST_CASE("arrays of numbers, enumerators and handles travel") {
  install();
  const int values[] = {1, 2, 3};
  const toyMode modes[] = {TOY_COLD, TOY_WARM, TOY_COLD};
  long long sum = 0;
  CHECK(toySum(&sum, values, modes, 3) == TOY_SUCCESS);
  CHECK(sum == 24);
  CHECK(toySum(&sum, values, nullptr, 3) == TOY_SUCCESS);
  CHECK(sum == 6);
  int filled[4] = {0, 0, 0, 9};
  CHECK(toyFill(filled, 3, 5) == TOY_SUCCESS);
  CHECK((filled[0] == 5 && filled[2] == 7 && filled[3] == 9));
  const toyQueue queues[] = {handle<toyQueue>(1008), nullptr};
  CHECK(toyWaitAll(queues, 2) == TOY_SUCCESS);
  CHECK(last == "8 0 ");
  CHECK(toyWaitAll(nullptr, 2) == TOY_SUCCESS);
  CHECK(last == "null");
  toyMark marks[2] = {};
  CHECK(toyList(marks, 2) == TOY_SUCCESS);
  CHECK(number(marks[1]) == 1001);
}

TEST_CASE("an array shorter than its count is malformed and never reaches the driver") {
  install();
  const std::int32_t values[] = {1, 2};
  gpuwire::msg::toySum::request q;
  q.values_given = true;
  q.values = {values, 2};
  q.n = 3;
  gpuwire::shim::exchange<gpuwire::msg::toySum>(q);
  CHECK(record::malformed);
  q.n = 2;
  gpuwire::shim::exchange<gpuwire::msg::toySum>(q);
  CHECK_FALSE(record::malformed);
}

TEST_CASE("a function that the driver lacks is not supported") {
  install();
  int value = 0;
  CHECK(toyGetLimit(&value, TOY_WARM) == TOY_UNSUPPORTED);
  CHECK(toyQueueDestroy_v2(handle<toyQueue>(1001)) == TOY_UNSUPPORTED);
}

TEST_CASE("a cached call is asked through the cache, and what changes its answer empties it") {
  install();
  toyPlace place{};
  CHECK(toyGetPlace(&place, 1) == TOY_SUCCESS);
  CHECK(record::cached == std::vector<std::uint16_t>{0x0108});
  CHECK(toySetLimit(TOY_WARM, -1) == TOY_INVALID);
  CHECK(record::forgotten.empty());
  CHECK(toySetLimit(TOY_WARM, 1) == TOY_SUCCESS);
  CHECK(record::forgotten == std::vector<std::uint16_t>{0x0103, 0x0108});
}

TEST_CASE("handwritten bodies are called on the side that the spec says") {
  install();
  int a = 0;
  CHECK(toyBoth(&a) == TOY_SUCCESS);
  CHECK(a == 77);
  CHECK(toyHere(&a) == TOY_SUCCESS);
  CHECK(a == 5);
  char answer[4] = {};
  CHECK(toyBlob("blob", answer) == TOY_SUCCESS);
  CHECK(std::string(answer, 4) == "blob");
  CHECK(toyLaunch(nullptr, handle<toyQueue>(1)) == TOY_SUCCESS);
}

TEST_CASE("a handwritten body empties the cache with the function that its line gives it") {
  install();
  CHECK(toyLaunch(nullptr, handle<toyQueue>(1)) == TOY_SUCCESS);
  CHECK(record::forgotten.empty());
  gpuwire::shim::custom::forget_after_toyLaunch();
  CHECK(record::forgotten == std::vector<std::uint16_t>{0x0103, 0x0108, 0x0005});
}

TEST_CASE("before the start each function returns its own code") {
  install();
  record::initialised = false;
  int value = 0;
  CHECK(toyBoth(&value) == TOY_NOT_READY);
  CHECK(toyGetLimit(&value, TOY_WARM) == TOY_INVALID);
  CHECK(toyInit(0) == TOY_SUCCESS);
  CHECK(record::called.empty());
}

TEST_CASE("a refused function says its name") {
  install();
  CHECK(toyOldest(1) == TOY_UNSUPPORTED);
  CHECK(std::string(record::refused) == "toyOldest");
}

TEST_CASE("entry points are found by name, version and series") {
  using namespace gpuwire::shim;
  const auto symbol = [](const char* name, int version, bool per_thread) {
    const auto answer = find_proc(name, version, per_thread);
    return answer.status == proc_status::found                    ? std::string(answer.symbol)
           : answer.status == proc_status::version_not_sufficient ? "too old"
                                                                  : "unknown";
  };
  CHECK(symbol("toyQueueDestroy", 999, false) == "too old");
  CHECK(symbol("toyQueueDestroy", 1000, false) == "toyQueueDestroy");
  CHECK(symbol("toyQueueDestroy", 2000, true) == "toyQueueDestroy_v2");
  CHECK(symbol("toyRecord", 3000, false) == "toyRecord");
  CHECK(symbol("toyRecord", 1000, true) == "too old");
  CHECK(symbol("toyRecord", 2000, true) == "toyRecord_ptsz");
  CHECK(symbol("toyGhost", 2000, false) == "toyGhost_v2");
  CHECK(symbol("toyShadow", 2000, false) == "unknown");
  CHECK(symbol("toyQueueDestroy_v2", 2000, false) == "unknown");
  CHECK(find_proc("toyInit", 1000, false).function == reinterpret_cast<void*>(&toyInit));
}

TEST_CASE("results have the header's name and the spec's text") {
  using namespace gpuwire::shim;
  CHECK(std::string(error_name(7)) == "TOY_UNSUPPORTED");
  CHECK(std::string(error_text(1)) == "not \\ fine");
  CHECK(error_name(2) == nullptr);
  CHECK(error_text(-1) == nullptr);
}

TEST_CASE("the table of calls is found by id") {
  using namespace gpuwire::msg;
  const auto* open = find_call(1);
  REQUIRE(open);
  CHECK((open->slow && open->cls == call_class::called && std::string(open->name) == "open"));
  REQUIRE(find_call(0x0101));
  CHECK(find_call(0x0101)->unsafe_in_capture);
  CHECK(find_call(6) == nullptr);
  CHECK(find_call(0xffff) == nullptr);
  for (const auto& c : call_table()) CHECK(find_call(c.id) == &c);
}
