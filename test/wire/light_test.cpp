// SPDX-License-Identifier: Apache-2.0
// The answering end of a light connection over a pair of sockets: answers what it is asked, and
// ends for whoever breaks a rule.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "test/catch.hpp"
#include "wire/header.hpp"
#include "wire/light_server.hpp"
#include "wire/limits.hpp"

using namespace gpuwire::wire;

namespace {

class server {
 public:
  server() {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0);
    thread_ = std::thread([this] {
      ended_ = serve_light(ends_[1], [](const light_question& q, light_answer& a) {
        a.result = static_cast<int>(q.call);
        a.body.assign(q.body.begin(), q.body.end());
        if (!a.body.empty()) a.body.push_back(std::byte{1});  // needs padding
        return q.call != 13;
      });
      ::shutdown(ends_[1], SHUT_RDWR);
    });
  }
  ~server() {
    if (thread_.joinable()) how_it_ended();
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  void send(frame_header header, const std::string& body = {}) {
    header.body_bytes = static_cast<std::uint32_t>(body.size());
    send_raw(header, body);
  }
  void send_raw(const frame_header& header, const std::string& body = {}) {
    std::vector<char> bytes(sizeof header);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes.insert(bytes.end(), body.begin(), body.end());
    REQUIRE(::send(ends_[0], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  reply_prefix answer(std::string& body) {
    frame_header header;
    reply_prefix prefix;
    REQUIRE(::recv(ends_[0], &header, sizeof header, MSG_WAITALL) == sizeof header);
    REQUIRE(header.kind == frame_kind::reply);
    REQUIRE(::recv(ends_[0], &prefix, sizeof prefix, MSG_WAITALL) == sizeof prefix);
    body.resize(header.body_bytes - sizeof prefix);
    if (!body.empty())
      REQUIRE(::recv(ends_[0], body.data(), body.size(), MSG_WAITALL) ==
              static_cast<ssize_t>(body.size()));
    return prefix;
  }
  std::string how_it_ended() {
    ::shutdown(ends_[0], SHUT_WR);
    thread_.join();
    return ended_;
  }

 private:
  int ends_[2];
  std::thread thread_;
  std::string ended_;
};

frame_header question(std::uint16_t call, std::uint64_t sequence) {
  frame_header h;
  h.kind = frame_kind::command_called;
  h.call = call;
  h.sequence = sequence;
  return h;
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("questions on a light connection are answered in order") {
  server s;
  std::string body;
  s.send(question(7, 1), std::string(16, 'x'));
  s.send(question(8, 2));
  auto prefix = s.answer(body);
  REQUIRE(prefix.answers == 1);
  REQUIRE(prefix.result == 7);
  REQUIRE(body == std::string(16, 'x') + '\1' + std::string(7, '\0'));
  prefix = s.answer(body);
  REQUIRE(prefix.answers == 2);
  REQUIRE(prefix.result == 8);
  REQUIRE(body.empty());
  REQUIRE(says(s.how_it_ended(), "closed"));
}

TEST_CASE("a light connection ends for a client that breaks a rule") {
  server s;
  SECTION("a sequence with a gap") {
    s.send(question(7, 2));
    REQUIRE(says(s.how_it_ended(), "does not belong"));
  }
  SECTION("another kind of frame") {
    auto h = question(7, 1);
    h.kind = frame_kind::command_posted;
    s.send(h);
    REQUIRE(says(s.how_it_ended(), "does not belong"));
  }
  SECTION("a flag") {
    auto h = question(7, 1);
    h.flags = frame_flags::bulk;
    s.send(h);
    REQUIRE(says(s.how_it_ended(), "does not belong"));
  }
  SECTION("a body above the limit, before it is there") {
    auto h = question(7, 1);
    h.body_bytes = limits::light_body_bytes_max + 8;
    s.send_raw(h);
    REQUIRE(says(s.how_it_ended(), "size limit"));
  }
  SECTION("a body that is no multiple of eight") {
    s.send(question(7, 1), "abc");
    REQUIRE(says(s.how_it_ended(), "malformed"));
  }
  SECTION("a question that its reader cannot understand") {
    s.send(question(13, 1));
    REQUIRE(says(s.how_it_ended(), "malformed question"));
  }
}
