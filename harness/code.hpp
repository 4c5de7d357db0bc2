// The digest of the code that a row's kernel runs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/result_file.hpp"

namespace reprolab {

/// Says which GPU the rows of this process, and of its workers from now on, are of:
/// "9.0". Until then their code is not known.
void set_code_target(const std::string& compute_capability);

/// The record's "code": the architecture that it is for, "sm_90" (`target`), and by file (`sha256`)
/// of this project's CUDA files the digest of their machine code, of PTX that of its text
/// (profiling/machine_code.hpp), of a library that of its bytes. Null if not all of the code is
/// known, such as where only the driver compiles it for this GPU, or a library is not there.
nlohmann::ordered_json code_of(const VariantInfo& variant);

}  // namespace reprolab
