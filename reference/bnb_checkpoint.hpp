// The 4-bit weights of a checkpoint that bitsandbytes wrote (bnb-4bit safetensors). For a weight P:
//   P                                     U8   [ceil(n / 2), 1]      codes
//   P.absmax                              F32  [blocks], or U8 [blocks] when nested
//   P.quant_map                           F32  [16]
//   P.nested_absmax, P.nested_quant_map   F32  [ceil(blocks / nested_blocksize)], [256]
//   P.quant_state.bitsandbytes__nf4       U8   a JSON text
// Test files also hold the bits that bitsandbytes returned, `P.dequantized`, and the weights that
// it quantized, `P.source`; in both names a `.weight` at the end of P may be left out.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "reference/mismatch_report.hpp"
#include "reference/nested_scales.hpp"
#include "reference/nf4.hpp"
#include "reference/quant_state.hpp"
#include "reference/safetensors.hpp"

namespace reprolab::reference {

/// One quantized weight in memory.
struct QuantizedTensor {
  std::string name{};
  std::vector<std::int64_t> shape{};
  std::int64_t n = 0;  ///< Number of weights.
  int block_size = 64;
  WeightType type = WeightType::fp16;  ///< Type of the dequantized weights.
  Nf4Table table{};                    ///< The checkpoint's quant_map.
  std::vector<std::uint8_t> codes{};   ///< [code_bytes(n)]
  std::vector<float> absmax{};         ///< [block_count(n)]; decoded from `nested` if that is set.
  std::optional<NestedScales> nested{};  ///< The scales as stored, when doubly quantized.
};

/// A view for mismatch reports; valid as long as `tensor` is.
Nf4View view_of(const QuantizedTensor& tensor);

/// What the checkpoint says about a quantized weight, before its data are read.
struct QuantizedTensorInfo {
  std::string name;
  QuantState state{};
  const TensorInfo* dequantized = nullptr;  ///< The expected bits; null when absent.
  const TensorInfo* source = nullptr;       ///< The quantizer's input; null when absent.
};

class BnbCheckpoint {
 public:
  /// Checks every quantized weight's state against its tensors. Throws InvalidFile, also when
  /// the file holds no quantized weight at all.
  explicit BnbCheckpoint(const std::filesystem::path& path);

  const SafetensorsFile& file() const { return file_; }

  /// Sorted by name.
  const std::vector<QuantizedTensorInfo>& tensors() const { return tensors_; }

  QuantizedTensor load(const QuantizedTensorInfo& info, int threads = 0) const;

  /// Bits of `.dequantized` or `.source`.
  std::vector<std::uint16_t> load_bits(const TensorInfo& tensor) const {
    return file_.read<std::uint16_t>(tensor);
  }

 private:
  QuantizedTensorInfo inspect(const std::string& name, const TensorInfo& state_tensor) const;
  const TensorInfo& require(const std::string& weight, const std::string& suffix,
                            std::string_view dtype, std::int64_t elements) const;
  const TensorInfo* companion(const QuantizedTensorInfo& info, std::string_view suffix) const;
  void reject_orphans() const;

  SafetensorsFile file_;
  std::vector<QuantizedTensorInfo> tensors_;
};

/// All of a tensor's weights, dequantized by the reference: [tensor.n] bits of `tensor.type`.
std::vector<std::uint16_t> dequantize(const QuantizedTensor& tensor, int threads = 0);

}  // namespace reprolab::reference
