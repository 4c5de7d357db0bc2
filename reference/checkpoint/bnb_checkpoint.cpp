#include "reference/checkpoint/bnb_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_set>
#include <utility>

#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

constexpr std::string_view state_infix = ".quant_state.bitsandbytes__";
constexpr std::string_view weight_suffix = ".weight";
constexpr std::string_view int8_scales_suffix = ".SCB";
constexpr std::uint64_t max_state_bytes = 65536;
constexpr std::string_view save_again = "save the checkpoint again with bitsandbytes";

std::string without_suffix(std::string_view name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return {};
  return std::string(name.substr(0, name.size() - suffix.size()));
}

}  // namespace

/// Classifies each tensor of a checkpoint, and counts those that are not NF4.
class BnbCheckpoint::Sorter {
 public:
  explicit Sorter(const ShardSet& shards) : shards_(shards) {}

  std::vector<QuantizedTensorInfo> nf4_tensors() {
    std::vector<QuantizedTensorInfo> tensors;
    for_each_tensor([&](const StoredTensor& tensor) {
      const std::string_view name = tensor.name;
      const std::size_t infix = name.rfind(state_infix);
      if (infix == std::string_view::npos) return;
      const std::string weight(name.substr(0, infix));
      const std::string_view type = name.substr(infix + state_infix.size());
      if (type == "nf4") {
        QuantizedTensorInfo info = inspect(weight, tensor);
        if (info.state.type) {
          tensors.push_back(std::move(info));
        } else {
          ++nf4_of_fp32_;
        }
      } else if (type == "fp4") {
        claim_fp4(weight, tensor);
      } else {
        reject(
            tensor, weight,
            fmt::format("has a quant_state of the unknown type {}; only nf4 and fp4 are known; {}",
                        quote_name(type), save_again));
      }
    });
    std::ranges::sort(tensors, {}, &QuantizedTensorInfo::name);
    return tensors;
  }

  /// Must be called after nf4_tensors().
  std::vector<TensorKind> other_tensors() {
    for_each_tensor([&](const StoredTensor& tensor) {
      if (!claimed_.contains(&tensor)) reject_orphan(tensor);
      claim_int8(tensor);
    });
    std::map<std::string_view, std::size_t> plain;
    for_each_tensor([&](const StoredTensor& tensor) {
      if (!claimed_.contains(&tensor)) ++plain[tensor.dtype];
    });
    std::vector<TensorKind> kinds;
    if (nf4_of_fp32_ > 0) kinds.push_back({"NF4 with fp32 outputs", nf4_of_fp32_});
    if (fp4_ > 0) kinds.push_back({"FP4", fp4_});
    if (int8_ > 0) kinds.push_back({"LLM.int8()", int8_});
    for (const auto& [dtype, count] : plain) kinds.push_back({std::string(dtype), count});
    return kinds;
  }

 private:
  void for_each_tensor(const auto& visit) const {
    for (const SafetensorsFile& file : shards_.files()) {
      for (const StoredTensor& tensor : file.tensors()) visit(tensor);
    }
  }

  /// `at`: a tensor that shows the fault, in the file that the message names.
  [[noreturn]] void reject(const StoredTensor& at, std::string_view weight,
                           std::string_view fault) const {
    reject_tensor(at.file->path(), weight, fault);
  }

  const StoredTensor* find(const std::string& weight, std::string_view suffix) const {
    return shards_.find(weight + std::string(suffix));
  }

  /// Marks the tensors of a quantized weight.
  void claim(const StoredTensor* tensor) {
    if (tensor != nullptr) claimed_.insert(tensor);
  }

