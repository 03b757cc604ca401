// SPDX-License-Identifier: Apache-2.0
#include "wire/net/connect.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "wire/limits.hpp"
#include "wire/thread.hpp"

namespace gpuwire::wire::net {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using std::chrono::steady_clock;

// The next address gets its chance when the one before has been silent this long.
constexpr std::chrono::milliseconds address_stagger{250};
constexpr std::chrono::milliseconds first_retry{20};

struct resolution {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  error_code problem;
  std::vector<tcp::endpoint> found;
};

// The system's resolver cannot be interrupted, so it runs on a thread that is left behind if it
// takes too long.
std::shared_ptr<resolution> start_resolving(const endpoint& server) {
  auto shared = std::make_shared<resolution>();
  thread_group threads;
  const bool started = threads.start("gpuwire-resolve", [shared, server] {
    error_code problem;
    std::vector<tcp::endpoint> found;
    try {
      boost::asio::io_context context(1);
      tcp::resolver resolver(context);
      for (const auto& entry : resolver.resolve(server.host, std::to_string(server.port),
                                                tcp::resolver::numeric_service, problem))
        found.push_back(entry.endpoint());
    } catch (const std::exception&) {
      problem = boost::asio::error::no_recovery;
    }
    std::lock_guard lock(shared->mutex);
    shared->problem = problem;
    shared->found = std::move(found);
    shared->done = true;
    shared->finished.notify_all();
  });
  if (!started) {
    shared->problem = boost::asio::error::no_memory;
    shared->done = true;
  }
  return shared;
}

struct attempt {
  explicit attempt(boost::asio::io_context& context) : socket(context) {}
  tcp::socket socket;
};

// All addresses, each started when the one before failed or has been silent for a while; the first
// that answers wins.
class race {
 public:
  race(const std::vector<tcp::endpoint>& addresses, steady_clock::time_point deadline)
      : addresses_(addresses), deadline_(deadline) {}

  // The winner's descriptor and index; otherwise last_problem() says why not.
  std::optional<std::pair<int, std::size_t>> run() {
    auto next_start = steady_clock::now();
    while (!winner_ && failed_ < addresses_.size() && steady_clock::now() < deadline_) {
      const auto started = attempts_.size();
      if (started < addresses_.size() &&
          (failed_ == started || steady_clock::now() >= next_start)) {
        start(started);
        next_start = steady_clock::now() + address_stagger;
        continue;
      }
      context_.restart();
      context_.run_one_until(attempts_.size() < addresses_.size() ? std::min(deadline_, next_start)
                                                                  : deadline_);
    }
    if (!winner_) return {};
    error_code ignored;
    return std::pair(attempts_[*winner_]->socket.release(ignored), *winner_);
  }
  bool all_failed() const { return failed_ == addresses_.size(); }
  const error_code& last_problem() const { return problem_; }

