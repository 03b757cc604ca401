#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the client's settings make it say: GPUWIRE_STATS, a GPUWIRE_LOG that means nothing, and a token that is missing."""

import os
import re
import tempfile

import harness


def check(condition, what, result):
    if not condition:
        raise AssertionError(f"{what}\n{result}")


def statistics():
    with harness.Daemon() as daemon:
        result = harness.run_client(harness.program("probe"), daemon=daemon,
                                    environment=daemon.client_environment(GPUWIRE_STATS="1"))
        check(result.code == 0, "the program failed", result)
        totals = re.search(r"calls of the program (\d+): posted (\d+), called (\d+), from the cache (\d+), local (\d+)", result.err)
        check(totals is not None, "no totals", result)
        entered, posted, called, cached, local = map(int, totals.groups())
        check(entered > 8 and called > 2 and local > 2, "impossible totals", result)
        check(re.search(r"^gpuwire: cuMemAlloc_v2 +1 +\d+\.\d+ +\d+\.\d+$", result.err, re.M), "no line for cuMemAlloc_v2", result)
        check(all(line.startswith("gpuwire: ") for line in result.err.splitlines()), "lines without a name", result)
        quiet = harness.run_client(harness.program("probe"), daemon=daemon)
        check(quiet.err == "", "it spoke unasked", quiet)


def log_level():
    with harness.Daemon() as daemon:
        result = harness.run_client(harness.program("probe"), daemon=daemon,
                                    environment=daemon.client_environment(GPUWIRE_LOG="nonsense"))
        check(result.code == 0, "the program failed", result)
        check(result.err == "gpuwire: GPUWIRE_LOG is 'nonsense', which is no level; it takes debug\n", "the wrong words", result)


def missing_token():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "token")
        with open(path, "w", encoding="ascii") as file:
            file.write("a token for this test\n")
        os.chmod(path, 0o600)
        with harness.Daemon("--token-file", path) as daemon:
            result = harness.run_client(harness.program("probe"), daemon=daemon)
            check(result.code == 3, "cuInit worked without the token", result)
            check("asks for a token and none was given" in result.err, "the client does not say why", result)
            wanted = "asked for the token"
            check(harness.wait_until(lambda: wanted in daemon.log_text(), 5 * harness.SLOWDOWN), "the daemon does not say why",
                  daemon.log_text())


if __name__ == "__main__":
    statistics()
    log_level()
    missing_token()
    print("PASSED")
