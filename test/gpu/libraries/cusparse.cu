// SPDX-License-Identifier: Apache-2.0
// cuSPARSE: a sparse matrix times a vector and times a matrix.
#include <cusparse.h>

#include "check.hpp"

int main() {
  constexpr int rows = 500, columns = 400, width = 16;
  const auto values_source = some_numbers(rows * 8, 1);
  std::vector<int> offsets{0}, indices;
  std::vector<float> values;
  for (int row = 0; row < rows; ++row) {
    for (int i = 0; i < row % 9; ++i) {
      indices.push_back((row * 7 + i * 45) % columns);
      values.push_back(values_source[values.size()]);
    }
    offsets.push_back(static_cast<int>(values.size()));
  }
  const auto x = some_numbers(columns * width, 2);
  std::vector<float> wanted(rows * width);
  for (int column = 0; column < width; ++column)
    for (int row = 0; row < rows; ++row)
      for (int i = offsets[row]; i < offsets[row + 1]; ++i)
        wanted[column * rows + row] += values[i] * x[column * columns + indices[i]];

  cusparseHandle_t handle;
  CHECK(cusparseCreate(&handle));
  device_buffer<int> d_offsets(offsets), d_indices(indices);
  device_buffer<float> d_values(values), dx(x), dy(rows * width);
  cusparseSpMatDescr_t matrix;
  CHECK(cusparseCreateCsr(&matrix, rows, columns, values.size(), d_offsets.get(), d_indices.get(), d_values.get(), CUSPARSE_INDEX_32I,
                          CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
  cusparseDnVecDescr_t vector_x, vector_y;
  CHECK(cusparseCreateDnVec(&vector_x, columns, dx.get(), CUDA_R_32F));
  CHECK(cusparseCreateDnVec(&vector_y, rows, dy.get(), CUDA_R_32F));
  const float one = 1, zero = 0;
  std::size_t bytes = 0;
  CHECK(cusparseSpMV_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vector_x, &zero, vector_y, CUDA_R_32F,
                                CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
  device_buffer<char> buffer(bytes + 16);
  CHECK(cusparseSpMV(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, vector_x, &zero, vector_y, CUDA_R_32F,
                     CUSPARSE_SPMV_ALG_DEFAULT, buffer.get()));
  auto got = dy.read();
  got.resize(rows);
  compare("matrix times vector", got, std::vector<float>(wanted.begin(), wanted.begin() + rows), 1e-5);

  cusparseDnMatDescr_t dense_x, dense_y;
  CHECK(cusparseCreateDnMat(&dense_x, columns, width, columns, dx.get(), CUDA_R_32F, CUSPARSE_ORDER_COL));
  CHECK(cusparseCreateDnMat(&dense_y, rows, width, rows, dy.get(), CUDA_R_32F, CUSPARSE_ORDER_COL));
  CHECK(cusparseSpMM_bufferSize(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, dense_x, &zero,
                                dense_y, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, &bytes));
  device_buffer<char> second_buffer(bytes + 16);
  CHECK(cusparseSpMM(handle, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, matrix, dense_x, &zero, dense_y,
                     CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, second_buffer.get()));
  compare("matrix times matrix", dy.read(), wanted, 1e-5);
  CHECK(cusparseDestroyDnMat(dense_x));
  CHECK(cusparseDestroyDnMat(dense_y));
  CHECK(cusparseDestroyDnVec(vector_x));
  CHECK(cusparseDestroyDnVec(vector_y));
  CHECK(cusparseDestroySpMat(matrix));
  CHECK(cusparseDestroy(handle));
  return verdict();
}
