// SPDX-License-Identifier: Apache-2.0
#include "daemon/listener.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>

#include "daemon/control_channel.hpp"
#include "daemon/session_table.hpp"
#include "daemon/spawn.hpp"
#include "daemon/ticket_service.hpp"
#include "wire/endpoint.hpp"

namespace gpuwire::daemon {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string peer_name(const tcp::socket& socket) {
  error_code problem;
  const auto peer = socket.remote_endpoint(problem);
  if (problem) return "unknown";
  return wire::to_string({peer.address().to_string(), peer.port()});
}

// Who decides what becomes of a connection that has proved itself.
class connection_owner {
 public:
  // Returns the bytes to answer with; `keep` is false when the connection is refused. The
  // descriptor is handed over only after those bytes were sent, by delivered().
  struct decision {
    std::vector<std::byte> answer;
    bool keep = false;
    wire::session_id session{};
  };
  virtual decision decide(wire::server_handshake& handshake, const std::string& peer, int fd) = 0;
  virtual void delivered(const decision& d, const wire::hello& request, int fd) = 0;
  virtual void finished(class pending_connection& connection) = 0;

 protected:
  ~connection_owner() = default;
};

// One connection from accept to the end of its handshake.
class pending_connection : public std::enable_shared_from_this<pending_connection> {
 public:
  pending_connection(tcp::socket socket, const std::string& token, connection_owner& owner)
      : socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        handshake_(token),
        owner_(owner),
        peer_(peer_name(socket_)) {}

  void start() {
    deadline_.expires_after(limits::handshake_deadline);
    deadline_.async_wait([self = shared_from_this()](error_code problem) {
      if (!problem) self->close("no complete handshake in time");
    });
    step({});
  }

  void close(const char* reason) {
    if (closed_) return;
    if (reason != nullptr) log_info("connection closed", {{"peer", peer_}, {"reason", reason}});
    closed_ = true;
    error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
    owner_.finished(*this);
  }

 private:
  void step(std::span<const std::byte> received) {
    outgoing_.clear();
    const auto state = handshake_.advance(received, outgoing_);
    if (state == wire::handshake_state::failed) {
      const auto reason = handshake_.reason().empty() ? std::string(describe(handshake_.code()))
                                                      : handshake_.reason();
      // The peer is told what it may know; it gets a moment to read that before the socket closes.
      send(outgoing_, [this, reason] {
        error_code ignored;
        socket_.shutdown(tcp::socket::shutdown_send, ignored);
        close(reason.c_str());
      });
      return;
    }
    if (state == wire::handshake_state::done) {
      const auto d = owner_.decide(handshake_, peer_, socket_.native_handle());
      auto bytes = outgoing_;
      bytes.insert(bytes.end(), d.answer.begin(), d.answer.end());
      send(std::move(bytes), [this, d] {
        if (d.keep) owner_.delivered(d, handshake_.request(), socket_.native_handle());
        close(nullptr);
      });
      return;
    }
    if (outgoing_.empty())
      receive();
    else
      send(outgoing_, [this] { receive(); });
  }

  // A client that has no token leaves when it is asked for one.
  const char* why_it_left() const {
    return handshake_.wants_proof()
               ? "the client left when it was asked for the token; give it the server's token "
                 "(GPUWIRE_TOKEN or GPUWIRE_TOKEN_FILE)"
               : "the peer went away during the handshake";
  }

  template <class Then>
  void send(std::vector<std::byte> bytes, Then then) {
    sending_ = std::move(bytes);
    if (sending_.empty()) return then();
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this(), then](error_code problem, std::size_t) {
                        if (self->closed_) return;
                        if (problem) return self->close(self->why_it_left());
                        then();
                      });
  }

  void receive() {
    socket_.async_read_some(asio::buffer(incoming_),
                            [self = shared_from_this()](error_code problem, std::size_t bytes) {
                              if (self->closed_) return;
                              if (problem) return self->close(self->why_it_left());
                              self->step(std::span(self->incoming_).first(bytes));
                            });
  }

  tcp::socket socket_;
  asio::steady_timer deadline_;
  wire::server_handshake handshake_;
  connection_owner& owner_;
  std::string peer_;
  std::array<std::byte, 4096> incoming_;
  std::vector<std::byte> outgoing_, sending_;
  bool closed_ = false;
};

