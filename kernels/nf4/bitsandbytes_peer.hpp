// A user's own bitsandbytes library, loaded at run time, as a kernel like any other.
#pragma once

#include <string>

namespace reprolab::nf4 {

/// Loads a `libbitsandbytes_cuda*.so` and registers it. `path` is the library, or NAME=path to
/// choose the kernel's name; otherwise the kernel is named after the wheel's version if the wheel's
/// metadata are next to the library's folder, else after the file. Returns the name.
/// Throws std::runtime_error: one line on the fault and its remedy.
std::string add_bitsandbytes_peer(const std::string& path);

}  // namespace reprolab::nf4
