// The NF4 kernels compiled by `make mojo` and `make triton`.
#pragma once

#include <string>

#include "harness/compiled_kernels.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/nf4/ptx_kernel.hpp"

namespace reprolab::nf4 {

extern const CompiledFamily<Problem, PtxKernel> compiled_kernels;

/// Prints which languages are not built. Not shown when the user selected kernels by `pattern`.
void print_languages_not_built(const std::string& pattern);

}  // namespace reprolab::nf4