class server final : public connection_owner {
 public:
  server(const options& o, const worker_launch& launch, const nvml_launch& nvml)
      : options_(o),
        launch_(launch),
        nvml_(nvml),
        acceptor_(io_),
        ends_(io_, SIGTERM, SIGINT),
        children_(io_, SIGCHLD),
        drain_(io_),
        accept_pause_(io_),
        sessions_(o.sessions_max) {}

  int run() {
    if (!open()) return 1;
    watch_children();
    ends_.async_wait([this](error_code problem, int signal) {
      if (!problem) shut_down(signal);
    });
    accept();
    io_.run();
    log_info("stopped");
    return 0;
  }

 private:
  bool open() {
    error_code problem;
    tcp::resolver resolver(io_);
    const auto found =
        resolver.resolve(options_.listen, std::to_string(options_.port),
                         tcp::resolver::passive | tcp::resolver::numeric_service, problem);
    if (problem || found.empty()) {
      std::fprintf(stderr, "gpuwired: --listen '%s' is no address of this machine: %s\n",
                   options_.listen.c_str(), problem.message().c_str());
      return false;
    }
    const tcp::endpoint where = found.begin()->endpoint();
    const auto attempt = [&](auto&& step) {
      if (!problem) step();
    };
    attempt([&] { acceptor_.open(where.protocol(), problem); });
    attempt([&] { acceptor_.set_option(tcp::acceptor::reuse_address(true), problem); });
    attempt([&] { acceptor_.bind(where, problem); });
    attempt([&] { acceptor_.listen(asio::socket_base::max_listen_connections, problem); });
    if (problem) {
      std::fprintf(
          stderr,
          "gpuwired: cannot listen on %s: %s; --port chooses another port, 0 any free one\n",
          wire::to_string({where.address().to_string(), where.port()}).c_str(),
          problem.message().c_str());
      return false;
    }
    ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC);
    const auto local = acceptor_.local_endpoint(problem);
    const auto name = wire::to_string({local.address().to_string(), local.port()});
    std::printf("listening on %s\n", name.c_str());
    std::fflush(stdout);
    log_info("listening", {{"address", name}, {"secret", options_.token.empty() ? "no" : "yes"}});
    return true;
  }

  void accept() {
    acceptor_.async_accept([this](error_code problem, tcp::socket socket) {
      if (stopping_) return;
      if (problem) {
        // Out of descriptors, mostly: trying again at once would only burn the processor.
        log_warning("cannot accept", {{"reason", problem.message()}});
        accept_pause_.expires_after(std::chrono::milliseconds(50));
        accept_pause_.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      begin(std::move(socket));
      accept();
    });
  }

  void begin(tcp::socket socket) {
    ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    if (pending_.size() >= limits::handshakes_pending_max) {
      // An honest client takes milliseconds, so the oldest is the one that only holds a place.
      const auto oldest = pending_.front();
      oldest->close("too many unfinished handshakes");
    }
    auto connection =
        std::make_shared<pending_connection>(std::move(socket), options_.token, *this);
    pending_.push_back(connection);
    connection->start();
  }

  void finished(pending_connection& connection) override {
    pending_.remove_if([&](const auto& p) { return p.get() == &connection; });
  }

  decision decide(wire::server_handshake& handshake, const std::string& peer, int fd) override {
    const auto& hello = handshake.request();
    const auto refuse = [&](const std::string& reason) {
      log_warning("connection refused", {{"peer", peer}, {"reason", reason}});
      return decision{handshake.refuse(reason), false, {}};
    };
    if (stopping_) return refuse("the server is shutting down");
    if (hello.role == wire::connection_role::light) {
      std::string problem;
      if (!nvml_.ready(problem)) return refuse(problem);
      return {handshake.accept({{}, hello.features}), true, {}};
    }
    if (hello.role == wire::connection_role::command) {
      if (sessions_.full()) {
        return refuse(fmt::format("the server already has {} sessions, its limit (--sessions-max)",
                                  sessions_.size()));
      }
      std::string problem;
      auto entry = start_worker(launch_, sessions_.next_number(), hello.environment, fd, problem);
      if (entry.worker < 0) return refuse(problem);
      entry.peer = peer;
      const auto id = make_session_id();
      log_info("session started", {{"session", std::to_string(entry.number)},
                                   {"peer", peer},
                                   {"worker", std::to_string(entry.worker)}});
      nvml_.session_began(entry.worker, hello.process_key);
      tickets_.serve(entry.number, entry.control.get());
      sessions_.add(id, std::move(entry));
      return {handshake.accept({id, hello.features}), true, id};
    }
    auto* entry = sessions_.find(hello.session);
    if (entry == nullptr) return refuse("the session is unknown or has ended");
    if (!sessions_.admit_connection(*entry)) return refuse("the session has too many connections");
    return {handshake.accept({hello.session, hello.features}), true, hello.session};
  }

  void delivered(const decision& d, const wire::hello& request, int fd) override {
    const auto role = request.role;
    if (role == wire::connection_role::command) return;  // the worker was started with it
    if (role == wire::connection_role::light) {
      nvml_.hand_over(fd, request.process_key);
      return;
    }
    auto* entry = sessions_.find(d.session);
    if (entry == nullptr || !send_control(entry->control.get(), {control_kind::attach, role}, fd)) {
      log_warning("connection dropped: its worker has ended or does not listen");
    }
  }

  void watch_children() {
    children_.async_wait([this](error_code problem, int) {
      if (problem) return;
      reap();
      watch_children();
    });
    reap();
  }

  void reap() {
    int status = 0;
    pid_t child;
    while ((child = ::waitpid(-1, &status, WNOHANG)) > 0) {
      const bool clean = WIFEXITED(status) && WEXITSTATUS(status) == 0;
      if (nvml_.child_ended(child, describe_wait_status(status), clean)) continue;
      nvml_.session_ended(child);
      const auto entry = sessions_.remove_worker(child);
      if (!entry) continue;
      tickets_.forget(entry->number);
      const auto lasted = std::chrono::steady_clock::now() - entry->started;
      log(clean ? log_level::info : log_level::warning, "session ended",
          {{"session", std::to_string(entry->number)},
           {"peer", entry->peer},
           {"reason", clean ? "done" : describe_wait_status(status)},
           {"seconds", fmt::format("{:.1f}", std::chrono::duration<double>(lasted).count())}});
    }
    if (stopping_ && sessions_.size() == 0) io_.stop();
  }

  void shut_down(int signal) {
    log_info("shutting down",
             {{"signal", ::strsignal(signal)}, {"sessions", std::to_string(sessions_.size())}});
    stopping_ = true;
    error_code ignored;
    acceptor_.close(ignored);
    while (!pending_.empty()) {
      const auto first = pending_.front();
      first->close("the server is shutting down");
    }
    nvml_.stop();
    sessions_.for_each([](session_entry& entry) {
      send_control(entry.control.get(), {control_kind::end, {}});
    });
    if (sessions_.size() == 0) return io_.stop();
    drain_.expires_after(limits::drain_deadline);
    drain_.async_wait([this](error_code problem) {
      if (problem) return;
      sessions_.for_each([](session_entry& entry) { ::kill(entry.worker, SIGKILL); });
    });
  }

  const options& options_;
  const worker_launch& launch_;
  nvml_helper nvml_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  asio::signal_set ends_, children_;
  asio::steady_timer drain_, accept_pause_;
  ticket_service tickets_{io_};
  session_table sessions_;
  std::list<std::shared_ptr<pending_connection>> pending_;
  bool stopping_ = false;
};

}  // namespace

int serve(const options& o, const worker_launch& launch, const nvml_launch& nvml) {
  return server(o, launch, nvml).run();
}

}  // namespace gpuwire::daemon
