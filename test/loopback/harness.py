# SPDX-License-Identifier: Apache-2.0
"""Starts the real gpuwired on the soft GPU and runs real client programs against it, each with a deadline.

Nothing here waits without an end: a program that exceeds its deadline is killed after the stacks of both sides were printed.
Settings come from the build through the environment: GPUWIRE_BUILD (its folder), GPUWIRE_CLIENT_PRELOAD (the sanitizer's
runtime for programs that were built without it), GPUWIRE_SLOWDOWN (what sanitizers cost; multiplies deadlines).
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

BUILD = os.environ["GPUWIRE_BUILD"]
PRELOAD = os.environ.get("GPUWIRE_CLIENT_PRELOAD", "")
SLOWDOWN = float(os.environ.get("GPUWIRE_SLOWDOWN", "1"))
GPUWIRED = os.path.join(BUILD, "bin", "gpuwired")
PROGRAMS = os.path.join(BUILD, "test", "programs")
EXAMPLES = os.path.join(BUILD, "examples")


def program(name):
    return os.path.join(PROGRAMS, name)


def print_stacks(pid, what):
    print(f"--- stacks of {what} ({pid})", file=sys.stderr, flush=True)
    if shutil.which("gdb") is None:
        print("gdb is not installed", file=sys.stderr)
        return
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["gdb", "-p", str(pid), "-batch", "-nx", "-ex", "thread apply all bt 12"], stdout=sys.stderr,
                       stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60, check=False)


def children_of(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
    return [child for child in found if state_of(child) not in ("", "Z")]


def is_nvml_helper(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[1:2] == [b"--nvml"]
    except OSError:
        return False


def state_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""


def cpu_seconds(pid):
    """User and system time of a process with all its threads."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(condition, seconds, step=0.01):
    """True as soon as condition() is, False when the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(step)
    return bool(condition())


class Daemon:
    """gpuwired as a child. `with Daemon() as daemon:` stops it at the end and checks that it had not died."""

    def __init__(self, *arguments, driver="soft", environment=None):
        self.arguments = [GPUWIRED, "--driver", driver, "--listen", "127.0.0.1", "--port", "0", *arguments]
        self.environment = {**os.environ, **(environment or {})}
        self.environment.pop("LD_PRELOAD", None)
        # A worker's stderr belongs to its client, so what a sanitizer says of it goes to files.
        self.reports = tempfile.TemporaryDirectory()
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            others = self.environment.get(name, "")
            self.environment[name] = f"{others}:log_path={self.reports.name}/{name}:print_stacktrace=1".lstrip(":")
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self.process = None
        self.port = 0

    def __enter__(self):
        self.process = subprocess.Popen(self.arguments, stdout=subprocess.PIPE, stderr=self.log, stdin=subprocess.DEVNULL,
                                        text=True, start_new_session=True, env=self.environment)
        guard = threading.Timer(20 * SLOWDOWN, self.process.kill)
        guard.start()
        for line in self.process.stdout:
            if match := re.fullmatch(r"listening on .*:(\d+)", line.strip()):
                self.port = int(match.group(1))
                break
        guard.cancel()
        if not self.port:
            self.stop()
            text = self.log_text()
            self.log.close()
            raise AssertionError("gpuwired did not say where it listens:\n" + text)
        return self

    def __exit__(self, kind, value, trace):
        died = self.process.poll()
        self.stop()
        report = self.sanitizer_report()
        if kind is not None or died is not None or report:
            print("--- log of gpuwired", self.log_text(), report, sep="\n", file=sys.stderr, flush=True)
        self.log.close()
        self.reports.cleanup()
        if kind is None and died is not None:
            raise AssertionError(f"gpuwired ended by itself with {died}")
        if kind is None and report:
            raise AssertionError("a sanitizer complained; its words are above")

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(10 * SLOWDOWN)
        except subprocess.TimeoutExpired:
            print_stacks(self.process.pid, "gpuwired, which does not end")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def log_text(self):
        self.log.flush()
        with open(f"/proc/self/fd/{self.log.fileno()}", encoding="utf-8", errors="replace") as file:
            return file.read()

    def sanitizer_report(self):
        report = ""
        for name in sorted(os.listdir(self.reports.name)):
            with open(os.path.join(self.reports.name, name), encoding="utf-8", errors="replace") as file:
                report += file.read(8000)
        return report

    def workers(self):
        """The processes of its sessions; the NVML helper, which stays for a while, is none."""
        return [child for child in children_of(self.process.pid) if not is_nvml_helper(child)]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def client_environment(self, **more):
        return client_environment(f"127.0.0.1:{self.port}", **more)

    def print_stacks(self):
        print_stacks(self.process.pid, "gpuwired")
        for worker in self.workers():
            print_stacks(worker, "a worker")


def client_environment(server, **more):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUWIRE_", "CUDA_"))}
    environment.update(LD_LIBRARY_PATH=os.path.join(BUILD, "lib"), GPUWIRE_SERVER=server)
    environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
    environment.setdefault("TSAN_OPTIONS", "die_after_fork=0")  # a forked child may start anew
    environment.update(more)
    return environment


def needs_preload(path):
    """Programs of the tests are built with the sanitizer themselves; nvcc's are not."""
    return PRELOAD and not path.startswith(PROGRAMS)


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def __str__(self):
        return f"exit status {self.code} after {self.seconds:.2f} s\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


def start_client(path, *arguments, environment):
    environment = dict(environment)
    if needs_preload(path):
        environment["LD_PRELOAD"] = PRELOAD
    return subprocess.Popen([path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, errors="replace", env=environment)


def finish(process, seconds=60, daemon=None, started=None):
    started = started or time.monotonic()
    try:
        out, err = process.communicate(timeout=seconds * SLOWDOWN)
    except subprocess.TimeoutExpired:
        print_stacks(process.pid, "the client, which exceeded its deadline")
        if daemon is not None:
            daemon.print_stacks()
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{process.args} did not end within {seconds * SLOWDOWN:.0f} s\n{out}\n{err}") from None
    return Result(process.returncode, out, err, time.monotonic() - started)


def run_client(path, *arguments, daemon=None, environment=None, seconds=60):
    started = time.monotonic()
    process = start_client(path, *arguments, environment=environment or daemon.client_environment())
    return finish(process, seconds, daemon, started)


@contextlib.contextmanager
def held_client(daemon, how="idle", environment=None):
    """A client that said "ready" and holds its session; killed at the end unless it has ended."""
    process = start_client(program("hold"), how, environment=environment or daemon.client_environment())
    guard = threading.Timer(30 * SLOWDOWN, process.kill)
    guard.start()
    line = process.stdout.readline()
    guard.cancel()
    try:
        if line != "ready\n":
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"hold {how} did not get ready: {line}{out}{err}")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        process.wait()
