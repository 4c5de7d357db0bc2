// Kernels of other languages: their manifests, and errors for invalid ones.
#include "harness/compiled_kernels.hpp"

#include <nlohmann/json.hpp>

#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

using Json = nlohmann::ordered_json;

const std::vector<std::string> variants = {"plain", "nested"};

/// A valid manifest of a kernel named toy, with a number that its family reads.
Json toy_manifest() {
  Json manifest = {{"kernel", "toy"},
                   {"family", "toys"},
                   {"language", "mojo"},
                   {"compiler", "Mojo (max-core 1.2.3)"},
                   {"lineage", "a toy"},
                   {"source_file", "toy.mojo"},
                   {"sources", Json::array({"toy.mojo"})},
                   {"threads", 128},
                   {"size", 7}};
  for (const auto& name : variants) {
    manifest["variants"][name] = {
        {"file", "toy.ptx"}, {"entry", "toy_entry"}, {"shared_bytes", 64}, {"null_pointers", 2}};
  }
  return manifest;
}

/// The manifest's text with another value at `pointer`.
std::string with(Json manifest, const std::string& pointer, const Json& value) {
  manifest[Json::json_pointer(pointer)] = value;
  return manifest.dump();
}

/// A folder with the source, which is empty, and manifests.
class CompiledFiles {
 public:
  CompiledFiles() { folder_.write("toy.mojo", ""); }
  CompiledFiles& add(const std::string& name, const std::string& text) {
    folder_.write("build/ptx/" + name, text);
    return *this;
  }
  std::vector<PtxKernel> read() const {
    return read_compiled_kernels("toys", variants, folder_.path());
  }
  void expect_refusal() const {
    expect_refused<UsageError>([&] { read(); }, "toy");
  }
  const OwnFolder& folder() const { return folder_; }

 private:
  OwnFolder folder_;
};

const Json sound = toy_manifest();

TEST(CompiledKernels, NothingBuiltMeansNoKernels) {
  EXPECT_TRUE(CompiledFiles().read().empty());
  EXPECT_TRUE(CompiledFiles().add("sm_90/toy.plain.ptx", "").read().empty());
  EXPECT_TRUE(CompiledFiles().add("old/toy.json", sound.dump()).read().empty());
}

TEST(CompiledKernels, AKernelHasEveryVariantForEachArchitecture) {
  CompiledFiles files;
  files.add("sm_90/toy.json", sound.dump()).add("sm_120/toy.json", sound.dump());
  const auto kernels = files.read();
  ASSERT_EQ(kernels.size(), 1u);
  const PtxKernel& kernel = kernels[0];
  EXPECT_EQ(kernel.name, "toy");
  EXPECT_EQ(kernel.compiler, "Mojo (max-core 1.2.3)");
  EXPECT_EQ(kernel.language, "mojo");
  EXPECT_EQ(kernel.threads, 128u);
  EXPECT_EQ(kernel.number("size"), 7);
  EXPECT_THROW(kernel.number("weight"), std::out_of_range);
  ASSERT_EQ(kernel.variants.size(), 2u);
  const PtxVariant& read = kernel.variants.at(120).at("nested");
  EXPECT_EQ(read.file, (files.folder().path() / "build/ptx/sm_120/toy.ptx").string());
  EXPECT_EQ(read.entry, "toy_entry");
  EXPECT_EQ(read.shared_bytes, 64u);
  EXPECT_EQ(read.null_pointers, 2);
}

TEST(CompiledKernels, AnInvalidManifestIsOneLineWithARemedy) {
  const auto invalid = [](const std::string& text) {
    CompiledFiles().add("sm_90/toy.json", text).expect_refusal();
  };
  const auto wrong = [&](const std::string& pointer, const Json& value) {
    invalid(with(sound, pointer, value));
  };
  for (const char* text : {"{", "[]", R"({"family": "toys"})"}) invalid(text);
  wrong("/sources/0", "gone.mojo");
  wrong("/threads", "128");
  wrong("/variants", Json::object());
}

}  // namespace
}  // namespace reprolab
