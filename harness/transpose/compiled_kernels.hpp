// The transpose kernels compiled by `make mojo`.
#pragma once

#include "harness/compiled_kernels.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/ptx_kernel.hpp"

namespace reprolab::transpose {

/// Throws UsageError for a kernel whose counterpart is not in the family.
extern const CompiledFamily<Problem, PtxKernel> compiled_kernels;

}  // namespace reprolab::transpose