  QuantizedTensorInfo inspect(const std::string& name, const StoredTensor& state_tensor) {
    if (find(name, ".quant_state.bitsandbytes__fp4") != nullptr) {
      reject(state_tensor, name, fmt::format("has two quant_states, nf4 and fp4; {}", save_again));
    }
    if (state_tensor.dtype != "U8" || state_tensor.size_bytes > max_state_bytes) {
      reject(state_tensor, name,
             fmt::format("has a quant_state that is not a U8 text of at most {} bytes; {}",
                         max_state_bytes, save_again));
    }
    QuantizedTensorInfo info{.name = name};
    const auto text = shards_.read<char>(state_tensor);
    try {
      info.state = parse_quant_state({text.data(), text.size()});
    } catch (const InvalidJson& error) {
      reject(state_tensor, name,
             fmt::format("has a quant_state that {}; give a checkpoint quantized by bitsandbytes "
                         "to NF4",
                         error.what()));
    }
    claim(&state_tensor);
    const QuantState& state = info.state;
    const std::int64_t blocks = block_count(state.elements, state.block_size);
    require_codes(state_tensor, name, code_bytes(state.elements));
    require_map(require(state_tensor, name, ".quant_map", "F32", 16), name);
    require(state_tensor, name, ".absmax", state.nested ? "U8" : "F32", blocks);
    if (state.nested) {
      require(state_tensor, name, ".nested_absmax", "F32",
              block_count(blocks, state.nested_block_size));
      require_nested_map(require(state_tensor, name, ".nested_quant_map", "F32", 256), name);
    }
    info.dequantized = companion(info, ".dequantized");
    info.source = companion(info, ".source");
    return info;
  }

  /// Codes of any dtype: with bnb_4bit_quant_storage, bitsandbytes stores the bytes as one of
  /// PyTorch's.
  void require_codes(const StoredTensor& state, const std::string& weight, std::int64_t bytes) {
    const StoredTensor* tensor = find(weight, "");
    if (tensor != nullptr && tensor->size_bytes == static_cast<std::uint64_t>(bytes)) {
      claim(tensor);
    } else {
      require(state, weight, "", "U8", bytes);
    }
  }

  const StoredTensor& require(const StoredTensor& state, const std::string& weight,
                              std::string_view suffix, std::string_view dtype,
                              std::int64_t elements) {
    const StoredTensor* tensor = find(weight, suffix);
    const std::string what = suffix.empty() ? "its codes" : quote_name(suffix.substr(1));
    if (tensor == nullptr) {
      reject(state, weight,
             fmt::format("has a quant_state but lacks {}; {}", what, shards_.advice(save_again)));
    }
    if (tensor->dtype != dtype || tensor->elements != elements) {
      reject(*tensor, weight,
             fmt::format("has {} of {} {}, but its quant_state calls for {} {}; {}", what,
                         tensor->elements, tensor->dtype, elements, dtype, save_again));
    }
    claim(tensor);
    return *tensor;
  }

  /// bitsandbytes dequantizes with the values of NF4 regardless of the map, but multiplies vectors
  /// with the map: with another map, there is no single right output.
  void require_map(const StoredTensor& map, const std::string& weight) const {
    constexpr auto nf4 = std::bit_cast<std::array<std::uint32_t, 16>>(standard_table);
    if (!std::ranges::equal(shards_.read<std::uint32_t>(map), nf4)) {
      reject(map, weight, fmt::format("has a 'quant_map' that is not that of NF4; {}", save_again));
    }
  }

  /// bitsandbytes quantizes by binary search in this map, so it writes only ascending maps.
  void require_nested_map(const StoredTensor& map, const std::string& weight) const {
    const auto values = shards_.read<float>(map);
    const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
    if (!finite || std::ranges::adjacent_find(values, std::greater_equal()) != values.end()) {
      reject(map, weight,
             fmt::format("has a 'nested_quant_map' that is not finite numbers that ascend; {}",
                         save_again));
    }
  }

  const StoredTensor* companion(const QuantizedTensorInfo& info, std::string_view suffix) {
    const StoredTensor* tensor = find(info.name, suffix);
    if (const std::string stem = without_suffix(info.name, weight_suffix);
        !tensor && !stem.empty()) {
      tensor = find(stem, suffix);
    }
    const std::string_view dtype = !info.state.type                       ? "F32"
                                   : *info.state.type == WeightType::fp16 ? "F16"
                                                                          : "BF16";
    if (tensor && (tensor->dtype != dtype || tensor->elements != info.state.elements)) {
      reject(*tensor, tensor->name,
             fmt::format("has {} {}, but {} is {} {}; {}", tensor->elements, tensor->dtype,
                         quote_name(info.name), info.state.elements, dtype, save_again));
    }
    claim(tensor);
    return tensor;
  }

