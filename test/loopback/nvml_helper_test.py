#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The NVML helper of a daemon: one for all clients, replaced when it dies, gone with its daemon; and a client whose server is
not there."""

import os
import signal
import sys
import unittest

import harness

CLIENT = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
count = ctypes.c_uint()
for line in sys.stdin:
    word = line.strip()
    if word == "init": print(nvml.nvmlInit_v2(), flush=True)
    elif word == "shutdown": print(nvml.nvmlShutdown(), flush=True)
    elif word == "count": print(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)), flush=True)
"""
SUCCESS, UNINITIALIZED, DRIVER_NOT_LOADED, GPU_IS_LOST = 0, 1, 9, 15


class Client:
    """A process that does what it is told and answers with NVML's codes."""

    def __init__(self, environment):
        self.process = harness.start_client(sys.executable, "-c", CLIENT, environment=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()

    def does(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        """What it wrote to stderr."""
        return harness.finish(self.process).err


def helpers(daemon):
    return [child for child in harness.children_of(daemon.process.pid) if harness.is_nvml_helper(child)]


class NvmlHelperTest(unittest.TestCase):
    def test_clients_share_one_helper_and_need_no_worker(self):
        with harness.Daemon() as daemon, Client(daemon.client_environment()) as one, Client(daemon.client_environment()) as two:
            self.assertEqual(helpers(daemon), [])
            for client in (one, two):
                self.assertEqual(client.does("count"), UNINITIALIZED)
                self.assertEqual(client.does("init"), SUCCESS)
                self.assertEqual(client.does("count"), SUCCESS)
            self.assertEqual(len(helpers(daemon)), 1)
            self.assertEqual(daemon.workers(), [])

    def test_a_client_that_is_killed_does_not_disturb_the_other(self):
        with harness.Daemon() as daemon, Client(daemon.client_environment()) as one, Client(daemon.client_environment()) as two:
            self.assertEqual(one.does("init"), SUCCESS)
            self.assertEqual(two.does("init"), SUCCESS)
            one.process.kill()
            self.assertEqual(two.does("count"), SUCCESS)
            self.assertEqual(two.end(), "")

    def test_a_helper_that_dies_is_replaced_for_those_who_initialise_anew(self):
        with harness.Daemon() as daemon, Client(daemon.client_environment()) as client:
            self.assertEqual(client.does("init"), SUCCESS)
            first = helpers(daemon)
            os.kill(first[0], signal.SIGKILL)
            self.assertTrue(harness.wait_until(lambda: not helpers(daemon), 5 * harness.SLOWDOWN))
            self.assertEqual([client.does("count") for _ in range(3)], [GPU_IS_LOST] * 3)
            self.assertEqual(client.does("shutdown"), SUCCESS)
            self.assertEqual(client.does("init"), SUCCESS)
            self.assertEqual(client.does("count"), SUCCESS)
            self.assertNotEqual(helpers(daemon), first)
            said = client.end().splitlines()
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"127.0.0.1:{daemon.port}", said[0])

    def test_the_helper_ends_with_its_daemon(self):
        with harness.Daemon() as daemon, Client(daemon.client_environment()) as client:
            self.assertEqual(client.does("init"), SUCCESS)
            helper = helpers(daemon)[0]
            daemon.process.send_signal(signal.SIGTERM)
            self.assertTrue(harness.wait_until(lambda: harness.state_of(helper) in ("", "Z"), 5 * harness.SLOWDOWN))
            self.assertEqual(client.does("count"), GPU_IS_LOST)
            daemon.process.wait()
            daemon.process.poll = lambda: None  # it was asked to end

    def test_without_a_server_initialising_fails_with_one_line_and_may_be_tried_again(self):
        with harness.Daemon() as daemon:
            port = daemon.port
        environment = harness.client_environment(f"127.0.0.1:{port}", GPUWIRE_CONNECT_TIMEOUT_MS="300")
        with Client(environment) as client:
            self.assertEqual([client.does("init") for _ in range(2)], [DRIVER_NOT_LOADED] * 2)
            self.assertEqual(client.does("count"), UNINITIALIZED)
            said = client.end().splitlines()
            self.assertEqual(len(said), 1, said)
            self.assertIn(f"127.0.0.1:{port}", said[0])


if __name__ == "__main__":
    unittest.main()
