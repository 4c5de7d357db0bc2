// The digest of the code that a row's kernel runs.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "harness/result_file.hpp"

namespace reprolab {

/// The code that a row's kernel runs.
struct Code {
  std::string target;  ///< The architecture that it is for: "sm_90".
  /// By file: of this project's CUDA files the digest of their machine code, of PTX that of its
  /// text (profiling/machine_code.hpp), of a library that of its bytes.
  std::map<std::string, std::string> sha256;
};

/// Says which GPU the rows of this process, and of its workers from now on, are of:
/// "9.0". Until then their code is not known.
void set_code_target(const std::string& compute_capability);

/// nullopt if not all of the code is known, such as where only the driver compiles it for this GPU,
/// or a library is not there.
std::optional<Code> code_of(const VariantInfo& variant);

}  // namespace reprolab
