#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends of clients and of the daemon: a killed client frees its session, many of them leave nothing behind, nobody burns
processor time for nothing, a daemon that dies is reported and not waited for."""

import os
import signal
import time
import unittest

import harness


class ClientsThatDie(unittest.TestCase):
    def expect_freed(self, daemon, since):
        self.assertTrue(harness.wait_until(lambda: not daemon.workers(), 10 * harness.SLOWDOWN), "the worker stays")
        self.assertLess(time.monotonic() - since, 2 * harness.SLOWDOWN)

    def test_a_killed_idle_client_is_freed_within_two_seconds(self):
        with harness.Daemon() as daemon, harness.held_client(daemon) as client:
            self.assertEqual(len(daemon.workers()), 1)
            client.kill()
            self.expect_freed(daemon, time.monotonic())

    def test_a_client_killed_inside_a_long_kernel_is_freed_within_two_seconds(self):
        with harness.Daemon() as daemon, harness.held_client(daemon, "busy") as client:
            time.sleep(0.3)
            client.kill()
            self.expect_freed(daemon, time.monotonic())

    def test_an_orderly_end_frees_at_once(self):
        with harness.Daemon() as daemon, harness.held_client(daemon) as client:
            result = harness.finish(client, 20, daemon)
            self.assertEqual(result.code, 0, str(result))
            self.assertTrue(harness.wait_until(lambda: not daemon.workers(), 1 * harness.SLOWDOWN))

    def test_a_dying_client_does_not_disturb_another(self):
        with harness.Daemon() as daemon, harness.held_client(daemon, "steady") as steady:
            for _ in range(5):
                with harness.held_client(daemon, "busy") as victim:
                    victim.kill()
            result = harness.finish(steady, 20, daemon)
            self.assertEqual(result.code, 0, str(result))

    def test_fifty_connect_and_kill_cycles_leave_nothing(self):
        with harness.Daemon() as daemon:
            def cycle():
                with harness.held_client(daemon) as client:
                    client.kill()
            for _ in range(3):
                cycle()
            self.assertTrue(harness.wait_until(lambda: not daemon.workers(), 10 * harness.SLOWDOWN))
            time.sleep(0.5)
            before = daemon.descriptors(), daemon.threads()
            for _ in range(50 if harness.SLOWDOWN == 1 else 15):
                cycle()
            self.assertTrue(harness.wait_until(lambda: not daemon.workers(), 10 * harness.SLOWDOWN))
            self.assertTrue(harness.wait_until(lambda: (daemon.descriptors(), daemon.threads()) <= before, 5),
                            f"descriptors and threads {before} before, {daemon.descriptors(), daemon.threads()} after")
            zombies = [pid for pid in os.listdir("/proc") if pid.isdigit() and self.is_zombie_of(pid, daemon.process.pid)]
            self.assertEqual(zombies, [])

    @staticmethod
    def is_zombie_of(pid, parent):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                state, ppid = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            return False
        return state == "Z" and int(ppid) == parent


class Idleness(unittest.TestCase):
    def test_an_idle_client_and_an_idle_daemon_use_no_processor_time(self):
        with harness.Daemon() as daemon, harness.held_client(daemon) as client:
            processes = [client.pid, daemon.process.pid, *daemon.workers()]
            self.assertEqual(len(processes), 3)
            time.sleep(0.5)
            before = [harness.cpu_seconds(pid) for pid in processes]
            time.sleep(3)
            used = [harness.cpu_seconds(pid) - start for pid, start in zip(processes, before)]
            for what, seconds in zip(("client", "daemon", "worker"), used):
                self.assertLessEqual(seconds, 0.02, f"the {what} used {seconds} s in 3 s")


class DaemonsThatDie(unittest.TestCase):
    def test_a_client_whose_worker_dies_is_told_and_does_not_hang(self):
        with harness.Daemon() as daemon, harness.held_client(daemon, "steady") as client:
            os.kill(daemon.workers()[0], signal.SIGKILL)
            # Its standard input stays open: it ends because a call fails.
            self.assertTrue(harness.wait_until(lambda: client.poll() is not None, 10 * harness.SLOWDOWN), "it hangs")
            result = harness.finish(client, 5)
            self.assertEqual(result.code, 1, str(result))
            self.assertIn("CUDA_ERROR_", result.out)
            lines = [line for line in result.err.splitlines() if line.startswith("gpuwire")]
            self.assertEqual(len(lines), 1, str(result))
            self.assertIn(f"127.0.0.1:{daemon.port}", lines[0])
            probe = harness.run_client(harness.program("probe"), daemon=daemon)
            self.assertEqual(probe.code, 0, str(probe))

    def test_a_client_inside_a_wait_is_told_when_everything_dies(self):
        daemon = harness.Daemon()
        with daemon, harness.held_client(daemon, "busy") as client:
            time.sleep(0.3)
            for worker in daemon.workers():
                os.kill(worker, signal.SIGKILL)
            self.assertTrue(harness.wait_until(lambda: client.poll() is not None, 10 * harness.SLOWDOWN), "it hangs")
            self.assertEqual(client.returncode, 1)

    def test_sigterm_ends_the_daemon_and_its_sessions(self):
        daemon = harness.Daemon()
        daemon.__enter__()
        try:
            with harness.held_client(daemon):
                workers = daemon.workers()
                os.kill(daemon.process.pid, signal.SIGTERM)
                self.assertTrue(harness.wait_until(lambda: daemon.process.poll() is not None, 5 * harness.SLOWDOWN))
                self.assertEqual(daemon.process.returncode, 0, daemon.log_text())
                self.assertTrue(harness.wait_until(lambda: all(harness.state_of(w) in ("", "Z") for w in workers),
                                                   5 * harness.SLOWDOWN))
        finally:
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
