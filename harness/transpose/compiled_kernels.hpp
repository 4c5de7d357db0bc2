// The transpose kernels that `make mojo` has compiled.
#pragma once

#include "harness/compiled_kernels.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/ptx_kernel.hpp"

namespace reprolab::transpose {

/// Reading one whose counterpart is none of the family's kernels is a UsageError.
extern const CompiledFamily<Problem, PtxKernel> compiled_kernels;

}  // namespace reprolab::transpose
