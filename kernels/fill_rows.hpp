// The same row in every row of a matrix of 16-bit elements.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace reprolab {

inline constexpr const char* fill_rows_file = "kernels/fill_rows.cu";  ///< For Kernel::code_files.

/// Copies `row`, [columns], to each of the `rows` rows of `matrix`, [rows * columns]. Enqueues.
cudaError_t fill_rows(const void* row, void* matrix, std::int64_t rows, std::int64_t columns,
                      cudaStream_t stream);

}  // namespace reprolab
