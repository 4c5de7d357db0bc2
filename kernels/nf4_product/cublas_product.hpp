// The product with 16-bit weights by cuBLAS.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/nf4_product/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4_product {

/// The workspace of cuBLAS, so that a launch allocates none: the size that its documentation
/// recommends for Hopper.
inline constexpr std::uint64_t cublas_workspace_bytes = std::uint64_t{32} << 20;

/// Whether cuBLAS is installed and can index the problem.
Support supports_cublas(const Problem& problem);

/// output = input * transposed weights, summed in fp32 and rounded once; without a bias, which
/// supports_cublas refuses. `weights` [n][k] of the problem's type; `workspace` has
/// cublas_workspace_bytes, aligned to 256.
cudaError_t multiply_by_cublas(const Problem& problem, const void* weights, void* workspace,
                               cudaStream_t stream);

/// For Kernel::code_files: the library and what it launches in addition.
std::vector<std::string> cublas_files();

/// The kernel that dequantizes into the workspace by the NF4 kernel of that name, then multiplies
/// by cuBLAS.
Kernel<Problem> dequantize_then_cublas(const std::string& nf4_kernel, const std::string& lineage);

}  // namespace reprolab::nf4_product
