// The digest of the code that a row's kernel runs.
#pragma once

#include <optional>
#include <string>

#include "harness/result_file.hpp"

namespace reprolab {

/// Says which GPU the rows of this process, and of its workers from now on, are of:
/// "9.0". Until then their code is not known.
void set_code_target(const std::string& compute_capability);

/// nullopt if not all of the code is known, such as where only the driver compiles it for this GPU,
/// or a library is not there.
std::optional<Code> code_of(const VariantInfo& variant);

}  // namespace reprolab
