// The NF4 kernels that `make mojo` and `make triton` have compiled.
#pragma once

#include <string>
#include <vector>

#include "harness/compiled_kernels.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/nf4/ptx_kernel.hpp"

namespace reprolab::nf4 {

extern const CompiledFamily<Problem, PtxKernel> compiled_kernels;

inline void load_compiled_kernels() { compiled_kernels.load(); }

/// Prints which languages are not built, unless `pattern` names kernels: who names them has what he
/// asked for.
void print_languages_not_built(const std::string& pattern);

/// The family's kernels that `pattern` selects. Throws UsageError.
std::vector<VariantInfo> select_kernels(const std::string& pattern);

}  // namespace reprolab::nf4
