// The sources that rows depend on, for a result file's provenance. reprolab/sources.py finds them,
// also for the programs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace reprolab {

/// "commit" and "dirty" of the checkout in `root`. Throws UsageError if REPROLAB_COMMIT is wrong.
/// Without python3, the commit is "unknown", with a line on stderr.
nlohmann::json find_sources(const std::filesystem::path& root);

}  // namespace reprolab
