// SPDX-License-Identifier: Apache-2.0
// The other half.
__device__ int shared_counter = 40;
__device__ int twice(int value) { return 2 * value + shared_counter; }
