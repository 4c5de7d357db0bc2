#include "reference/checkpoint/shard_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/printable.hpp"
#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::uint64_t max_index_bytes = 100'000'000;  // as much as a header

/// Whether the name, taken from an index, stays in the index's folder. (A link may lead elsewhere:
/// Hugging Face's cache is made of links.)
bool stays_in_folder(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && name.find('\0') == std::string::npos && !path.is_absolute() &&
         std::ranges::find(path, "..") == path.end();
}

/// The .safetensors files in a folder, by name, except for leftovers of other systems.
std::set<fs::path> files_in(const fs::path& folder, std::error_code& error) {
  std::set<fs::path> files;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    const bool hidden = path.filename().native().starts_with('.');
    if (path.extension() == ".safetensors" && !hidden) files.insert(path);
  }
  return files;
}

/// The files of a checkpoint, each once, with the entries of its indexes. Opens only the indexes.
class Collector {
 public:
  /// The number of the file of each tensor.
  struct Index {
    fs::path path;
    std::map<std::string, std::size_t> file_of{};
  };
  std::vector<fs::path> files;
  std::vector<Index> indexes;

  void add(const fs::path& given) {
    std::error_code error;
    if (fs::is_directory(given, error)) {
      // If both are there, transformers loads the single file.
      const fs::path index = given / index_name, single = given / "model.safetensors";
      if (!fs::exists(fs::symlink_status(index, error))) {
        add_folder(given);
      } else if (fs::exists(fs::symlink_status(single, error))) {
        add_file(single);
      } else {
        add_index(index);
      }
    } else if (given.extension() == ".json") {
      add_index(given);
    } else {
      add_file(given);
    }
  }

 private:
  /// Returns its number. The same file under two names is one file.
  std::size_t add_file(const fs::path& path) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    const auto [place, is_new] = numbers_.try_emplace(error ? path : canonical, files.size());
    if (is_new) files.push_back(path);
    return place->second;
  }

  void add_folder(const fs::path& folder) {
    std::error_code error;
    const auto contents = files_in(folder, error);
    if (error) reject_file(folder, "cannot be read: " + error.message());
    if (contents.empty()) {
      reject_file(folder, "holds no .safetensors file; give the folder of a checkpoint");
    }
    for (const fs::path& file : contents) add_file(file);
  }

  void add_index(const fs::path& path) {
    const RegularFile file(path);
    file.require_content();
    if (file.size_bytes() > max_index_bytes) {
      reject_file(path, fmt::format("has {} bytes, more than the {} of the greatest index; give a "
                                    ".safetensors file or its folder",
                                    file.size_bytes(), max_index_bytes));
    }
    const auto reject = [&](std::string_view fault) {
      reject_file(path, fmt::format("the index {}; download the index again", fault));
    };
    json content;
    try {
      content = parse_strict_json(file.text_at(0, file.size_bytes()), 16);
    } catch (const InvalidJson& error) {
      reject(error.what());
    }
    if (!content.contains("weight_map") && path.filename() != index_name) {
      reject_file(path,
                  fmt::format("is not the index of a checkpoint; give {}, a .safetensors file "
                              "or their folder",
                              index_name));
    }
    if (!content.contains("weight_map")) reject("has no 'weight_map'");
    const json& map = content["weight_map"];
    if (!map.is_object()) reject("has a 'weight_map' that is not an object");
    if (map.empty()) reject("names no file");
    Index& index = indexes.emplace_back(Index{.path = path});
    std::map<std::string, std::size_t> numbers;  // by name, because most tensors share a file
    for (const auto& [tensor, name] : map.items()) {
      if (!name.is_string())
        reject(fmt::format("gives tensor {} no file name", quote_name(tensor)));
      const auto [known, is_new] = numbers.try_emplace(name);
      if (is_new) known->second = add_named(path, known->first, reject);
      index.file_of.emplace(tensor, known->second);
    }
  }

  std::size_t add_named(const fs::path& index, const std::string& name, const auto& reject) {
    if (!stays_in_folder(name)) {
      reject(fmt::format("names {}, which is not a file in its folder", quote_name(name)));
    }
    const fs::path file = index.parent_path() / name;
    std::error_code error;
    if (!fs::exists(file, error) && !error) {
      reject_file(index, fmt::format("the index names {}, which is missing; download it into the "
                                     "same folder",
                                     quote_name(name)));
    }
    return add_file(file);
  }

  std::map<fs::path, std::size_t> numbers_;  ///< By canonical path.
};

/// Hugging Face names the parts of a set NAME-00001-of-00003.safetensors.
bool is_numbered_part(const fs::path& path) {
  const std::string stem = path.stem().string();
  const std::size_t of = stem.rfind("-of-");
  if (of == std::string::npos) return false;
  const std::string parts = stem.substr(of + 4);
  return !parts.empty() && parts != "00001" &&
         parts.find_first_not_of("0123456789") == std::string::npos;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

}  // namespace

ShardSet::ShardSet(const std::vector<fs::path>& given) : given_(given) {
  Collector collector;
  for (const fs::path& path : given) collector.add(path);
  for (const fs::path& file : collector.files) files_.emplace_back(file);
  add_names();
  for (const auto& [index, file_of] : collector.indexes) {
    for (const auto& [tensor, number] : file_of) {
      const StoredTensor* held = find(tensor);
      if (held != nullptr && held->file == &files_[number]) continue;
      reject_tensor(index, tensor,
                    fmt::format("is not in {}, where the index puts it; download the checkpoint "
                                "again",
                                quote_name(files_[number].path().filename().string())));
    }
  }
}

void ShardSet::add_names() {
  for (const SafetensorsFile& file : files_) {
    for (const StoredTensor& tensor : file.tensors()) {
      const auto [held, is_new] = by_name_.try_emplace(tensor.name, &tensor);
      if (!is_new) {
        reject_tensor(file.path(), tensor.name,
                      fmt::format("is also in {}; give the files of one checkpoint alone",
                                  printable(held->second->file->path().string())));
      }
    }
  }
}

std::uint64_t ShardSet::size_bytes() const {
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : files_) total += file.size_bytes();
  return total;
}

const StoredTensor* ShardSet::find(std::string_view name) const {
  const auto entry = by_name_.find(name);
  return entry == by_name_.end() ? nullptr : entry->second;
}

std::string ShardSet::advice(std::string_view otherwise) const {
  const auto is_known = [&](const fs::path& path) {
    return std::ranges::any_of(files_, [&](const SafetensorsFile& file) {
      return file.path().filename() == path.filename();
    });
  };
  for (const fs::path& path : given_) {
    std::error_code error;
    if (fs::is_directory(path, error) || path.extension() == ".json") continue;
    const auto beside = files_in(folder_of(path), error);
    if (is_numbered_part(path) || !std::ranges::all_of(beside, is_known)) {
      return fmt::format("if the rest is in other files of the checkpoint, give their folder: {}",
                         printable(folder_of(path).string()));
    }
  }
  return std::string(otherwise);
}

std::string describe_paths(const std::vector<fs::path>& given) {
  const std::string first = given.empty() ? "" : printable(given[0].string());
  return given.size() < 2 ? first : fmt::format("{} and {} more", first, given.size() - 1);
}

}  // namespace reprolab::reference
