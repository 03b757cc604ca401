// SPDX-License-Identifier: Apache-2.0
// The kernels of hopper.cu.
#pragma once

#include "driver.hpp"

struct dim_of {
  unsigned x = 1;
  unsigned y = 1;
};

class hopper_module {
 public:
  hopper_module() { REQUIRE_OK(driver(cuModuleLoad)(&handle_, image_path("hopper.ptx").c_str())); }
  CUfunction function(const char* name) const {
    CUfunction found = nullptr;
    REQUIRE_OK(driver(cuModuleGetFunction)(&found, handle_, name));
    return found;
  }

 private:
  CUmodule handle_ = nullptr;
};
