// SPDX-License-Identifier: Apache-2.0
// cuDNN: a convolution forward and both gradients against the definition, softmax.
#include <cudnn.h>

#include "check.hpp"

namespace {
constexpr int batch = 4, channels = 8, height = 12, width = 12, filters = 16, kernel = 3, pad = 1;
constexpr std::size_t input_size = batch * channels * height * width, filter_size = filters * channels * kernel * kernel,
                      output_size = batch * filters * height * width;

std::size_t at(int n, int c, int y, int x, int depth) { return ((std::size_t(n) * depth + c) * height + y) * width + x; }
std::size_t tap(int f, int c, int y, int x) { return ((std::size_t(f) * channels + c) * kernel + y) * kernel + x; }

// Calls use(input index, filter index, output index) for each product of the convolution.
template <class Use>
void each_product(Use use) {
  for (int n = 0; n < batch; ++n)
    for (int f = 0; f < filters; ++f)
      for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x)
          for (int c = 0; c < channels; ++c)
            for (int ky = 0; ky < kernel; ++ky)
              for (int kx = 0; kx < kernel; ++kx) {
                const int sy = y + ky - pad, sx = x + kx - pad;
                if (sy < 0 || sx < 0 || sy >= height || sx >= width) continue;
                use(at(n, c, sy, sx, channels), tap(f, c, ky, kx), at(n, f, y, x, filters));
              }
}
}  // namespace

int main() {
  cudnnHandle_t handle;
  CHECK(cudnnCreate(&handle));
  const auto input = some_numbers(input_size, 1), filter = some_numbers(filter_size, 2), gradient = some_numbers(output_size, 3);
  std::vector<double> output(output_size), input_gradient(input_size), filter_gradient(filter_size);
  each_product([&](std::size_t i, std::size_t f, std::size_t o) {
    output[o] += double(input[i]) * filter[f];
    input_gradient[i] += double(gradient[o]) * filter[f];
    filter_gradient[f] += double(gradient[o]) * input[i];
  });
  device_buffer<float> dx(input), dw(filter), dy(output_size), dg(gradient), dx_gradient(input_size), dw_gradient(filter_size);
  cudnnTensorDescriptor_t x, y;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t convolution;
  CHECK(cudnnCreateTensorDescriptor(&x));
  CHECK(cudnnCreateTensorDescriptor(&y));
  CHECK(cudnnCreateFilterDescriptor(&w));
  CHECK(cudnnCreateConvolutionDescriptor(&convolution));
  CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, channels, height, width));
  CHECK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, batch, filters, height, width));
  CHECK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, filters, channels, kernel, kernel));
  CHECK(cudnnSetConvolution2dDescriptor(convolution, pad, pad, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  const float one = 1, zero = 0;
  std::size_t bytes[3] = {};
  const auto forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  const auto backward_data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  const auto backward_filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, forward, &bytes[0]));
  CHECK(cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, convolution, x, backward_data, &bytes[1]));
  CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, convolution, w, backward_filter, &bytes[2]));
  device_buffer<char> workspace(bytes[0] + bytes[1] + bytes[2] + 16);
  CHECK(cudnnConvolutionForward(handle, &one, x, dx.get(), w, dw.get(), convolution, forward, workspace.get(), bytes[0], &zero, y, dy.get()));
  compare("forward", dy.read(), output, 1e-5);
  CHECK(cudnnConvolutionBackwardData(handle, &one, w, dw.get(), y, dg.get(), convolution, backward_data, workspace.get(), bytes[1], &zero, x,
                                     dx_gradient.get()));
  compare("gradient of the input", dx_gradient.read(), input_gradient, 1e-5);
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, x, dx.get(), y, dg.get(), convolution, backward_filter, workspace.get(), bytes[2], &zero,
                                       w, dw_gradient.get()));
  compare("gradient of the filter", dw_gradient.read(), filter_gradient, 1e-5);
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, y, dy.get(), &zero, y, dy.get()));
  const auto probabilities = dy.read();
  double sum = 0;
  for (int f = 0; f < filters; ++f) sum += probabilities[at(1, f, 5, 5, filters)];
  compare("softmax", std::vector<double>{sum}, std::vector<double>{1}, 1e-5);
  CHECK(cudnnDestroyConvolutionDescriptor(convolution));
  CHECK(cudnnDestroyFilterDescriptor(w));
  CHECK(cudnnDestroyTensorDescriptor(x));
  CHECK(cudnnDestroyTensorDescriptor(y));
  CHECK(cudnnDestroy(handle));
  return verdict();
}
