# SPDX-License-Identifier: Apache-2.0
"""What the framework programs share. A module of programs decorates each with @program and ends with main(globals' file).

`python3 torch_programs.py NAME` runs one; without a name it lists them. A program returns a dictionary; its values are
printed as `RESULT key=value` lines, numbers with so many digits that a native run and one through gpuwire print the same.
A program that hangs prints the stacks of its Python threads after SIGABRT.
"""

import faulthandler
import hashlib
import sys

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def digest(array):
    """Of the bits: equal only if every one is."""
    import numpy

    array = numpy.ascontiguousarray(array)
    return hashlib.sha256(array.tobytes()).hexdigest()[:16]


def spoken(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    faulthandler.enable()
    if len(sys.argv) < 2:
        print("\n".join(PROGRAMS))
        return
    results = PROGRAMS[sys.argv[1]]() or {}
    for key, value in results.items():
        print("RESULT", f"{key}={spoken(value)}")
    print("PASSED", flush=True)
