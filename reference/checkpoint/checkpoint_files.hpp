// The files of a checkpoint, as Hugging Face lays them out: one .safetensors file, or several in a
// folder with `model.safetensors.index.json`, which says which tensor is in which of them:
// {"metadata": {...}, "weight_map": {"TENSOR": "model-00001-of-00002.safetensors", ...}}.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace reprolab::reference {

struct CheckpointFiles {
  /// What an index says about one tensor.
  struct Placement {
    std::string tensor;
    std::size_t file;  ///< In `files`.
  };
  struct Index {
    std::filesystem::path path;
    std::vector<Placement> placements;
  };

  std::vector<std::filesystem::path> files;  ///< Each once.
  std::vector<Index> indexes;
};

/// The files of a checkpoint that is given as any mix of .safetensors files, folders (what their
/// index names, or else every .safetensors file in them) and index files (.json). Opens no
/// .safetensors file. Throws InvalidFile for a folder without any, a damaged index, and an index
/// that names a file which is missing or not in its folder.
CheckpointFiles find_checkpoint_files(const std::vector<std::filesystem::path>& given);

/// What was given, fit to print: "a.safetensors", or "a.safetensors and 2 more".
std::string describe_paths(const std::vector<std::filesystem::path>& given);

}  // namespace reprolab::reference
