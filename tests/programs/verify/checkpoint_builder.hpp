// Makes small checkpoint files, valid or wrong in exactly one way, in the test's own folder.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "reference/nf4/normal_weights.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::reference {

struct BuilderTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

/// A safetensors file as bytes: header length, header, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

/// The same, with a JSON header of contiguous offsets.
inline std::string safetensors_bytes(const std::vector<BuilderTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const auto& tensor : tensors) {
    header += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                          tensor.name, tensor.dtype, fmt::join(tensor.shape, ","), data.size(),
                          data.size() + tensor.data.size());
    data += tensor.data;
  }
  return safetensors_bytes(header + "}", data);
}

struct CheckpointSpec {
  std::string name = "layer";
  bool nested = false;
  bool dequantized = true;
  bool source = false;
  std::int64_t rows = 3;
  std::int64_t columns = 67;  ///< An odd number of weights and a short last block.
};

/// The tensors of a checkpoint with one weight, `NAME.weight`, bf16 in blocks of 64, quantized
/// and dequantized by the reference.
inline std::vector<BuilderTensor> valid_tensors(const CheckpointSpec& spec = {}) {
  const std::int64_t n = spec.rows * spec.columns;
  std::vector<std::uint16_t> source(n);
  normal_weights(9, 0, WeightType::bf16, 0.02f, source, 1);
  QuantizedTensor tensor{.n = n, .type = WeightType::bf16};
  tensor.codes.resize(code_bytes(n));
  tensor.absmax.resize(block_count(n, 64));
  quantize(source, tensor.type, 64, tensor.codes, tensor.absmax, 1);
  const std::string weight = spec.name + ".weight";
  std::string state = fmt::format(
      R"({{"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [{}, {}])",
      spec.rows, spec.columns);
  std::vector<BuilderTensor> tensors;
  const auto add = [&](const std::string& name, const std::string& dtype, const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    tensors.push_back({name,
                       dtype,
                       {static_cast<std::int64_t>(std::size(values))},
                       {reinterpret_cast<const char*>(bytes.data()), bytes.size()}});
  };
  add(weight, "U8", tensor.codes);
  add(weight + ".quant_map", "F32", standard_table);
  if (spec.nested) {
    const NestedScales nested = quantize_scales(tensor.absmax, 1);
    dequantize_scales(nested, tensor.absmax, 1);
    state +=
        fmt::format(R"(, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": {})",
                    static_cast<double>(nested.offset));
    add(weight + ".absmax", "U8", nested.codes);
    add(weight + ".nested_absmax", "F32", nested.absmax);
    add(weight + ".nested_quant_map", "F32", nested.map);
  } else {
    add(weight + ".absmax", "F32", tensor.absmax);
  }
  add(weight + ".quant_state.bitsandbytes__nf4", "U8", state + "}");
  if (spec.dequantized) add(spec.name + ".dequantized", "BF16", dequantize(tensor, 1));
  if (spec.source) add(spec.name + ".source", "BF16", source);
  return tensors;
}

/// The tensor of this name, for a test to damage.
inline BuilderTensor& tensor_named(std::vector<BuilderTensor>& tensors, const std::string& name) {
  const auto tensor = std::ranges::find(tensors, name, &BuilderTensor::name);
  if (tensor == tensors.end()) throw std::logic_error("no tensor " + name);
  return *tensor;
}

inline void remove_tensor(std::vector<BuilderTensor>& tensors, const std::string& name) {
  tensor_named(tensors, name);  // throws if it is absent
  std::erase_if(tensors, [&](const auto& tensor) { return tensor.name == name; });
}

/// Writes `tensors` as Hugging Face's splitter does: in their order, a new file whenever the next
/// tensor would make the last file's data longer than `shard_bytes`; and the index in the same
/// folder. Returns the paths of the files; the index is `folder`/model.safetensors.index.json.
inline std::vector<std::filesystem::path> write_shards(const OwnFolder& folder,
                                                       const std::vector<BuilderTensor>& tensors,
                                                       std::size_t shard_bytes) {
  std::vector<std::vector<BuilderTensor>> shards;
  std::size_t last_bytes = 0;
  for (const auto& tensor : tensors) {
    if (shards.empty() || last_bytes + tensor.data.size() > shard_bytes) {
      shards.emplace_back();
      last_bytes = 0;
    }
    shards.back().push_back(tensor);
    last_bytes += tensor.data.size();
  }
  std::vector<std::filesystem::path> files;
  std::string index = R"({"metadata": {"total_size": 1}, "weight_map": {)";
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    files.push_back(folder.write(name, safetensors_bytes(shards[i])));
    for (const auto& tensor : shards[i]) {
      index += fmt::format("{}\"{}\": \"{}\"", index.ends_with('{') ? "" : ", ", tensor.name, name);
    }
  }
  folder.write("model.safetensors.index.json", index + "}}");
  return files;
}

/// A file in memory, for tests that write thousands.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("reprolab", MFD_CLOEXEC)) {
    if (descriptor_ < 0) throw std::runtime_error("cannot make a file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Replaces the content and returns the file's path, which stays the same.
  std::filesystem::path write(const std::string& bytes) const {
    const auto size = static_cast<ssize_t>(bytes.size());
    if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, bytes.data(), size, 0) != size) {
      throw std::runtime_error("cannot write a file in memory");
    }
    return fmt::format("/proc/self/fd/{}", descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace reprolab::reference
