// The NF4 weights of a checkpoint that bitsandbytes wrote (bnb-4bit safetensors). For a weight P,
// each in any file of the checkpoint:
//   P                                     U8   [ceil(n / 2), 1]      codes; those bytes as another
//                                                                    dtype with quant_storage
//   P.absmax                              F32  [blocks], or U8 [blocks] when nested
//   P.quant_map                           F32  [16], the values of NF4
//   P.nested_absmax, P.nested_quant_map   F32  [ceil(blocks / nested_blocksize)], [256] that ascend
//   P.quant_state.bitsandbytes__nf4       U8   a JSON text
// Test files also hold the bits that bitsandbytes returned, `P.dequantized`, and the weights that
// it quantized, `P.source`; in both names a `.weight` at the end of P may be left out.
// An FP4 weight has `P.quant_state.bitsandbytes__fp4` instead; LLM.int8() writes `Q.weight` I8,
// `Q.SCB` F32 [rows] and `Q.weight_format` U8.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "reference/checkpoint/quant_state.hpp"
#include "reference/checkpoint/shard_set.hpp"
#include "reference/nf4/quantized_tensor.hpp"

namespace reprolab::reference {

/// The checkpoint's facts about a quantized weight, before its data are read.
struct QuantizedTensorInfo {
  std::string name;
  QuantState state{};
  const StoredTensor* dequantized = nullptr;  ///< The expected bits; null when absent.
  const StoredTensor* source = nullptr;       ///< The quantizer's input; null when absent.
};

/// Tensors that are not verified: "NF4 with fp32 outputs", "FP4", "LLM.int8()", or the dtype of
/// tensors that are not quantized.
/// Tensors of a quantized weight (scales, maps, state) count as part of it.
struct TensorKind {
  std::string name;
  std::size_t count = 0;
};

/// "2 tensors of FP4, 7 of LLM.int8(), 227 of BF16".
std::string describe(const std::vector<TensorKind>& kinds);

class BnbCheckpoint {
 public:
  /// `given` as for ShardSet. Checks every NF4 weight's state against its tensors.
  /// Throws InvalidFile, also when there is no NF4 weight with 16-bit outputs at all.
  explicit BnbCheckpoint(const std::vector<std::filesystem::path>& given);

  const ShardSet& shards() const { return shards_; }

  /// The NF4 weights with 16-bit outputs, sorted by name.
  const std::vector<QuantizedTensorInfo>& tensors() const { return tensors_; }

  /// All other tensors: NF4 with fp32 outputs, FP4, LLM.int8(), then by dtype.
  const std::vector<TensorKind>& other_tensors() const { return other_tensors_; }

  QuantizedTensor load(const QuantizedTensorInfo& info, int threads = 0) const;

  /// Bits of `.dequantized` or `.source`.
  std::vector<std::uint16_t> load_bits(const StoredTensor& tensor) const {
    return shards_.read<std::uint16_t>(tensor);
  }

 private:
  class Sorter;

  ShardSet shards_;
  std::vector<QuantizedTensorInfo> tensors_;
  std::vector<TensorKind> other_tensors_;
};

}  // namespace reprolab::reference
