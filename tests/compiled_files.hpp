// Kernels of other languages as `make mojo` writes them: manifests, with a source and PTX.
#pragma once

#include <string>
#include <vector>

#include "harness/compiled_kernels.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {

using Json = Manifest;

/// A valid manifest of a kernel named toy, with `facts` of its family.
inline Json toy_manifest(const std::string& family, const std::vector<std::string>& variants,
                         const Json& facts) {
  Json manifest = {{"kernel", "toy"},
                   {"family", family},
                   {"language", "mojo"},
                   {"compiler", "Mojo (max-core 1.2.3)"},
                   {"lineage", "a toy"},
                   {"source_file", "toy.mojo"},
                   {"sources", Manifest::array({"toy.mojo"})},
                   {"threads", 128}};
  manifest.update(facts);
  for (const auto& name : variants) {
    manifest["variants"][name] = {
        {"file", "toy.ptx"}, {"entry", "toy_entry"}, {"shared_bytes", 64}, {"null_pointers", 2}};
  }
  return manifest;
}

/// The manifest's text with another value at `pointer`.
inline std::string with(Json manifest, const std::string& pointer, const Json& value) {
  manifest[Json::json_pointer(pointer)] = value;
  return manifest.dump();
}

/// A folder with the source, which is empty, and manifests.
class CompiledFiles {
 public:
  CompiledFiles() { folder_.write("toy.mojo", ""); }
  CompiledFiles& add(const std::string& name, const std::string& text) {
    folder_.write("ptx/" + name, text);
    return *this;
  }
  /// `reader(folder, root)` reads a family's kernels.
  template <class Reader>
  auto read(Reader&& reader) const {
    return reader(folder_.path() / "ptx", folder_.path());
  }
  template <class Reader>
  void expect_refusal(Reader&& reader) const {
    expect_refused<UsageError>([&] { read(reader); }, "toy");
  }
  const OwnFolder& folder() const { return folder_; }

 private:
  OwnFolder folder_;
};

}  // namespace reprolab
