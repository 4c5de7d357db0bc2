// The products of a user's own bitsandbytes library as kernels like any other.
#pragma once

#include <string>
#include <vector>

namespace reprolab::nf4_product {

/// Loads a `libbitsandbytes_cuda*.so`, or NAME=path, and registers its fused product as NAME_gemm
/// and the older one for one row as NAME_gemv; returns the names of those that the library has.
/// Throws std::runtime_error: one line on the fault and its remedy.
std::vector<std::string> add_bitsandbytes_peers(const std::string& argument);

}  // namespace reprolab::nf4_product
