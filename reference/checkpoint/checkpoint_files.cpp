#include "reference/checkpoint/checkpoint_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/printable.hpp"
#include "reference/checkpoint/invalid_file.hpp"
#include "reference/checkpoint/regular_file.hpp"
#include "reference/checkpoint/strict_json.hpp"

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view index_name = "model.safetensors.index.json";
constexpr std::uint64_t max_index_bytes = 100'000'000;  // as much as a header
constexpr std::string_view download_again = "download the index again";

/// Receives an index and makes a list of file names and placements of it.
class IndexVisitor : public JsonVisitor {
 public:
  /// The predicate of a sentence about the index; empty if it is sound.
  const std::string& fault() const { return fault_; }

  const std::map<std::string, std::size_t>& files() const { return files_; }
  std::vector<CheckpointFiles::Placement>& placements() { return placements_; }

  void begin_object() override {
    if (in_map() && depth_ >= 2) fault_ = no_file_name();
    ++depth_;
    if (in_map() && depth_ == 2) fault_.clear();
  }

  void end_object() override { --depth_; }

  void begin_list() override {
    other_value();
    ++depth_;
  }

  void end_list() override { --depth_; }

  void key(std::string& key) override {
    if (depth_ == 1) {
      top_key_ = std::move(key);
      if (in_map()) fault_ = "has a 'weight_map' that is not an object";
    } else if (depth_ == 2) {
      tensor_ = std::move(key);
    }
  }

  void string(std::string& file) override {
    if (!in_map() || depth_ != 2) return;
    const std::size_t next = files_.size();
    placements_.push_back(
        {std::move(tensor_), files_.try_emplace(std::move(file), next).first->second});
  }

  void whole_number(std::uint64_t) override { other_value(); }

  void other_value() override {
    if (in_map() && depth_ >= 2) fault_ = no_file_name();
  }

 private:
  bool in_map() const { return top_key_ == "weight_map"; }

  std::string no_file_name() const {
    return fmt::format("gives tensor {} no file name", quote_name(tensor_));
  }

  int depth_ = 0;  ///< Of the open objects and lists.
  std::string top_key_;
  std::string tensor_;
  std::map<std::string, std::size_t> files_;
  std::vector<CheckpointFiles::Placement> placements_;
  std::string fault_ = "has no 'weight_map'";
};

/// Whether the name, taken from an index, stays in the index's folder. (A link may lead elsewhere:
/// Hugging Face's cache is made of links.)
bool stays_in_folder(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && name.find('\0') == std::string::npos && !path.is_absolute() &&
         std::find(path.begin(), path.end(), "..") == path.end();
}

class Collector {
 public:
  void add(const fs::path& given) {
    std::error_code error;
    if (fs::is_directory(given, error)) {
      const fs::path index = given / index_name;
      fs::exists(fs::symlink_status(index, error)) ? add_index(index) : add_folder(given);
    } else if (given.extension() == ".json") {
      add_index(given);
    } else {
      add_file(given);
    }
  }

  CheckpointFiles take() { return std::move(found_); }

 private:
  /// Returns its place in `files`. The same file under two names is one file.
  std::size_t add_file(const fs::path& path) {
    std::error_code error;
    const fs::path canonical = fs::canonical(path, error);
    const auto [place, is_new] = places_.try_emplace(error ? path : canonical, found_.files.size());
    if (is_new) found_.files.push_back(path);
    return place->second;
  }

  void add_folder(const fs::path& folder) {
    std::set<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      const fs::path name = entry->path().filename();
      const bool hidden = name.native().starts_with('.');
      if (name.extension() == ".safetensors" && !hidden) files.insert(entry->path());
    }
    if (error) reject_file(folder, "cannot be read: " + error.message());
    if (files.empty()) {
      reject_file(folder, "holds no .safetensors file; give the folder of a checkpoint");
    }
    for (const fs::path& file : files) add_file(file);
  }

  void add_index(const fs::path& path) {
    const RegularFile file(path);
    if (file.size_bytes() > max_index_bytes) {
      reject_file(path, fmt::format("has {} bytes, more than the {} of the greatest index; give a "
                                    ".safetensors file or its folder",
                                    file.size_bytes(), max_index_bytes));
    }
    IndexVisitor visitor;
    const auto reject = [&](std::string_view fault) {
      reject_file(path, fmt::format("the index {}; {}", fault, download_again));
    };
    try {
      read_strict_json(file.text_at(0, file.size_bytes()), 16, visitor);
    } catch (const InvalidJson& error) {
      reject(error.what());
    }
    if (!visitor.fault().empty()) reject(visitor.fault());
    if (visitor.files().empty()) reject("names no file");
    std::vector<std::size_t> places(visitor.files().size());
    for (const auto& [name, number] : visitor.files()) {
      const fs::path shard = path.parent_path() / name;
      std::error_code error;
      if (!stays_in_folder(name)) {
        reject(fmt::format("names {}, which is not a file in its folder", quote_name(name)));
      }
      if (!fs::exists(shard, error) && !error) {
        reject_file(path, fmt::format("the index names {}, which is missing; download it into the "
                                      "same folder",
                                      quote_name(name)));
      }
      places[number] = add_file(shard);
    }
    for (auto& placement : visitor.placements()) placement.file = places[placement.file];
    found_.indexes.push_back({path, std::move(visitor.placements())});
  }

  CheckpointFiles found_;
  std::map<fs::path, std::size_t> places_;  ///< By canonical path.
};

}  // namespace

CheckpointFiles find_checkpoint_files(const std::vector<fs::path>& given) {
  Collector collector;
  for (const fs::path& path : given) collector.add(path);
  return collector.take();
}

std::string describe_paths(const std::vector<fs::path>& given) {
  const std::string first = given.empty() ? "" : printable(given[0].string());
  return given.size() < 2 ? first : fmt::format("{} and {} more", first, given.size() - 1);
}

}  // namespace reprolab::reference
