// The rules for kernel files, in every family, and for what they register.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

#include "harness/code.hpp"
#include "harness/family.hpp"
#include "profiling/machine_code.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

/// Whether a file is not a kernel, but registers a user's peers.
bool registers_peers(const std::string& name) { return name.ends_with("_peer"); }

/// The comment at the start of a file.
std::string head_of(const std::string& text) {
  std::string head;
  for (std::size_t at = 0; text.compare(at, 2, "//") == 0;) {
    const std::size_t end = text.find('\n', at);
    head += text.substr(at, end + 1 - at);
    at = end + 1;
  }
  return head;
}

TEST(KernelFolders, AreTheFamiliesTestedHere) {
  std::set<std::string> folders, tested;
  for (const auto& entry : std::filesystem::directory_iterator(project_root() / "kernels")) {
    if (entry.is_directory()) folders.insert(entry.path().filename());
  }
  for (const Family* family : families()) tested.insert(family->name());
  EXPECT_EQ(folders, tested) << "a family has a folder of its name in kernels/ and in harness/";
}

TEST(KernelNames, AreUniqueInTheProject) {
  std::map<std::string, std::string> families_by_kernel;
  for (const Family* family : families()) {
    for (const VariantInfo& kernel : family->kernels()) {
      const auto [named, is_new] = families_by_kernel.emplace(kernel.name, family->name());
      EXPECT_TRUE(is_new) << kernel.name << " belongs to " << named->second << " and "
                          << family->name();
    }
  }
}

class KernelFiles : public testing::TestWithParam<Family*> {
 protected:
  std::string path(const std::string& kernel) const {
    return "kernels/" + GetParam()->name() + "/" + kernel + ".cu";
  }
  /// The names of the kernel files.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry :
         std::filesystem::directory_iterator(project_root() / "kernels" / GetParam()->name())) {
      if (entry.path().extension() == ".cu") names.insert(entry.path().stem());
    }
    return names;
  }
};

TEST_P(KernelFiles, EachRegistersOneKernelOfItsNameWithALineage) {
  std::set<std::string> kernels, files = this->files();
  std::erase_if(files, registers_peers);
  for (const VariantInfo& kernel : GetParam()->kernels()) {
    const std::string path = this->path(kernel.name);
    kernels.insert(kernel.name);
    EXPECT_EQ(kernel.source_file, path) << "leave .source_file out";
    EXPECT_FALSE(kernel.lineage.empty()) << path << ": write .lineage = \"<where it comes from>\"";
    const bool is_exact = kernel.promise.kind == Promise::Kind::bit_exact;
    EXPECT_TRUE(is_exact || !kernel.promise.text.empty())
        << path << ": say in one sentence what the contract allows";
    EXPECT_EQ(kernel.origin.kind == Origin::Kind::project, kernel.origin.maker.empty())
        << path << ": name the library in .origin, or leave .origin out";
  }
  EXPECT_FALSE(files.empty());
  EXPECT_EQ(kernels, files) << "write .name = \"<name>\" in " << path("<name>")
                            << ", and one kernel a file";
}

TEST_P(KernelFiles, EachBeginsWithIdeaSourceBoundAndCommandAndIsShort) {
  for (const std::string& name : files()) {
    const std::string path = this->path(name), text = content_of(project_root() / path);
    const std::string head = head_of(text);
    const std::string alone = registers_peers(name) ? "'bitsandbytes\\*' PEER=\\S+" : name;
    for (const auto& [pattern, line] :
         std::map<std::string, std::string>{{"^// \\S.*\n", "<the idea>', as the first"},
                                            {"\n// Source: \\S", "Source: <where it comes from>'"},
                                            {"\n// Bound:  \\S", "Bound:  <what limits it>'"},
                                            {"\n// Alone:  make bench KERNEL=" + alone + "\n",
                                             "Alone:  make bench KERNEL=" + alone + "'"}}) {
      EXPECT_TRUE(std::regex_search(head, std::regex(pattern)))
          << path << ": needs a line '// " << line;
    }
    EXPECT_LE(std::ranges::count(head, '\n'), 15)
        << path << ": shorten the comment it opens with to 15 lines";
    EXPECT_LE(std::ranges::count(text, '\n'), 150)
        << path << ": shorten it to 150 lines, or move what is shared to a header";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, KernelFiles, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param->name(); });

