// The digest of the code that a row's kernel runs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "harness/result_file.hpp"

namespace reprolab {

/// Sets the GPU's compute capability ("9.0") for the rows of this process and of the workers that
/// it starts later. Until then their code is unknown.
void set_code_target(const std::string& compute_capability);

/// The record's "code": its architecture, "sm_90" (`target`), and a digest by file (`sha256`): of
/// the machine code for this project's CUDA files, of the text for PTX
/// (profiling/sass/identity.py), of the bytes for a library. Null if some code is unknown, such as
/// if the driver compiles it for this GPU, or a library is missing.
nlohmann::ordered_json code_of(const VariantInfo& variant);

}  // namespace reprolab
