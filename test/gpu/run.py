#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs programs natively and through gpuwire on one GPU host and compares what they print and how they end.

  run.py --build FOLDER [--suite examples,programs,libraries,torch,jax,other] [--only NAME,...] [--jobs N] ...

FOLDER holds bin/gpuwired, lib/libcuda.so.1 and the programs. The clients run where the host's driver is hidden (needs
root), so nothing can come from it by mistake. A program that is late has the stacks of both sides printed, then it is
ended. Prints one line a program; exit status 1 if one failed, differed or was late.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FRAMEWORKS = {name: HERE / "frameworks" / f"{name}_programs.py" for name in ("torch", "jax", "other")}


def host_drivers():
    """Every libcuda.so.1 and libnvidia-ml.so.1 that a program on this host could find."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    found = re.findall(r"^\s*(?:libcuda|libnvidia-ml)\.so\.1 .*=> (\S+)$", listed, re.M)
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":") + ["/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu"]
    found += [os.path.join(folder, name) for folder in folders if folder for name in ("libcuda.so.1", "libnvidia-ml.so.1")]
    return sorted({os.path.realpath(path) for path in found if os.path.exists(path)})


class Runner:
    def __init__(self, options):
        self.options = options
        self.build = pathlib.Path(options.build).resolve()
        self.drivers = host_drivers()
        self.driver = options.driver or next((path for path in self.drivers if "libcuda" in path), None)
        if not self.driver:
            raise SystemExit("no libcuda.so.1 on this host; --driver names one")
        self.folder = tempfile.TemporaryDirectory()
        self.port = self.start_daemon()

    # --- the daemon ---
    def start_daemon(self):
        self.log = open(os.path.join(self.folder.name, "log"), "w+b")
        command = [str(self.build / "bin/gpuwired"), "--listen", "127.0.0.1", "--port", "0", "--driver", self.driver]
        self.daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True)
        line = self.daemon.stdout.readline()
        found = re.search(r":(\d+)\b", line)
        if not found:
            raise SystemExit(f"gpuwired did not start: {line}{self.spoken()}")
        port = int(found.group(1))
        if self.options.rtt_us:
            self.proxy = subprocess.Popen([self.options.proxy, str(port + 1), "127.0.0.1", str(port), str(self.options.rtt_us // 2)],
                                          start_new_session=True)
            time.sleep(0.5)
            port += 1
        return port

    def spoken(self, last=40):
        self.log.flush()
        with open(self.log.name, errors="replace") as log:
            return "".join(log.readlines()[-last:])

    def end(self):
        for process in (self.daemon, getattr(self, "proxy", None)):
            if process:
                process.terminate()
                process.wait(20)

    # --- one program ---
    def remote_environment(self, base):
        libraries = str(self.build / "lib")
        return {
            **base,
            "LD_LIBRARY_PATH": ":".join(part for part in (libraries, base.get("LD_LIBRARY_PATH", "")) if part),
            "GPUWIRE_SERVER": f"127.0.0.1:{self.port}",
            "TRITON_LIBCUDA_PATH": libraries,
        }

    def hidden(self, command):
        """In a mount namespace of its own, where the host's driver libraries are empty files."""
        if os.geteuid() != 0:
            return command
        script = 'for library in $HIDDEN; do mount --bind /dev/null "$library" || exit 97; done; unset HIDDEN; exec "$@"'
        return ["env", "HIDDEN=" + " ".join(self.drivers), "unshare", "-m", "bash", "-c", script, "hidden"] + command

    def run(self, command, environment, seconds, remote):
        started = time.time()
        process = subprocess.Popen(self.hidden(command) if remote else command, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd=self.folder.name)
        try:
            out, err = process.communicate(timeout=seconds)
            late = ""
        except subprocess.TimeoutExpired:
            late = self.stacks(process.pid, remote)
            os.killpg(process.pid, signal.SIGABRT)  # Python's faulthandler prints its threads
            try:
                out, err = process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
        return {"code": "late" if late else process.returncode, "out": out.decode(errors="replace"),
                "err": late + err.decode(errors="replace"), "seconds": time.time() - started}

    def stacks(self, session, remote):
        """Of every thread of the client, and through gpuwire of the daemon's processes."""
        text = []
        wanted = [session] + ([self.daemon.pid] if remote else [])
        listed = subprocess.run(["ps", "-e", "-o", "pid=,sess=,ppid=,comm="], capture_output=True, text=True, check=False).stdout
        for line in listed.splitlines():
            pid, owner, parent, name = line.split(None, 3)
            if int(owner) not in wanted and int(parent) not in wanted:
                continue
            text.append(f"--- {name} ({pid})\n")
            debugger = shutil.which("gdb") or shutil.which("cuda-gdb")
            if debugger:
                done = subprocess.run([debugger, "-p", pid, "-batch", "-ex", "thread apply all bt 12"], capture_output=True, text=True,
                                      timeout=60, check=False)
                text.append("\n".join(l for l in done.stdout.splitlines() if l.startswith(("#", "Thread"))) + "\n")
                continue
            for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                facts = [(task / what).read_text(errors="replace").strip() for what in ("comm", "wchan", "syscall") if os.access(task / what, os.R_OK)]
                text.append(f"{task.name} {' '.join(facts)}\n")
        return "".join(text)