  void claim_fp4(const std::string& weight, const StoredTensor& state_tensor) {
    ++fp4_;
    claim(&state_tensor);
    for (const std::string_view suffix :
         {"", ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map"}) {
      claim(find(weight, suffix));
    }
  }

  void claim_int8(const StoredTensor& scales) {
    const std::string stem = without_suffix(scales.name, int8_scales_suffix);
    const StoredTensor* weight = stem.empty() ? nullptr : find(stem, weight_suffix);
    if (weight == nullptr || weight->dtype != "I8" || claimed_.contains(weight)) return;
    ++int8_;
    claim(&scales);
    claim(weight);
    claim(find(stem, ".weight_format"));
  }

  /// Scales and maps of NF4 whose weight has no quant_state.
  void reject_orphan(const StoredTensor& tensor) const {
    for (const std::string_view part : {".absmax", ".quant_map"}) {
      const std::string weight = without_suffix(tensor.name, part);
      if (weight.empty()) continue;
      const StoredTensor* codes = shards_.find(weight);
      // Codes may be stored as another type (bnb_4bit_quant_storage).
      const bool is_all =
          find(weight, ".absmax") != nullptr && find(weight, ".quant_map") != nullptr;
      if (codes != nullptr && codes->dtype != "U8" && !is_all) continue;
      reject(tensor, weight,
             fmt::format("has '{}' but lacks {}'quant_state.bitsandbytes__nf4'; {}",
                         find(weight, ".absmax") != nullptr ? "absmax" : "quant_map",
                         codes == nullptr ? "its codes and " : "", shards_.advice(save_again)));
    }
  }

  const ShardSet& shards_;
  std::unordered_set<const StoredTensor*> claimed_;
  std::size_t nf4_of_fp32_ = 0;
  std::size_t fp4_ = 0;
  std::size_t int8_ = 0;
};

std::string describe(const std::vector<TensorKind>& kinds) {
  std::string text;
  for (const auto& [name, count] : kinds) {
    text += text.empty() ? fmt::format("{} tensor{} of {}", count, count == 1 ? "" : "s", name)
                         : fmt::format(", {} of {}", count, name);
  }
  return text;
}

BnbCheckpoint::BnbCheckpoint(const std::vector<std::filesystem::path>& given) : shards_(given) {
  Sorter sorter(shards_);
  tensors_ = sorter.nf4_tensors();
  other_tensors_ = sorter.other_tensors();
  if (!tensors_.empty()) return;
  const std::string held =
      other_tensors_.empty()
          ? "holds no tensor at all"
          : "holds no NF4 weight of bitsandbytes with fp16 or bf16 outputs, but " +
                describe(other_tensors_);
  throw InvalidFile(fmt::format("{}: {}; {}", describe_paths(given), held,
                                shards_.advice("give a bnb-4bit checkpoint")));
}

QuantizedTensor BnbCheckpoint::load(const QuantizedTensorInfo& info, int threads) const {
  const auto floats = [&](std::string_view suffix) {
    return shards_.read<float>(*shards_.find(info.name + std::string(suffix)));
  };
  QuantizedTensor tensor{.name = info.name,
                         .shape = info.state.shape,
                         .n = info.state.elements,
                         .block_size = info.state.block_size,
                         .type = info.state.type.value()};
  tensor.codes = shards_.read<std::uint8_t>(*shards_.find(info.name));
  if (!info.state.nested) {
    tensor.absmax = floats(".absmax");
    return tensor;
  }
  NestedScales& nested = tensor.nested.emplace();
  nested.codes = shards_.read<std::uint8_t>(*shards_.find(info.name + ".absmax"));
  std::ranges::copy(floats(".nested_quant_map"), nested.map.begin());
  nested.absmax = floats(".nested_absmax");
  nested.offset = info.state.nested_offset;
  nested.block_size = info.state.nested_block_size;
  tensor.absmax.resize(nested.codes.size());
  dequantize_scales(nested, tensor.absmax, threads);
  return tensor;
}

}  // namespace reprolab::reference
