// SPDX-License-Identifier: Apache-2.0
// cuFFT: one dimension against the definition, two dimensions there and back, batches, double precision.
#include <cufft.h>

#include "check.hpp"

int main() {
  const double pi = std::acos(-1.0);
  {
    constexpr int n = 384;
    const auto signal = some_numbers(2 * n, 1);
    device_buffer<float> data(signal);
    cufftHandle plan;
    CHECK(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
    CHECK(cufftExecC2C(plan, reinterpret_cast<cufftComplex*>(data.get()), reinterpret_cast<cufftComplex*>(data.get()), CUFFT_FORWARD));
    std::vector<double> wanted(2 * n);
    for (int k = 0; k < n; ++k)
      for (int i = 0; i < n; ++i) {
        const double angle = -2 * pi * (double(k) * i - std::floor(double(k) * i / n) * n) / n;
        wanted[2 * k] += signal[2 * i] * std::cos(angle) - signal[2 * i + 1] * std::sin(angle);
        wanted[2 * k + 1] += signal[2 * i] * std::sin(angle) + signal[2 * i + 1] * std::cos(angle);
      }
    compare("one dimension", data.read(), wanted, 1e-5);
    CHECK(cufftDestroy(plan));
  }
  {
    constexpr int rows = 96, columns = 256, batch = 3;
    const auto image = some_numbers(rows * columns * batch, 2);
    device_buffer<float> source(image), back(image.size());
    device_buffer<cufftComplex> spectrum(rows * (columns / 2 + 1) * batch);
    cufftHandle there, here;
    int sizes[2] = {rows, columns};
    CHECK(cufftPlanMany(&there, 2, sizes, nullptr, 1, 0, nullptr, 1, 0, CUFFT_R2C, batch));
    CHECK(cufftPlanMany(&here, 2, sizes, nullptr, 1, 0, nullptr, 1, 0, CUFFT_C2R, batch));
    CHECK(cufftExecR2C(there, source.get(), spectrum.get()));
    CHECK(cufftExecC2R(here, spectrum.get(), back.get()));
    auto got = back.read();
    for (float& value : got) value /= rows * columns;
    compare("two dimensions there and back", got, image, 1e-5);
    CHECK(cufftDestroy(there));
    CHECK(cufftDestroy(here));
  }
  {
    constexpr int n = 1000;  // not a power of two
    const auto narrow = some_numbers(2 * n, 3);
    const std::vector<double> signal(narrow.begin(), narrow.end());
    device_buffer<double> data(signal);
    auto* values = reinterpret_cast<cufftDoubleComplex*>(data.get());
    cufftHandle plan;
    CHECK(cufftPlan1d(&plan, n, CUFFT_Z2Z, 1));
    CHECK(cufftExecZ2Z(plan, values, values, CUFFT_FORWARD));
    CHECK(cufftExecZ2Z(plan, values, values, CUFFT_INVERSE));
    auto got = data.read();
    for (double& value : got) value /= n;
    compare("double precision there and back", got, signal, 1e-12);
    CHECK(cufftDestroy(plan));
  }
  return verdict();
}
