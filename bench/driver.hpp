// SPDX-License-Identifier: Apache-2.0
// The driver API as a program sees it: libcuda.so.1 found by the loader, functions by name. Which library that is decides
// LD_LIBRARY_PATH, so the same benchmark measures a native driver.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>
#include <vector>

namespace gpuwire::bench {

class driver {
 public:
  driver();  // throws std::runtime_error that says what is missing

  std::string device_name() const;
  std::string library_path() const;

  double called_us();  // one call whose answer only the driver knows
  void synchronise();
  void launch();        // an empty kernel of one thread
  void set_memory();    // four bytes, asynchronous
  void record_event();
  void copy_to_device(const void* source, std::size_t bytes);
  void copy_from_device(void* target, std::size_t bytes);
  void reserve(std::size_t bytes);  // device memory for the copies

 private:
  struct functions;
  const functions* functions_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction empty_ = nullptr;
  CUstream stream_ = nullptr;
  CUevent event_ = nullptr;
  CUdeviceptr small_ = 0, large_ = 0;
};

}  // namespace gpuwire::bench
