// The NF4 kernels that `make mojo` and `make triton` have compiled.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/result_file.hpp"
#include "kernels/nf4/ptx_kernel.hpp"

namespace reprolab::nf4 {

/// As reprolab::read_compiled_kernels, with what NF4 adds.
std::vector<PtxKernel> read_compiled_kernels(const std::filesystem::path& folder,
                                             const std::filesystem::path& root);

/// Registers those of compiled_folder(), once. Throws UsageError.
void load_compiled_kernels();

/// One line for each language of which nothing was compiled: "mojo: not built; make mojo".
std::vector<std::string> languages_not_built();

/// Prints these lines, unless `pattern` names kernels: who names them has what he asked for.
void print_languages_not_built(const std::string& pattern);

/// The family's kernels that `pattern` selects. Throws UsageError.
std::vector<VariantInfo> select_kernels(const std::string& pattern);

}  // namespace reprolab::nf4
