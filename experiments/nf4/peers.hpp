// The user's own bitsandbytes libraries, from a command line.
#pragma once

#include <string>
#include <vector>

namespace reprolab::nf4 {

/// Registers each library (a path or NAME=path) as a kernel. Throws UsageError.
void load_peers(const std::vector<std::string>& libraries);

}  // namespace reprolab::nf4
