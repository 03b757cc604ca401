// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver header, with every ABI revision under its own name and with the functions it
// declares made visible: they are the only symbols this library exports.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#error \
    "compile the soft GPU with -D__CUDA_API_VERSION_INTERNAL: cuMemAlloc and cuMemAlloc_v2 are two functions"
#endif

#pragma GCC visibility push(default)
#include <cuda.h>
#include <cudaProfiler.h>
#pragma GCC visibility pop
