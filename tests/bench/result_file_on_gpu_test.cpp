// The result files that the programs write, against the schema's document.
#include <cstdlib>

#include "experiments/harness/result_file.hpp"
#include "profiling/machine.hpp"
#include "tests/bench/program.hpp"
#include "tests/profiling/testing.hpp"
#include "tests/text.hpp"

namespace reprolab {
namespace {

using nlohmann::json;

class OnGpuResultFile : public Programs {
 protected:
  void SetUp() override {
    std::string why_not;
    if (!profiling::find_gpu(&why_not)) GTEST_SKIP() << "NOT TESTED, " << why_not;
  }

  json result() const { return read_json(folder_.path() / "results.json"); }
};

/// The example in the schema's document.
json document() {
  const std::string text = content_of(project_root() / "experiments/harness/RESULTS.md");
  const auto begin = text.find("```jsonc\n") + 9;
  return json::parse(text.substr(begin, text.find("```", begin) - begin), nullptr, true, true);
}

/// That `found` has the keys of `schema`, and so on in the objects below; lists are left alone.
void expect_keys(const json& found, const json& schema, const std::string& where) {
  std::vector<std::string> ours, theirs;
  for (const auto& [key, value] : found.items()) ours.push_back(key);
  for (const auto& [key, value] : schema.items()) theirs.push_back(key);
  EXPECT_EQ(ours, theirs) << where;
  for (const auto& [key, value] : schema.items()) {
    if (value.is_object() && found.contains(key) && found[key].is_object()) {
      expect_keys(found[key], value, where + "." + key);
    }
  }
}

TEST_F(OnGpuResultFile, OfBenchHasTheSchemasKeysAndEveryRow) {
  const Finished found =
      run(BENCH, "--family nf4 --shape 64x1003 --samples 2 --batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
  expect_keys(file["provenance"], document()["provenance"], "provenance");
  EXPECT_EQ(file["schema"], results_schema);
  EXPECT_EQ(file["experiment"], "bench");
  EXPECT_EQ(file["pass"], "alone");
  EXPECT_EQ(file["provenance"]["instrument"], "events");
  EXPECT_EQ(file["records"].size(), kernel_names("nf4").size() + 5) << "and the ceilings";
  for (const json& record : file["records"]) {
    EXPECT_EQ(record["samples_us"].size(), 2u) << record["key"];
    EXPECT_EQ(record["problem"]["n"], 64192) << record["key"];
    EXPECT_EQ(record["problem"]["models"], json::array({"asked for"})) << record["key"];
  }
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"results.json"});
}

TEST_F(OnGpuResultFile, OfAPassWithoutAnInstrumentHasNoSamples) {
  const Finished found =
      run(BENCH, "--family nf4 --shape 64x1003 --instrument none --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_TRUE(contains(found.out, "nf4/64x1003/fp16/b64/shared_lut: bit_exact\n"));
  const json file = result();
  EXPECT_EQ(file["records"].size(), kernel_names("nf4").size());
  for (const json& record : file["records"]) EXPECT_TRUE(record["samples_us"].empty());
}

/// Rows of 1004 elements begin at multiples of 16 bytes, rows of 1003 do not.
TEST_F(OnGpuResultFile, OfATransposeHasEveryRowOfEveryMatrix) {
  const Finished found = run(BENCH,
                             "--family transpose --matrix 64x1003 --matrix 64x1004 --samples 2 "
                             "--batch-us 20 --output results.json");
  ASSERT_EQ(found.status, 0) << found.err;
  const json file = result();
  EXPECT_EQ(file["records"].size(), 2 * (kernel_names("transpose").size() + 5));
  for (const json& record : file["records"]) {
    EXPECT_EQ(record["problem"]["family"], "transpose");
    EXPECT_EQ(record["problem"]["checked_on"], "host");
    const bool timed = record["outcome"] != "unsupported";
    EXPECT_EQ(record["samples_us"].size(), timed ? 2u : 0u) << record["key"];
    EXPECT_FALSE(!timed && record["reason"] == "") << record["key"];
  }
}

/// 4 TiB and its transpose.
TEST_F(OnGpuResultFile, OfWhatDoesNotFitSaysSoInEveryRow) {
  for (const bool timed : {true, false}) {
    const Finished found = run(
        BENCH, fmt::format("--family transpose --matrix 1048576x1048576 --instrument {} --output "
                           "results.json",
                           timed ? "events" : "none"));
    EXPECT_EQ(found.status, 2);
    EXPECT_TRUE(ends(found.err, "bench: no selected kernel could run; the reasons are above\n"));
    const json file = result();
    EXPECT_EQ(file["records"].size(), kernel_names("transpose").size() + (timed ? 5 : 0));
    for (const json& record : file["records"]) {
      EXPECT_EQ(record["outcome"], "unsupported") << record["key"];
      EXPECT_TRUE(matches(record["reason"],
                          fmt::format("needs {} GiB of device memory, [0-9.]+ GiB are free; select "
                                      "a smaller problem",
                                      timed ? "32768\\.0" : "16384\\.0")));
    }
  }
}

TEST_F(OnGpuResultFile, IsNotWrittenWhenTheFilterMatchesNothing) {
  const Finished found =
      run(BENCH, "--shape 64x64 --benchmark_filter=nothing --output results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_TRUE(contains(found.err,
                       "bench: --benchmark_filter selects nothing; "
                       "--benchmark_list_tests lists the rows\n"));
  expect_no_files();
}

TEST_F(OnGpuResultFile, IsNotWrittenWhenTestsAreOnlyListed) {
  const Finished found = run(BENCH, "--shape 64x64 --benchmark_list_tests --output results.json");
  EXPECT_EQ(found.status, 0);
  EXPECT_TRUE(contains(found.out, "nf4/64x64/fp16/b64/shared_lut"));
  expect_no_files();
}

TEST_F(OnGpuResultFile, OfAFilteredRunHasTheRowsOfTheFilterAndTheCeilings) {
  const Finished found = run(BENCH,
                             "--shape 64x64 --samples 2 --batch-us 20 --output results.json "
                             "--benchmark_filter='shared_lut/'");
  ASSERT_EQ(found.status, 0) << found.err;
  std::vector<std::string> kernels;
  const json file = result();
  for (const json& record : file["records"]) {
    if (record["role"] == "kernel") kernels.push_back(record["kernel"]);
  }
  EXPECT_EQ(kernels, std::vector<std::string>{"shared_lut"});
}

TEST_F(OnGpuResultFile, NamesTheCommitThatItIsGivenAndVouchesForNone) {
  const profiling::ScopedVariable commit("REPROLAB_COMMIT", "0123abc");
  unsetenv("REPROLAB_DIRTY");  // whoever runs the tests may vouch for the sources
  const auto dirty = [&] {
    const Finished found =
        run(BENCH, "--family nf4 --shape 64x64 --instrument none --output results.json");
    EXPECT_EQ(found.status, 0) << found.err;
    const json provenance = result()["provenance"];
    EXPECT_EQ(provenance["commit"], "0123abc");
    return provenance["dirty"].get<bool>();
  };
  EXPECT_TRUE(dirty());
  {
    const profiling::ScopedVariable clean("REPROLAB_DIRTY", "0");
    EXPECT_FALSE(dirty());
  }
  const profiling::ScopedVariable changed("REPROLAB_DIRTY", "1");
  EXPECT_TRUE(dirty());
}

TEST_F(OnGpuResultFile, WithoutASupportedKernelIsExitStatus2AndOneLine) {
  for (const char* instrument : {"events", "none"}) {
    const Finished found =
        run(BENCH, fmt::format("--shape 64x1024 --block-size 1024 --kernel shared_lut_algorithm1 "
                               "--samples 2 --batch-us 20 --instrument {}",
                               instrument));
    EXPECT_EQ(found.status, 2) << instrument;
    EXPECT_TRUE(ends(found.err, "bench: no selected kernel could run; the reasons are above\n"));
  }
}

/// One place that cannot be written: said before anything is measured.
TEST_F(OnGpuResultFile, ThatCannotBeWrittenIsOneLine) {
  const Finished found = run(BENCH, "--shape 64x64 --instrument none --output /proc/results.json");
  EXPECT_EQ(found.status, 2);
  EXPECT_EQ(found.out, "");
  EXPECT_EQ(found.err,
            "bench: /proc/results.json: cannot be written (the folder does not take it); choose "
            "another --output\n");
}

}  // namespace
}  // namespace reprolab