 private:
  void start(std::size_t i) {
    auto& a = *attempts_.emplace_back(std::make_unique<attempt>(context_));
    const int fd = ::socket(addresses_[i].protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    error_code problem;
    if (fd < 0)
      problem = error_code(errno, boost::system::system_category());
    else
      a.socket.assign(addresses_[i].protocol(), fd, problem);
    if (problem) return finished(i, problem);
    a.socket.async_connect(addresses_[i], [this, i](error_code e) { finished(i, e); });
  }
  void finished(std::size_t i, error_code problem) {
    if (!problem) {
      if (!winner_) winner_ = i;
    } else {
      ++failed_;
      // A refusal says more than a network that is not there at all (v6 on most hosts).
      if (!problem_ || problem == boost::asio::error::connection_refused) problem_ = problem;
    }
  }

  const std::vector<tcp::endpoint>& addresses_;
  steady_clock::time_point deadline_;
  boost::asio::io_context context_{1};
  std::vector<std::unique_ptr<attempt>> attempts_;
  std::optional<std::size_t> winner_;
  std::size_t failed_ = 0;
  error_code problem_;
};

std::string seconds(std::chrono::milliseconds t) {
  auto text = std::to_string(static_cast<double>(t.count()) / 1000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

}  // namespace

struct connector::addresses {
  std::vector<tcp::endpoint> all;
};

connector::connector(endpoint server, std::string token, std::chrono::milliseconds deadline)
    : server_(std::move(server)),
      token_(std::move(token)),
      name_(to_string(server_)),
      patience_(deadline),
      start_(steady_clock::now()),
      deadline_(start_ + deadline) {}

connector::~connector() = default;

connect_failure connector::timed_out(const std::string& what, const std::string& remedy) const {
  return {error::timed_out, what + " within " + seconds(patience_) + "; " + remedy};
}

std::variant<socket, connect_failure> connector::open(const hello& h, welcome& answer) {
  try {
    if (!addresses_) {
      auto resolving = start_resolving(server_);
      std::unique_lock lock(resolving->mutex);
      if (!resolving->finished.wait_until(lock, deadline_, [&] { return resolving->done; }))
        return timed_out("the name '" + server_.host + "' could not be resolved",
                         "see whether the name server answers, or give an address instead");
      if (resolving->problem || resolving->found.empty()) {
        return connect_failure{error::not_resolved,
                               "the name '" + server_.host + "' could not be resolved (" +
                                   resolving->problem.message() +
                                   "); check its spelling or give an address instead"};
      }
      addresses_ = std::make_unique<addresses>(addresses{std::move(resolving->found)});
    }
    auto reached = reach();
    if (auto* failure = std::get_if<connect_failure>(&reached)) return std::move(*failure);
    return shake_hands(std::move(std::get<socket>(reached)), h, answer);
  } catch (const std::exception& e) {
    return connect_failure{error::system_failure,
                           "cannot connect to " + name_ + ": " + std::string(e.what())};
  }
}

std::variant<socket, connect_failure> connector::reach() {
  auto wait = first_retry;
  for (;;) {
    race r(addresses_->all, deadline_);
    if (const auto won = r.run()) {
      socket s(won->first);
      s.configure();
      addresses_->all = {addresses_->all[won->second]};
      return s;
    }
    if (!r.all_failed()) {
      return timed_out("no answer from " + name_,
                       "is the host up, and does its firewall let the port through?");
    }
    const bool refused = r.last_problem() == boost::asio::error::connection_refused;
    const auto now = steady_clock::now();
    if (refused && now + wait < std::min(deadline_, start_ + limits::refused_retry_ms_max)) {
      std::this_thread::sleep_for(wait);
      wait *= 2;
      continue;
    }
    return connect_failure{
        error::refused_connection,
        "cannot connect to " + name_ + ": " + r.last_problem().message() +
            (refused ? "; start gpuwired there, or correct the address of the server"
                     : "; check the address of the server and the way to it")};
  }
}

std::variant<socket, connect_failure> connector::shake_hands(socket s, const hello& h,
                                                             welcome& answer) {
  client_handshake shake(token_, h);
  std::vector<std::byte> in, out;
  auto state = shake.advance({}, out);
  for (bool heard = false;;) {
    if (!out.empty()) {
      iovec part{out.data(), out.size()};
      const auto sent = s.send_all(&part, 1);
      // The server may have refused and closed while we spoke: what it said is still to be read.
      if (sent.status != io::done && state != handshake_state::need_bytes) break;
      out.clear();
    }
    if (state != handshake_state::need_bytes) break;
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(deadline_ - steady_clock::now());
    if (left.count() <= 0 || !s.wait_readable(left)) {
      return heard ? timed_out("the handshake with " + name_ + " came to no end",
                               "its log may say why")
                   : timed_out(name_ + " accepted the connection but sent no greeting",
                               "does gpuwired listen on this port?");
    }
    in.resize(std::min<std::size_t>(shake.wanted(), 4096));
    const auto received = s.receive_now(in);
    if (received.status == io::would_wait) continue;
    if (received.status != io::done) {
      return connect_failure{
          heard ? error::connection_lost : error::not_gpuwire,
          name_ + " ended the connection " +
              (heard ? "in the middle of the handshake; its log may say why"
                     : "without a greeting; does gpuwired listen on this port?") +
              (received.status == io::failed ? " (" + error_text(received) + ")" : "")};
    }
    heard = true;
    in.resize(received.bytes);
    state = shake.advance(in, out);
  }
  if (state == handshake_state::done) {
    answer = shake.result();
    return s;
  }
  return connect_failure{shake.code(), name_ + ": " + shake.reason()};
}

}  // namespace gpuwire::wire::net
