// Kernels of other languages: what is read of them, and the message where it is wrong.
#include "experiments/nf4/compiled_kernels.hpp"

#include <cuda_fp16.h>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/result_file.hpp"
#include "kernels/ptx_module.hpp"
#include "tests/kernels/nf4/on_gpu.hpp"
#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab::nf4 {
namespace {

using Json = nlohmann::ordered_json;

const Json variant = {
    {"file", "toy.ptx"}, {"entry", "nf4"}, {"shared_bytes", 64}, {"null_pointers", 2}};
const Json sound = {
    {"kernel", "toy"},
    {"language", "mojo"},
    {"compiler", "Mojo (max-core 1.2.3)"},
    {"lineage", "a toy"},
    {"source_file", "toy.mojo"},
    {"sources", {"toy.mojo"}},
    {"threads", 128},
    {"weights_per_block", 2048},
    {"pointer_alignment", 16},
    {"weights_multiple", 16},
    {"variants",
     {{"fp16", variant}, {"bf16", variant}, {"fp16_nested", variant}, {"bf16_nested", variant}}}};

/// A folder with a source and, newer than it, manifests.
class Compiled {
 public:
  Compiled() { folder_.write("toy.mojo", ""); }
  Compiled& add(const std::string& name, const std::string& text) {
    folder_.write("ptx/" + name, text);
    return *this;
  }
  std::vector<PtxKernel> read() const {
    return read_compiled_kernels(folder_.path() / "ptx", folder_.path());
  }
  /// The error, without the folder's path.
  std::string complaint() const {
    std::string text = message_of<UsageError>([&] { read(); });
    const std::string prefix = (folder_.path() / "ptx").string() + "/";
    EXPECT_TRUE(begins(text, prefix)) << text;
    return text.substr(prefix.size());
  }
  const OwnFolder& folder() const { return folder_; }

 private:
  OwnFolder folder_;
};

std::string with(const std::string& pointer, const Json& value) {
  Json changed = sound;
  changed[Json::json_pointer(pointer)] = value;
  return changed.dump();
}

TEST(CompiledKernels, NothingBuiltIsNoKernelAndNoError) {
  EXPECT_TRUE(Compiled().read().empty());
  EXPECT_TRUE(Compiled().add("README.md", "").add("sm_90/toy.fp16.ptx", "").read().empty());
  EXPECT_TRUE(Compiled().add("sm_/toy.json", "{").add("sm_9x/toy.json", "{").read().empty());
}

TEST(CompiledKernels, AKernelHasAVariantForEachArchitectureTypeAndKindOfScales) {
  Compiled compiled;
  compiled.add("sm_90/toy.json", sound.dump()).add("sm_120/toy.json", sound.dump());
  const auto kernels = compiled.read();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].name, "toy");
  EXPECT_EQ(kernels[0].compiler, "Mojo (max-core 1.2.3)");
  EXPECT_EQ(kernels[0].threads, 128u);
  EXPECT_EQ(kernels[0].weights_per_block, 2048);
  ASSERT_EQ(kernels[0].variants.size(), 2u);
  const PtxVariant& read = kernels[0].variants.at(120).at("bf16_nested");
  EXPECT_EQ(read.file, (compiled.folder().path() / "ptx/sm_120/toy.ptx").string());
  EXPECT_EQ(read.entry, "nf4");
  EXPECT_EQ(read.shared_bytes, 64u);
  EXPECT_EQ(read.null_pointers, 2);
}

TEST(CompiledKernels, AManifestThatIsWrongIsOneLineThatSaysWhatToDo) {
  const std::string remedy = "; make mojo or make triton writes it anew";
  const auto says = [&](const std::string& text, const std::string& why) {
    EXPECT_EQ(Compiled().add("sm_90/toy.json", text).complaint(), "sm_90/toy.json: " + why);
  };
  says("{", "not valid JSON at byte 2");
  says("[]", "has no 'sources'" + remedy);
  says(with("/sources", "toy.mojo"), "sources: expected a list" + remedy);
  says(with("/sources", {1}), "sources: expected a list of texts" + remedy);
  says(with("/sources", {"gone.mojo"}), "its source gone.mojo is not there" + remedy);
  says(with("/kernel", "other"), "kernel: differs from the file's name" + remedy);
  says(with("/kernel", "../x"), "kernel: expected a plain name" + remedy);
  says(with("/compiler", ""), "compiler: expected a text" + remedy);
  says(with("/language", 7), "language: expected a text" + remedy);
  for (const Json& wrong :
       {Json(0), Json(1025), Json(1.5), Json("128"), Json(1e300), Json(~0ull)}) {
    says(with("/threads", wrong), "threads: expected a whole number from 1 to 1024" + remedy);
  }
  says(with("/variants/bf16/file", "../../x.ptx"), "file: expected a plain name" + remedy);
  says(with("/variants/bf16/shared_bytes", 49153),
       "shared_bytes: expected a whole number from 0 to 49152" + remedy);
  says(with("/variants/bf16/null_pointers", 5),
       "null_pointers: expected a whole number from 0 to 4" + remedy);
  says(with("/variants", Json::object()), "has no 'fp16'" + remedy);
}

