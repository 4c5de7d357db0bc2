// The sources that rows depend on, as a result file's provenance has them: records/sources.py
// finds them, for the programs too.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace reprolab {

/// The digest of the sources that this program was compiled from.
std::string compiled_sources();

/// "commit", "dirty" and "sources_sha256" of the checkout in `root`, for a program that was
/// compiled from sources of the digest `compiled`. Throws UsageError if REPROLAB_COMMIT is wrong.
/// Where python3 is missing, the commit is "unknown", and stderr says so.
nlohmann::json find_sources(const std::filesystem::path& root,
                            const std::string& compiled = compiled_sources());

}  // namespace reprolab
