// Makes small checkpoint files, valid or wrong in exactly one way, in the test's own folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace reprolab::reference {

struct BuilderTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

/// A safetensors file as bytes: header length, JSON header with contiguous offsets, data.
std::string safetensors_bytes(const std::vector<BuilderTensor>& tensors);

/// The same with any header text.
std::string safetensors_bytes(const std::string& header, const std::string& data);

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
std::vector<BuilderTensor> valid_tensors(const CheckpointSpec& spec = {});

/// The tensor of this name, for a test to damage.
BuilderTensor& tensor_named(std::vector<BuilderTensor>& tensors, const std::string& name);

void remove_tensor(std::vector<BuilderTensor>& tensors, const std::string& name);

/// Writes `tensors` as Hugging Face's splitter does: in their order, a new file whenever the next
/// tensor would make the last file's data longer than `shard_bytes`; and the index beside them.
/// Returns the paths of the files; the index is `folder`/model.safetensors.index.json.
std::vector<std::filesystem::path> write_shards(const OwnFolder& folder,
                                                const std::vector<BuilderTensor>& tensors,
                                                std::size_t shard_bytes);

/// A file that is never on a disk, for tests that write thousands.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Replaces the content and returns the file's path, which stays the same.
  std::filesystem::path write(const std::string& bytes) const;

 private:
  int descriptor_;
};

}  // namespace reprolab::reference