TEST(CompiledKernels, WhatIsOlderThanItsSourceIsRefused) {
  Compiled compiled;
  compiled.add("sm_90/toy.json", sound.dump());
  std::filesystem::last_write_time(
      compiled.folder().path() / "toy.mojo",
      std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(compiled.complaint(),
            "sm_90/toy.json: toy.mojo is newer; make mojo or make triton writes it anew");
}

TEST(CompiledKernels, ArchitecturesMustAgreeOnTheKernel) {
  EXPECT_EQ(Compiled()
                .add("sm_80/toy.json", sound.dump())
                .add("sm_90/toy.json", with("/compiler", "Mojo (max-core 2)"))
                .complaint(),
            "sm_90/toy.json: differs from what is compiled for another architecture; make mojo or "
            "make triton writes it anew");
}

TEST(CompiledKernels, ARowSaysItsCompilerAndWhatItCannotRun) {
  Compiled compiled;
  compiled.add("sm_10/toy.json", sound.dump());
  PtxKernel toy = compiled.read().at(0);
  toy.name = "mojo_toy";
  add_ptx_kernel(toy);
  const auto& row = kernel_named<Problem>("mojo_toy");
  EXPECT_EQ(row.origin.kind, Origin::Kind::compiler);
  EXPECT_EQ(row.origin.maker, "Mojo (max-core 1.2.3)");
  EXPECT_EQ(row.source_file, "toy.mojo");
  const auto not_built = languages_not_built();
  EXPECT_EQ(std::ranges::count(not_built, "mojo: not built; make mojo"), 0);

  Problem problem;
  problem.table = reference::standard_table;
  problem.n = 17;
  EXPECT_EQ(row.supports(problem).reason, "is compiled for multiples of 16 weights");
  problem.n = std::int64_t{1} << 31;
  EXPECT_EQ(row.supports(problem).reason, "counts weights in 32 bits: 2^31 - 1 - 2048 at most");
  problem.n = 32;
  problem.absmax = reinterpret_cast<const float*>(std::uintptr_t{24});
  EXPECT_EQ(row.supports(problem).reason, "is compiled for arrays aligned to 16 bytes");
  problem.absmax = nullptr;
  const std::string reason = row.supports(problem).reason;  // no GPU has capability 1.0
  EXPECT_TRUE(reason == "needs a GPU" ||
              (begins(reason, "is not compiled for sm_") && contains(reason, "; make mojo ARCH=")))
      << reason;
  problem.table[3] = 0.5f;
  EXPECT_TRUE(contains(row.supports(problem).reason, "quant_map"));
}

// A driver that loads what begins with ".version" and remembers what it launched.
int loads = 0;
unsigned launched[3];
std::vector<std::int32_t> arguments_seen;
ModuleDriver fake_driver() {
  ModuleDriver driver;
  driver.load = [](CUmodule* module, const void* image, unsigned, CUjit_option*, void** values) {
    ++loads;
    *module = reinterpret_cast<CUmodule>(1);
    if (begins(static_cast<const char*>(image), ".version")) return CUDA_SUCCESS;
    std::snprintf(static_cast<char*>(values[0]), 64, "ptxas: line 1\x1b\nline 2");
    return CUDA_ERROR_INVALID_PTX;
  };
  driver.function = [](CUfunction* function, CUmodule, const char* name) {
    *function = reinterpret_cast<CUfunction>(2);
    return std::string_view(name) == "nf4" ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  };
  driver.launch = [](CUfunction, unsigned x, unsigned, unsigned, unsigned threads, unsigned,
                     unsigned, unsigned shared_bytes, CUstream, void** arguments, void**) {
    launched[0] = x, launched[1] = threads, launched[2] = shared_bytes;
    arguments_seen.push_back(*static_cast<std::int32_t*>(arguments[0]));
    return x == 7 ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
  };
  return driver;
}

TEST(PtxFunctions, AreLoadedOnceAndLaunchedAsAsked) {
  const OwnFolder folder;
  const ModuleDriver driver = fake_driver();
  PtxFunction function(folder.write("a.ptx", ".version 8.1").string(), "nf4");
  loads = 0;
  std::int32_t value = 41;
  void* arguments[] = {&value};
  EXPECT_EQ(function.launch(driver, {5, 128, 64}, arguments, nullptr), cudaSuccess);
  EXPECT_EQ(function.launch(driver, {7, 128, 64}, arguments, nullptr),
            cudaErrorLaunchOutOfResources);
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(launched[0], 7u);
  EXPECT_EQ(launched[1], 128u);
  EXPECT_EQ(launched[2], 64u);
  EXPECT_EQ(arguments_seen, (std::vector<std::int32_t>{41, 41}));
}

TEST(PtxFunctions, WhatCannotBeLoadedSaysWhyInOneLineAndIsNotLaunched) {
  const OwnFolder folder;
  const auto complaint = [&](const std::string& file, const std::string& entry,
                             const ModuleDriver& driver) {
    PtxFunction function(file, entry);
    EXPECT_EQ(function.launch(driver, {1, 32, 0}, nullptr, nullptr), cudaErrorInvalidKernelImage);
    return function.load(driver);
  };
  const std::string good = folder.write("good.ptx", ".version 8.1").string();
  const std::string bad = folder.write("bad.ptx", "x").string();
  EXPECT_EQ(complaint("/nonexistent/a.ptx", "nf4", fake_driver()),
            "/nonexistent/a.ptx: cannot be read");
  EXPECT_EQ(complaint(bad, "nf4", fake_driver()),
            bad + ": the driver refuses it (error 218): ptxas: line 1\\x1b");
  EXPECT_EQ(complaint(good, "other", fake_driver()), good + ": has no kernel 'other'");
  ModuleDriver none;
  none.why_not = "libcuda.so.1: not there";
  EXPECT_EQ(complaint(good, "nf4", none),
            good + ": the CUDA driver cannot be loaded: libcuda.so.1: not there");
}

/// Every kernel that was built here, at sizes within and across its blocks.
class OnGpuCompiledKernels : public OnGpuTest {};

TEST_F(OnGpuCompiledKernels, AreBitExactAtEverySizeThatTheySupport) {
  const auto built = read_compiled_kernels(compiled_folder(), project_root());
  if (built.empty()) GTEST_SKIP() << "nothing was built: make mojo; make triton";
  const Proof proof;
  load_compiled_kernels();
  const std::int64_t sizes[] = {1,    2,    31,   32,   64,    65,    511,     512,
                                1024, 2047, 2048, 4097, 65536, 65537, 1000003, 1 << 24};
  for (const PtxKernel& kernel : built) {
    const auto all = registered_variants<Problem>();
    const auto row = std::ranges::find(all, kernel.name, &VariantInfo::name);
    ASSERT_NE(row, all.end());
    for (const int block_size : {32, 64, 4096}) {
      for (const auto type : {reference::WeightType::fp16, reference::WeightType::bf16}) {
        for (const bool nested : {false, true}) {
          int ran = 0;
          for (const std::int64_t n : sizes) {
            if (n > 1000003 && block_size != 64) continue;
            const Tensor tensor = make_row(n, block_size, nested, type);
            const Verification found = proof.verify(*row, tensor);
            if (found.outcome == Outcome::unsupported && n % kernel.weights_multiple != 0) continue;
            EXPECT_EQ(name(found.outcome), name(Outcome::bit_exact))
                << kernel.name << ", " << n << " weights, " << tensor.quantized.name << ": "
                << found.reason;
            EXPECT_TRUE(writes_outside(kernel.name, tensor).empty()) << kernel.name << ", " << n;
            ++ran;
          }
          EXPECT_GT(ran, 4) << kernel.name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace reprolab::nf4
