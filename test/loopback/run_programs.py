#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every example, and every client program that checks itself, through the real shim, daemon and soft GPU.

run_programs.py NAME [GPUWIRE_SETTING=VALUE...] [ARGUMENT...]: one of them. Prints what it printed.
"""

import os
import sys

import harness


def main():
    name, *arguments = sys.argv[1:]
    settings = dict(a.split("=", 1) for a in arguments if a.startswith("GPUWIRE_"))
    arguments = [a for a in arguments if not a.startswith("GPUWIRE_")]
    path = harness.program(name)
    if not os.path.exists(path):
        path = os.path.join(harness.EXAMPLES, name)
    with harness.Daemon() as daemon:
        result = harness.run_client(path, *arguments, environment=daemon.client_environment(**settings), seconds=120)
        print(result)
        passed = result.code == 0 and result.out.endswith("PASSED\n")
        if name == "device_printf":
            spoken = [line for line in result.out.splitlines() if "a line from the device" in line]
            wanted = [f"thread {i} of block 0: a line from the device, {1.25 * i:.3f}, 0x{0xfeed + i:x}" for i in range(4)]
            passed = passed and spoken == wanted
        # The soft GPU names what it refuses on its own stderr, which is the client's, as with a real driver's assertions.
        unasked = [line for line in result.err.splitlines() if not line.startswith("gpuwire soft GPU: ")]
        if passed and (unasked or result.err and name not in ("bad_calls", "contexts_and_images", "host_functions")):
            print("it wrote to stderr unasked")
            passed = False
        if passed and not harness.wait_until(lambda: not daemon.workers(), 2 * harness.SLOWDOWN):
            print("its session is still there two seconds after its end")
            passed = False
        if not passed:
            raise SystemExit(1)  # through the daemon's end, which shows its log


if __name__ == "__main__":
    main()
