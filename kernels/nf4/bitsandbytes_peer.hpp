// A user's own bitsandbytes, loaded at run time, as a kernel like any other.
#pragma once

#include <string>

namespace reprolab::nf4 {

/// Loads `libbitsandbytes_cuda*.so` and registers it. `path` is the library, or NAME=path to name
/// the row; otherwise it is named after the wheel's version, where the wheel's metadata lie beside
/// the library, or after the file. Returns the name of the row.
/// Throws std::runtime_error with one line: what is missing and what to do.
std::string add_bitsandbytes_peer(const std::string& path);

}  // namespace reprolab::nf4
