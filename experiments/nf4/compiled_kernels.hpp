// The kernels that `make mojo` and `make triton` have compiled.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/nf4/ptx_kernel.hpp"

namespace reprolab::nf4 {

/// Where they are: build/ptx of the project.
std::filesystem::path compiled_folder();

/// The kernels in `folder`/sm_*/KERNEL.json, each with its PTX beside it (languages/__main__.py
/// writes both; paths of sources are from `root`). Throws UsageError with one line: a file that is
/// not what it should be, or is older than its source.
std::vector<PtxKernel> read_compiled_kernels(const std::filesystem::path& folder,
                                             const std::filesystem::path& root);

/// Registers those of compiled_folder(), once. Throws UsageError.
void load_compiled_kernels();

/// One line for each language of which nothing was compiled: "mojo: not built; make mojo".
std::vector<std::string> languages_not_built();

}  // namespace reprolab::nf4
