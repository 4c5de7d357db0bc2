// NF4 kernels that a call registers like any other: compiled from another language, or those of a
// user's own bitsandbytes.
#pragma once

#include <string>

#include "kernels/ptx_kernel.hpp"

namespace reprolab::nf4 {

/// A kernel in PTX, with variants "fp16", "bf16", "fp16_nested" and "bf16_nested". Its parameters,
/// in this order:
///   u8* codes, fp32* table[16], fp32* absmax (nested: the second-level absmax), u8* scale codes
///   and fp32* map (both null if not nested), output, i32 n, i32 log2(weights per scale), i32
///   log2(scales per second-level scale), fp32 offset.
/// Block b of its grid writes weights [b * weights_per_block, (b + 1) * weights_per_block) below n,
/// a multiple of weights_multiple; every pointer is a multiple of pointer_alignment bytes.
/// Registers the kernel. Its PTX is loaded by the first call of `supports`.
void add_ptx_kernel(const PtxKernel& kernel);

/// Loads a `libbitsandbytes_cuda*.so` and registers it. `path` is the library, or NAME=path to
/// choose the kernel's name; otherwise the kernel is named after the wheel's version if the wheel's
/// metadata are next to the library's folder, else after the file. Returns the name.
/// Throws std::runtime_error: one line on the fault and its remedy.
std::string add_bitsandbytes_peer(const std::string& path);

}  // namespace reprolab::nf4
