#include "reference/bnb_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/printable.hpp"

namespace reprolab::reference {
namespace {

constexpr std::string_view state_infix = ".quant_state.bitsandbytes__";
constexpr std::string_view weight_suffix = ".weight";
constexpr std::uint64_t max_state_bytes = 65536;
constexpr std::string_view save_again = "save the checkpoint again with bitsandbytes";

std::string without_suffix(const std::string& name, std::string_view suffix) {
  if (!name.ends_with(suffix)) return {};
  return name.substr(0, name.size() - suffix.size());
}

}  // namespace

BnbCheckpoint::BnbCheckpoint(const std::filesystem::path& path) : file_(path) {
  for (const auto& [name, tensor] : file_.tensors()) {
    const std::size_t infix = name.rfind(state_infix);
    if (infix == std::string::npos) continue;
    tensors_.push_back(inspect(name.substr(0, infix), tensor));
  }
  reject_orphans();
  if (tensors_.empty()) {
    throw InvalidFile(
        fmt::format("{}: holds no tensor quantized by bitsandbytes to 4 bits (none of "
                    "its {} tensors has a quant_state); give a bnb-4bit checkpoint",
                    printable(path.string()), file_.tensors().size()));
  }
}

QuantizedTensorInfo BnbCheckpoint::inspect(const std::string& name,
                                           const TensorInfo& state_tensor) const {
  if (state_tensor.dtype != "U8" || state_tensor.size_bytes > max_state_bytes) {
    file_.reject(name,
                 fmt::format("has a quant_state that is not a U8 text of at most {} bytes; {}",
                             max_state_bytes, save_again));
  }
  QuantizedTensorInfo info{.name = name};
  const auto text = file_.read<char>(state_tensor);
  try {
    info.state = parse_quant_state({text.data(), text.size()});
  } catch (const InvalidQuantState& error) {
    file_.reject(name, fmt::format("has a quant_state that {}; give a checkpoint quantized by "
                                   "bitsandbytes to NF4",
                                   error.what()));
  }
  const QuantState& state = info.state;
  const std::int64_t blocks = block_count(state.elements, state.block_size);
  require(name, "", "U8", code_bytes(state.elements));
  require(name, ".quant_map", "F32", 16);
  require(name, ".absmax", state.nested ? "U8" : "F32", blocks);
  if (state.nested) {
    require(name, ".nested_absmax", "F32", block_count(blocks, state.nested_block_size));
    require(name, ".nested_quant_map", "F32", 256);
  }
  info.dequantized = companion(info, ".dequantized");
  info.source = companion(info, ".source");
  return info;
}

const TensorInfo& BnbCheckpoint::require(const std::string& weight, const std::string& suffix,
                                         std::string_view dtype, std::int64_t elements) const {
  const TensorInfo* found = file_.find(weight + suffix);
  const std::string what = suffix.empty() ? "its codes" : quote_name(suffix.substr(1));
  if (found == nullptr) {
    file_.reject(weight, fmt::format("has a quant_state but lacks {}; {}", what, save_again));
  }
  if (found->dtype != dtype || found->elements != elements) {
    file_.reject(weight,
                 fmt::format("has {} of {} {}, but its quant_state calls for {} {}; {}", what,
                             found->elements, found->dtype, elements, dtype, save_again));
  }
  return *found;
}

const TensorInfo* BnbCheckpoint::companion(const QuantizedTensorInfo& info,
                                           std::string_view suffix) const {
  const TensorInfo* found = file_.find(info.name + std::string(suffix));
  if (const std::string stem = without_suffix(info.name, weight_suffix); !found && !stem.empty()) {
    found = file_.find(stem + std::string(suffix));
  }
  const std::string_view dtype = info.state.type == WeightType::fp16 ? "F16" : "BF16";
  if (found && (found->dtype != dtype || found->elements != info.state.elements)) {
    file_.reject(found->name,
                 fmt::format("has {} {}, but {} is {} {}; {}", found->elements, found->dtype,
                             quote_name(info.name), info.state.elements, dtype, save_again));
  }
  return found;
}

void BnbCheckpoint::reject_orphans() const {
  for (const auto& [name, tensor] : file_.tensors()) {
    for (const std::string_view part : {".absmax", ".quant_map"}) {
      const std::string weight = without_suffix(name, part);
      const TensorInfo* codes = weight.empty() ? nullptr : file_.find(weight);
      if (codes == nullptr || codes->dtype != "U8") continue;
      const std::string state = weight + std::string(state_infix);
      const auto next = file_.tensors().lower_bound(state);
      if (next != file_.tensors().end() && next->first.starts_with(state)) continue;
      file_.reject(weight, fmt::format("has {} but lacks 'quant_state.bitsandbytes__nf4'; {}",
                                       quote_name(part.substr(1)), save_again));
    }
  }
}

QuantizedTensor BnbCheckpoint::load(const QuantizedTensorInfo& info, int threads) const {
  const auto floats = [&](std::string_view suffix) {
    return file_.read<float>(*file_.find(info.name + std::string(suffix)));
  };
  QuantizedTensor tensor{.name = info.name,
                         .shape = info.state.shape,
                         .n = info.state.elements,
                         .block_size = info.state.block_size,
                         .type = info.state.type};
  tensor.codes = file_.read<std::uint8_t>(*file_.find(info.name));
  std::ranges::copy(floats(".quant_map"), tensor.table.begin());
  if (!info.state.nested) {
    tensor.absmax = floats(".absmax");
    return tensor;
  }
  NestedScales& nested = tensor.nested.emplace();
  nested.codes = file_.read<std::uint8_t>(*file_.find(info.name + ".absmax"));
  std::ranges::copy(floats(".nested_quant_map"), nested.map.begin());
  nested.absmax = floats(".nested_absmax");
  nested.offset = info.state.nested_offset;
  nested.block_size = info.state.nested_block_size;
  tensor.absmax.resize(nested.codes.size());
  dequantize_scales(nested, tensor.absmax, threads);
  return tensor;
}

std::vector<std::uint16_t> dequantize(const QuantizedTensor& tensor, int threads) {
  std::vector<std::uint16_t> output(static_cast<std::size_t>(tensor.n));
  dequantize(tensor.codes, tensor.absmax, tensor.table, tensor.block_size, tensor.type, output,
             threads);
  return output;
}

Nf4View view_of(const QuantizedTensor& tensor) {
  return {.codes = tensor.codes,
          .absmax = tensor.absmax,
          .table = tensor.table,
          .block_size = tensor.block_size,
          .type = tensor.type,
          .shape = tensor.shape};
}

}  // namespace reprolab::reference
