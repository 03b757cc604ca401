#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong addresses, strangers at the port, wrong secrets, wrong drivers: a prompt, clear error on the side that can act; the
daemon lives on and other sessions notice nothing."""

import contextlib
import fcntl
import http.client
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import harness

PROMPT_SECONDS = 15  # the connect deadline is 10 s


@contextlib.contextmanager
def listener(serve, backlog=8):
    """A server that is not ours: serve(connection) for each client."""
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as server:
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()
        if serve is not None:
            threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


class ClientMeetsBadServer(unittest.TestCase):
    def expect_failure(self, server, *words, environment=None, prefix=()):
        environment = environment or harness.client_environment(server)
        started = time.monotonic()
        process = subprocess.Popen([*prefix, harness.program("probe")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        result = harness.finish(process, 2 * PROMPT_SECONDS, started=started)
        self.assertEqual(result.code, 3, str(result))
        self.assertIn("cuInit: CUDA_ERROR_", result.out)
        self.assertLess(result.seconds, PROMPT_SECONDS * harness.SLOWDOWN, str(result))
        lines = [line for line in result.err.splitlines() if line.startswith("gpuwire")]
        self.assertEqual(len(lines), 1, str(result))
        for word in words:
            self.assertIn(word, lines[0])

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}", "refused")

    def test_nobody_listens_on_the_address(self):
        self.expect_failure("[::1]:9", "[::1]:9")

    def test_a_name_that_does_not_exist(self):
        self.expect_failure("no-such-host.invalid:14840", "no-such-host.invalid")

    def test_an_address_that_is_none(self):
        for text in ("127.0.0.1:99999", "127.0.0.1:port", ":", "[::1"):
            with self.subTest(text):
                self.expect_failure(text, text)

    def test_an_address_that_swallows_everything(self):
        # A full accept queue drops what arrives: to a client that is a black hole on any machine.
        with listener(None, backlog=0) as port, socket.create_connection(("127.0.0.1", port)):
            self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}")

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/dev/net/tun"), "needs root for a network namespace")
    def test_a_black_hole_in_a_network_namespace(self):
        prefix = ("unshare", "-n", sys.executable, os.path.abspath(__file__), "--in-black-hole")
        environment = harness.client_environment("10.9.9.9:14840", GPUWIRE_BUILD=harness.BUILD)
        self.expect_failure("10.9.9.9:14840", "10.9.9.9:14840", environment=environment, prefix=prefix)

    def test_a_server_that_says_nothing(self):
        held = []
        with listener(held.append) as port:
            self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}")
        for connection in held:
            connection.close()

    def test_a_server_that_closes_at_once(self):
        with listener(lambda connection: connection.close()) as port:
            self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}")

    def test_a_server_that_speaks_http(self):
        def serve(connection):
            with contextlib.suppress(OSError), connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        with listener(serve) as port:
            self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}", "gpuwire")

    def test_a_server_that_speaks_garbage(self):
        def serve(connection):
            with contextlib.suppress(OSError), connection:
                while True:
                    connection.sendall(bytes((i * 37 + 11) % 251 for i in range(4096)))
        with listener(serve) as port:
            self.expect_failure(f"127.0.0.1:{port}", f"127.0.0.1:{port}")


class DaemonMeetsStranger(unittest.TestCase):
    def strangers(self, daemon):
        port = daemon.port

        def raw(data, wait_for_close=True):
            with socket.create_connection(("127.0.0.1", port), timeout=PROMPT_SECONDS * harness.SLOWDOWN) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(data)
                    if wait_for_close:
                        while connection.recv(65536):
                            pass

        def web_client():
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PROMPT_SECONDS * harness.SLOWDOWN)
            with contextlib.suppress(http.client.HTTPException, ConnectionError):
                connection.request("GET", "/")
                connection.getresponse()
            connection.close()

        yield "HTTP", web_client
        yield "a TLS hello", lambda: raw(bytes.fromhex("16030100f8010000f40303") + bytes(200))
        yield "garbage", lambda: raw(os.urandom(100_000))
        yield "zeros", lambda: raw(bytes(4096))
        yield "half a hello that ends", lambda: raw(b"gp", wait_for_close=False)
        yield "half a hello that waits", lambda: raw(b"gp")
        yield "nothing", lambda: raw(b"")

    def test_each_is_closed_promptly_and_nobody_else_notices(self):
        with harness.Daemon() as daemon, harness.held_client(daemon, "steady") as steady:
            for name, stranger in self.strangers(daemon):
                with self.subTest(name):
                    started = time.monotonic()
                    stranger()
                    self.assertLess(time.monotonic() - started, PROMPT_SECONDS * harness.SLOWDOWN)
                    self.assertIsNone(steady.poll())
            for protocol in ("HTTP", "TLS"):
                self.assertIn(protocol, daemon.log_text())
            result = harness.run_client(harness.program("probe"), daemon=daemon)
            self.assertEqual(result.code, 0, str(result))
            result = harness.finish(steady, 20, daemon)
            self.assertEqual(result.code, 0, str(result))

    def test_many_who_connect_and_wait(self):
        with harness.Daemon() as daemon, contextlib.ExitStack() as stack:
            for _ in range(100):
                stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), timeout=5))
            result = harness.run_client(harness.program("probe"), daemon=daemon, seconds=PROMPT_SECONDS)
            self.assertEqual(result.code, 0, str(result))

    def test_a_stranger_costs_no_processor_time(self):
        with harness.Daemon() as daemon, socket.create_connection(("127.0.0.1", daemon.port)) as connection:
            connection.sendall(b"g")
            time.sleep(0.3)
            before = harness.cpu_seconds(daemon.process.pid)
            time.sleep(1.5)
            self.assertLess(harness.cpu_seconds(daemon.process.pid) - before, 0.1)


class Tokens(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def file(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
            file.write(text)
        return path

    def test_only_the_right_one_opens(self):
        right, wrong = self.file("right", "a secret of some length\n"), self.file("wrong", "another secret\n")
        with harness.Daemon("--token-file", right) as daemon:
            def attempt(**more):
                return harness.run_client(harness.program("probe"), environment=daemon.client_environment(**more),
                                          seconds=2 * PROMPT_SECONDS)
            for more in ({"GPUWIRE_TOKEN_FILE": wrong}, {}):
                result = attempt(**more)
                self.assertEqual(result.code, 3, str(result))
                self.assertIn("token", result.err)
                self.assertLess(result.seconds, PROMPT_SECONDS * harness.SLOWDOWN)
            result = attempt(GPUWIRE_TOKEN_FILE=right)
            self.assertEqual(result.code, 0, str(result))
            self.assertNotIn("a secret of some length", daemon.log_text())
            self.assertNotIn("another secret", daemon.log_text())

    def test_a_server_that_cannot_prove_that_it_knows_the_token_is_not_used(self):
        with harness.Daemon() as daemon:
            environment = daemon.client_environment(GPUWIRE_TOKEN_FILE=self.file("any", "something"))
            result = harness.run_client(harness.program("probe"), environment=environment)
            self.assertEqual(result.code, 3, str(result))
            self.assertIn("token", result.err)

    def test_a_token_file_that_is_not_there(self):
        with harness.Daemon() as daemon:
            environment = daemon.client_environment(GPUWIRE_TOKEN_FILE="/nonexistent/token")
            result = harness.run_client(harness.program("probe"), environment=environment, seconds=2 * PROMPT_SECONDS)
            self.assertEqual(result.code, 3, str(result))
            self.assertIn("/nonexistent/token", result.err)


class DaemonStart(unittest.TestCase):
    def expect_refusal(self, arguments, *words):
        started = time.monotonic()
        result = subprocess.run([harness.GPUWIRED, *arguments], capture_output=True, text=True, timeout=20 * harness.SLOWDOWN,
                                stdin=subprocess.DEVNULL, check=False)
        self.assertNotEqual(result.returncode, 0, result)
        self.assertGreater(result.returncode, 0, result)  # not by a signal
        self.assertLess(time.monotonic() - started, 10 * harness.SLOWDOWN)
        for word in words:
            self.assertIn(word, result.stderr)

    def test_a_driver_that_does_not_exist(self):
        self.expect_refusal(["--port", "0", "--driver", "/nonexistent/libcuda.so.1"], "/nonexistent/libcuda.so.1")

    def test_a_driver_that_is_no_driver(self):
        self.expect_refusal(["--port", "0", "--driver", "libm.so.6"], "libm.so.6")

    def test_a_driver_that_is_our_own_client(self):
        path = os.path.join(harness.BUILD, "lib", "libcuda.so.1")
        self.expect_refusal(["--port", "0", "--driver", path], path)

    def test_open_to_others_without_a_secret(self):
        self.expect_refusal(["--port", "0", "--driver", "soft", "--listen", "0.0.0.0"], "--token-file", "--insecure")

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            self.expect_refusal(["--driver", "soft", "--port", str(port)], str(port))

    def test_words_that_mean_nothing(self):
        self.expect_refusal(["--no-such-option"], "--no-such-option")
        self.expect_refusal(["--log-level", "loud"], "loud")
        self.expect_refusal(["--port", "70000"], "70000")
        self.expect_refusal(["--token-file", "/nonexistent/token"], "/nonexistent/token")


def in_black_hole(command):
    """Inside a network namespace of its own: a device that accepts every packet and passes none on; then the command."""
    tun = os.open("/dev/net/tun", os.O_RDWR)
    os.set_inheritable(tun, True)
    fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"hole", 0x0001 | 0x1000))  # TUNSETIFF: IFF_TUN | IFF_NO_PI
    subprocess.run("ip addr add 10.9.9.1/24 dev hole && ip link set hole up", shell=True, check=True)
    os.execv(command[0], command)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-black-hole"]:
        in_black_hole(sys.argv[2:])
    unittest.main()
