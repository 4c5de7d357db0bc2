// The NF4 kernels that `make mojo` and `make triton` have compiled.
#pragma once

#include <string>

#include "harness/compiled_kernels.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/nf4/ptx_kernel.hpp"

namespace reprolab::nf4 {

extern const CompiledFamily<Problem, PtxKernel> compiled_kernels;

/// Prints which languages are not built, unless `pattern` names kernels: who names them has what he
/// asked for.
void print_languages_not_built(const std::string& pattern);

}  // namespace reprolab::nf4
