#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What libcuda.so.1, or libnvidia-ml.so.1, shows to the loader: exactly the driver's names, its SONAME, nothing that an older system lacks, and
no thread, socket or descriptor from loading it alone.

abi.py LIBRARY NAMES_FILE
"""

import ctypes
import os
import re
import subprocess
import sys
import unittest

LIBRARY = NAMES = ""
IS_NVML = any("libnvidia-ml" in argument for argument in sys.argv)
OURS = {"gpuwire_nvml_instance_v1" if IS_NVML else "gpuwire_instance_v1"}
# The floor of a library built where releases are built, Debian 12 with glibc 2.36. From 2.38 on the C library's headers rename
# strtol and its relatives to versions of their own for every C++ program, and so do the static libraries of such a host:
# what is built there needs that host's glibc or the one that brought the names, 2.38.
GLIBC_MAX = (2, 34) if tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[1].split("."))) < (2, 38) else (2, 38)


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported():
    names = set()
    for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines():
        names.add(line.split()[-1])
    return names


def descriptors():
    return {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")}


class AbiTest(unittest.TestCase):
    def test_it_exports_exactly_the_names_of_the_driver(self):
        with open(NAMES, encoding="utf-8") as file:
            wanted = {line.strip() for line in file if line.strip() and not line.startswith("#")} | OURS
        self.assertGreater(len(wanted), 400 if IS_NVML else 600)
        found = exported()
        self.assertEqual(sorted(wanted - found), [], "names of the driver that are missing")
        self.assertEqual(sorted(found - wanted), [], "names that the driver does not have")

    def test_its_names_carry_no_version(self):
        self.assertEqual([name for name in exported() if "@" in name], [])

    def test_its_soname_is_the_drivers(self):
        name = "libnvidia-ml.so" if IS_NVML else "libcuda.so"
        self.assertIn(f"Library soname: [{name}.1]", run("readelf", "-d", LIBRARY))
        link = os.path.join(os.path.dirname(LIBRARY), name)
        self.assertEqual(os.path.realpath(link), os.path.realpath(LIBRARY))

    def test_it_needs_nothing_newer_than_the_floor(self):
        versions = set(re.findall(r"Name: (\w+_[\d.]+)", run("readelf", "-V", LIBRARY)))
        glibc = {tuple(map(int, v[6:].split("."))): v for v in versions if v.startswith("GLIBC_")}
        self.assertTrue(glibc)
        self.assertEqual([v for number, v in glibc.items() if number > GLIBC_MAX], [])
        self.assertEqual([v for v in versions if not v.startswith("GLIBC_")], [], "libstdc++ and libgcc must be static")

    def test_it_depends_on_the_c_library_only(self):
        needed = set(re.findall(r"Shared library: \[([^\]]+)\]", run("readelf", "-d", LIBRARY)))
        allowed = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
        self.assertEqual(needed - allowed, set())

    def test_loading_it_starts_and_opens_nothing(self):
        before = descriptors()
        self.assertEqual(len(os.listdir("/proc/self/task")), 1)
        library = ctypes.CDLL(LIBRARY)
        self.assertEqual(len(os.listdir("/proc/self/task")), 1)
        self.assertEqual(descriptors() - before, set())
        if IS_NVML:
            library.nvmlErrorString.restype = ctypes.c_char_p
            self.assertEqual(library.nvmlErrorString(3), b"Not Supported")
            self.assertEqual(library.nvmlShutdown(), 1)
            self.assertEqual(descriptors() - before, set())
            return
        # Names of errors are answered without a server, so they must not change that either.
        text = ctypes.c_char_p()
        self.assertEqual(library.cuGetErrorName(2, ctypes.byref(text)), 0)
        self.assertEqual(text.value, b"CUDA_ERROR_OUT_OF_MEMORY")
        self.assertEqual(len(os.listdir("/proc/self/task")), 1)
        self.assertEqual(descriptors() - before, set())


if __name__ == "__main__":
    LIBRARY, NAMES = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