/// As in result files.
TEST(KernelCode, IsThatOfItsFileAndOfTheKernelsThatItLaunches) {
  // An architecture that this program was built for.
  const auto built = profiling::machine_code_in("/proc/self/exe");
  ASSERT_FALSE(built.empty());
  const int capability = built.front().capability;
  set_code_target(fmt::format("{}.{}", capability / 10, capability % 10));
  std::map<std::string, nlohmann::ordered_json> codes;  // digests by file
  std::set<std::string> digests;
  for (const auto& kernel : nf4::registered_kernels()) {
    const auto code = code_of(kernel);
    ASSERT_TRUE(code.is_object()) << kernel.name;
    EXPECT_EQ(code["target"], fmt::format("sm_{}", capability)) << kernel.name;
    codes[kernel.name] = code["sha256"];
    digests.insert(codes[kernel.name].at(kernel.source_file).get<std::string>());
  }
  EXPECT_EQ(digests.size(), codes.size()) << "two kernels have the same code";
  const std::string streaming = "kernels/nf4/streaming.cu";
  EXPECT_EQ(codes.at("two_launches").at(streaming), codes.at("streaming").at(streaming));
  EXPECT_EQ(codes.at("two_launches").size(), 2u);
  set_code_target("1.0");
  EXPECT_TRUE(code_of(nf4::registered_kernels().front()).is_null())
      << "only the driver compiles it";
}

/// Kernel families only for these tests: of kernels that are added by calls, and by their files.
struct Toy {};
struct LinkedToy {};

TEST(RegistryDeathTest, AKernelThatIsLinkedAfterTheFirstListingAborts) {
  const Definition<LinkedToy> stated{
      .name = "linked",
      .supports = [](const LinkedToy&) { return Support::yes(); },
      .launch = [](const LinkedToy&, cudaStream_t) { return cudaSuccess; }};
  const Register<LinkedToy> stated_by_its_file(stated);
  const Register<LinkedToy> made([] {
    Kernel<LinkedToy> kernel = kernel_of(Definition<LinkedToy>{.name = "made"});
    kernel.supports = [](const LinkedToy&) { return Support::no("is a toy"); };
    kernel.launch = [](const LinkedToy&, cudaStream_t) { return cudaErrorNotSupported; };
    return kernel;
  });
  EXPECT_EQ(Registry<LinkedToy>::instance().kernels().size(), 2u);
  EXPECT_EQ(kernel_named<LinkedToy>("linked").launch({}, nullptr), cudaSuccess);
  EXPECT_STREQ(kernel_named<LinkedToy>("made").supports({}).reason, "is a toy");
  EXPECT_EXIT(Register<LinkedToy>{stated}, testing::KilledBySignal(SIGABRT),
              "^reprolab: kernel 'linked' was loaded after the kernels were listed; link it\n$");
}

TEST(RegistryDeathTest, IncompleteKernelsAndDuplicateNamesAbort) {
  const auto aborts = [](const Kernel<Toy>& kernel, const std::string& message) {
    auto& registry = Registry<Toy>::instance();
    EXPECT_EXIT((registry.add(kernel), registry.add(kernel)), testing::KilledBySignal(SIGABRT),
                "^reprolab: " + message + "\n$");
  };
  Kernel<Toy> kernel{.name = "toy",
                     .supports = [](const Toy&) { return Support::yes(); },
                     .launch = [](const Toy&, cudaStream_t) { return cudaSuccess; }};
  aborts(kernel, "two kernels register the name 'toy'; rename one");
  kernel.launch = nullptr;
  aborts(kernel, "kernel 'toy' needs .supports and .launch");
}

}  // namespace
}  // namespace reprolab
