// NF4 kernels that another language's compiler has made, as kernels like any other.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace reprolab::nf4 {

/// A kernel for one output type and kind of scales: a PTX file and the kernel in it.
struct PtxVariant {
  std::string file, entry;
  unsigned shared_bytes = 0;  ///< Of dynamic shared memory.
  int null_pointers = 0;      ///< Parameters after the ten below, which take null.
};

/// A kernel in PTX. Its parameters, in this order:
///   u8* codes, fp32* table[16], fp32* absmax (nested: the second-level absmax), u8* scale codes
///   and fp32* map (both null if not nested), output, i32 n, i32 log2(weights per scale), i32
///   log2(scales per second-level scale), fp32 offset.
/// Block b of its grid writes weights [b * weights_per_block, (b + 1) * weights_per_block) below n.
struct PtxKernel {
  std::string name, lineage, source_file;
  std::string compiler;     ///< With its version.
  std::string make_target;  ///< What `make` builds it with.
  unsigned threads = 0;     ///< In a block.
  int weights_per_block = 0;
  int pointer_alignment = 1;  ///< Every pointer is a multiple of this many bytes.
  int weights_multiple = 1;   ///< n is a multiple of this.
  /// By compute capability (90) and output type with kind of scales ("fp16", "bf16_nested").
  std::map<int, std::map<std::string, PtxVariant>> variants;
};

inline constexpr int max_null_pointers = 4;

/// Registers the kernel. Its PTX is loaded when it is first asked whether it supports a problem.
void add_ptx_kernel(const PtxKernel& kernel);

}  // namespace reprolab::nf4
