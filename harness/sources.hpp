// The sources that rows depend on, for a result file's provenance. reprolab/sources.py finds them,
// also for the programs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

namespace reprolab {

/// The digest of the sources that this program was compiled from.
std::string compiled_sources();

/// "commit", "dirty" and "sources_sha256" of the checkout in `root`, for a program that was
/// compiled from sources of the digest `compiled`. Throws UsageError if REPROLAB_COMMIT is wrong.
/// Without python3, the commit is "unknown", with a line on stderr.
nlohmann::json find_sources(const std::filesystem::path& root,
                            const std::string& compiled = compiled_sources());

}  // namespace reprolab