def compared(native, remote):
    if native["code"] != 0:
        return "skipped", "fails natively"
    if remote["code"] != 0:
        return "FAILED", f"status {remote['code']}"
    if native["out"] != remote["out"]:
        return "DIFFERS", ""
    return "same", ""


def jobs_of(options, build):
    """(suite, name, command), in order."""
    jobs = []
    suites = options.suite.split(",")
    for suite, folder in (("examples", build / "examples"), ("programs", build / "test/programs"), ("libraries", build / "test/gpu_libraries")):
        if suite in suites and folder.is_dir():
            jobs += [(suite, path.name, [str(path)]) for path in sorted(folder.iterdir()) if path.is_file() and os.access(path, os.X_OK)]
    for suite, path in FRAMEWORKS.items():
        if suite in suites:
            names = re.findall(r"^@program\ndef (\w+)", path.read_text(), re.M)
            jobs += [(suite, name, [sys.executable, str(path), name]) for name in names]
    jobs += [("given", os.path.basename(path), [os.path.abspath(path)]) for path in options.program]
    if options.only:
        jobs = [job for job in jobs if job[1] in options.only.split(",")]
    return jobs


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="*", help="further programs to run")
    parser.add_argument("--build", required=True)
    parser.add_argument("--driver", help="the host's libcuda.so.1, where it is not found by itself")
    parser.add_argument("--suite", default="examples,programs,libraries,torch,jax,other")
    parser.add_argument("--only", help="names, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--print", action="store_true", help="print what the programs said")
    parser.add_argument("--seconds", type=int, default=240, help="for one run of one program")
    parser.add_argument("--rtt-us", type=int, default=0, help="round trip to add, by the delay proxy")
    parser.add_argument("--proxy", default="delayproxy")
    parser.add_argument("--native", help="file of native results: read where it has them, written where it has not")
    parser.add_argument("--statistics", action="store_true", help="print what GPUWIRE_STATS says of each program")
    return parser.parse_args()


def main():
    options = arguments()
    runner = Runner(options)
    known = {}
    if options.native and os.path.exists(options.native):
        known = json.loads(pathlib.Path(options.native).read_text())
    base = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1")
    counts = {"same": 0, "skipped": 0, "FAILED": 0, "DIFFERS": 0}

    def both(job):
        suite, name, command = job
        key = f"{suite}/{name}"
        if key not in known:
            known[key] = runner.run(command, base, options.seconds, False)
        environment = runner.remote_environment(base)
        if options.statistics:
            environment["GPUWIRE_STATS"] = "1"
        return job, known[key], runner.run(command, environment, options.seconds, True)

    print(f"{'program':<36} {'native':>9} {'gpuwire':>9}", flush=True)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for job, native, remote in pool.map(both, jobs_of(options, runner.build)):
                verdict, why = compared(native, remote)
                counts[verdict] += 1
                print(f"{job[0] + '/' + job[1]:<36} {native['seconds']:7.2f} s {remote['seconds']:7.2f} s  {verdict} {why}", flush=True)
                shown = native if verdict == "skipped" else remote
                if options.print:
                    print(shown["out"], end="")
                if verdict == "DIFFERS":
                    print(*(f"    native  {line}" for line in native["out"].splitlines() if line not in remote["out"]), sep="\n")
                    print(*(f"    gpuwire {line}" for line in remote["out"].splitlines() if line not in native["out"]), sep="\n")
                elif verdict != "same":
                    lines = (shown["out"] + shown["err"]).splitlines()
                    kept = lines if remote["code"] == "late" else lines[-12:]
                    print(*(f"    {line[:300]}" for line in kept[-200:]), sep="\n", flush=True)
                if options.statistics:
                    print(*(f"    {line}" for line in remote["err"].splitlines() if "gpuwire" in line or line.startswith("  ")), sep="\n")
    finally:
        runner.end()
        if options.native:
            pathlib.Path(options.native).write_text(json.dumps(known))
    failed = counts["FAILED"] + counts["DIFFERS"]
    if failed:
        print("--- log of gpuwired", runner.spoken(), sep="\n")
    print(f"TESTS: {counts['same']} passed, {failed} failed, {counts['skipped']} skipped", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
