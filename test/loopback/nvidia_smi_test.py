#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's own tool through the real library, daemon and soft GPU: it must end with 0 and say nothing on stderr.

Skipped (77) where nvidia-smi is not installed; NVIDIA_SMI names one that is not in the PATH.
"""

import os
import shutil
import sys

import harness

COMMANDS = {
    (): "gpuwire soft GPU",
    ("-L",): "GPU 0: gpuwire soft GPU (UUID: GPU-67707577-",
    ("-q",): "Product Name                          : gpuwire soft GPU",
    ("--query-gpu=index,name,uuid,memory.total,memory.used,utilization.gpu,driver_version,pci.bus_id", "--format=csv"):
        "0, gpuwire soft GPU, GPU-67707577-",
    ("topo", "-m"): "GPU0",
    ("dmon", "-c", "1"): "# gpu",
}


def main():
    tool = os.environ.get("NVIDIA_SMI") or shutil.which("nvidia-smi")
    if tool is None:
        print("skipped: nvidia-smi is not installed")
        return 77
    failed = 0
    with harness.Daemon() as daemon:
        for arguments, wanted in COMMANDS.items():
            result = harness.run_client(tool, *arguments, daemon=daemon)
            squeezed = " ".join(result.out.split())
            good = result.code == 0 and not result.err and " ".join(wanted.split()) in squeezed
            print("nvidia-smi", *arguments, "ok" if good else result)
            failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
