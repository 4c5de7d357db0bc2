// Kernels of other languages: their manifests, and errors for invalid ones.
#include "harness/compiled_kernels.hpp"

#include "tests/compiled_files.hpp"

namespace reprolab {
namespace {

const std::vector<std::string> variants = {"plain", "nested"};
const Json sound = toy_manifest("toys", variants, {{"size", 7}});

std::vector<CompiledKernel> read_toys(const std::filesystem::path& folder,
                                      const std::filesystem::path& root) {
  return read_compiled_kernels("toys", variants, folder, root);
}

TEST(CompiledKernels, NothingBuiltMeansNoKernels) {
  const auto read = [](const std::string& name, const std::string& text) {
    return CompiledFiles().add(name, text).read(read_toys).size();
  };
  EXPECT_TRUE(CompiledFiles().read(read_toys).empty());
  EXPECT_EQ(read("README.md", ""), 0u);
  EXPECT_EQ(read("sm_90/toy.plain.ptx", ""), 0u);
  EXPECT_EQ(read("sm_/toy.json", "{"), 0u);
  EXPECT_EQ(read("sm_9x/toy.json", "{"), 0u);
}

TEST(CompiledKernels, KernelsOfOtherFamiliesAreIgnored) {
  CompiledFiles files;
  files.add("sm_90/other.json", R"({"family": "others"})").add("sm_90/toy.json", sound.dump());
  EXPECT_EQ(files.read(read_toys).size(), 1u);
}

TEST(CompiledKernels, AKernelHasEveryVariantForEachArchitecture) {
  CompiledFiles files;
  files.add("sm_90/toy.json", sound.dump()).add("sm_120/toy.json", sound.dump());
  const auto kernels = files.read(read_toys);
  ASSERT_EQ(kernels.size(), 1u);
  const auto& [kernel, manifest] = kernels[0];
  EXPECT_EQ(kernel.name, "toy");
  EXPECT_EQ(kernel.compiler, "Mojo (max-core 1.2.3)");
  EXPECT_EQ(kernel.language, "mojo");
  EXPECT_EQ(kernel.threads, 128u);
  EXPECT_EQ(manifest.number("size", 0, 9), 7);
  ASSERT_EQ(kernel.variants.size(), 2u);
  const PtxVariant& read = kernel.variants.at(120).at("nested");
  EXPECT_EQ(read.file, (files.folder().path() / "ptx/sm_120/toy.ptx").string());
  EXPECT_EQ(read.entry, "toy_entry");
  EXPECT_EQ(read.shared_bytes, 64u);
  EXPECT_EQ(read.null_pointers, 2);
}

TEST(CompiledKernels, AnInvalidManifestIsOneLineWithARemedy) {
  const auto invalid = [](const std::string& text) {
    CompiledFiles().add("sm_90/toy.json", text).expect_refusal(read_toys);
  };
  const auto wrong = [&](const std::string& pointer, const Json& value) {
    invalid(with(sound, pointer, value));
  };
  invalid("{");
  invalid("[]");
  invalid(R"({"family": "toys"})");
  wrong("/family", "a b");
  wrong("/sources", Json::array({"toy.mojo"}));
  wrong("/sources/gone.mojo", fingerprint(""));
  wrong("/sources/toy.mojo", fingerprint("\n"));
  wrong("/kernel", "other");
  wrong("/kernel", "../x");
  wrong("/compiler", "");
  wrong("/language", 7);
  for (const Json& no : {Json(0), Json(1025), Json(1.5), Json("128"), Json(1e300), Json(~0ull)}) {
    wrong("/threads", no);
  }
  wrong("/variants/nested/file", "../../x.ptx");
  wrong("/variants/nested/shared_bytes", 49153);
  wrong("/variants/nested/null_pointers", 5);
  wrong("/variants", Json::object());
}

/// compile/__main__.py writes the same; the values are those of the hash's authors.
TEST(CompiledKernels, FingerprintsAreFnv1a) {
  EXPECT_EQ(fingerprint(""), "cbf29ce484222325");
  EXPECT_EQ(fingerprint("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(fingerprint("foobar"), "85944171f73967e8");
}

TEST(CompiledKernels, ArchitecturesMustAgreeOnTheKernel) {
  CompiledFiles files;
  files.add("sm_80/toy.json", sound.dump());
  files.add("sm_90/toy.json", with(sound, "/compiler", "Mojo (max-core 2)"));
  files.expect_refusal(read_toys);
}

struct Toy {};

void register_toy(Kernel<Toy> toy) {
  toy.supports = [](const Toy&) { return Support::yes(); };
  toy.launch = [](const Toy&, cudaStream_t) { return cudaSuccess; };
  Registry<Toy>::instance().add(std::move(toy));
}

TEST(CompiledKernels, EachLanguageWithoutAKernelIsOneLineAndNamesAreUnique) {
  const CompiledFamily<Toy, PtxKernel> toys{
      .name = "toys",
      .variants = variants,
      .commands = {{"mojo", "make mojo"}, {"triton", "make triton"}},
      .with_facts = [](const PtxKernel& kernel, const Manifest&) { return kernel; },
      .add = [](const PtxKernel& kernel) { register_toy(described<Toy>(kernel)); }};
  const auto not_built = [&] { return toys.languages_not_built(); };
  Kernel<Toy> ours;
  ours.name = "mojo_ours";  // not compiled, in spite of its name
  register_toy(ours);
  EXPECT_EQ(not_built(), (std::vector<std::string>{"mojo: not built; make mojo",
                                                   "triton: not built; make triton"}));
  PtxKernel kernel;
  kernel.name = "mojo_toy";
  kernel.source_file = "toy.mojo";
  kernel.language = "mojo";
  toys.add_all({kernel});
  EXPECT_EQ(not_built(), std::vector<std::string>{"triton: not built; make triton"});
  expect_refused<UsageError>([&] { toys.add_all({kernel}); }, "mojo_toy");
}

}  // namespace
}  // namespace reprolab
