#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The return codes of right and wrong driver calls through shim, daemon and soft GPU are those that the real driver gave
natively (test/data/native, recorded by test/gpu/return_codes.cpp on an H200).

return_codes_test.py IMAGE
"""

import difflib
import os
import sys

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(HERE, "..", "data", "native", "return-codes-driver-calls.txt")
LEFT_OUT = os.path.join(HERE, "..", "gpu", "return_codes_crash_natively.txt")


def main():
    image = sys.argv[1]
    with open(NATIVE, encoding="utf-8") as file:
        native = file.read().splitlines()
    with harness.Daemon() as daemon:
        result = harness.run_client(harness.program("return_codes"), image, LEFT_OUT, daemon=daemon, seconds=120)
        different = list(difflib.unified_diff(native, result.out.splitlines(), "native", "gpuwire", lineterm="", n=0))
        print("\n".join(different))
        if result.code != 0 or different:
            print(f"exit status {result.code}", "--- log of gpuwired", daemon.log_text(), sep="\n")
            return 1
        # The calls on which the native driver crashes: here each gives an error, and the program goes on.
        with open(LEFT_OUT, encoding="utf-8") as file:
            crashing = file.read().splitlines()
        everything = harness.run_client(harness.program("return_codes"), image, daemon=daemon, seconds=120)
        answers = {line[:58].rstrip(): line for line in everything.out.splitlines()}
        for call in crashing:
            line = next((answer for name, answer in answers.items() if name.startswith(call[:58].rstrip())), "")
            print(line or f"no answer for {call}")
            if not line or "CUDA_SUCCESS" in line:
                return 1
        return 0 if everything.code == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
