// The transpose kernels that `make mojo` has compiled.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/transpose/ptx_kernel.hpp"

namespace reprolab::transpose {

/// As reprolab::read_compiled_kernels, with what the transpose adds. Throws UsageError also where a
/// kernel's counterpart is none of the family's kernels.
std::vector<PtxKernel> read_compiled_kernels(const std::filesystem::path& folder,
                                             const std::filesystem::path& root);

/// Registers those of compiled_folder(), once. Throws UsageError.
void load_compiled_kernels();

/// One line for each language of which nothing was compiled.
std::vector<std::string> languages_not_built();

}  // namespace reprolab::transpose
