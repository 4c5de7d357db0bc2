// The rules for kernel files, in every family.
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <regex>
#include <set>

#include "harness/family.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab {
namespace {

/// A family as it describes itself.
struct KernelFamily {
  std::string name;  ///< Of its folder in kernels/, too.
  std::map<std::string, VariantInfo> kernels;

  std::string path(const std::string& kernel) const {
    return "kernels/" + name + "/" + kernel + ".cu";
  }
};

void PrintTo(const KernelFamily& family, std::ostream* out) { *out << family.name; }

/// Whether a file is no kernel, but registers the peers that a user names.
bool registers_peers(const std::string& name) { return name.ends_with("_peer"); }

std::vector<KernelFamily> all_families() {
  std::vector<KernelFamily> found;
  for (const Family* family : families()) {
    KernelFamily& described = found.emplace_back(KernelFamily{family->name(), {}});
    for (const VariantInfo& kernel : family->kernels()) described.kernels[kernel.name] = kernel;
  }
  return found;
}

std::vector<std::filesystem::path> files_of(const KernelFamily& family) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(project_root() / "kernels" / family.name)) {
    if (entry.path().extension() == ".cu") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

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
  for (const auto& family : all_families()) tested.insert(family.name);
  EXPECT_EQ(folders, tested) << "a family has a folder of its name in kernels/ and in harness/";
}

class KernelFiles : public testing::TestWithParam<KernelFamily> {};

TEST_P(KernelFiles, EachRegistersOneKernelNamedAfterItself) {
  std::vector<std::string> files, kernels;
  for (const auto& file : files_of(GetParam())) {
    if (!registers_peers(file.stem())) files.push_back(file.stem());
  }
  for (const auto& [name, kernel] : GetParam().kernels) kernels.push_back(name);
  EXPECT_FALSE(files.empty());
  EXPECT_EQ(kernels, files) << "write .name = \"<name>\" in " << GetParam().path("<name>")
                            << ", and one kernel a file";
}

TEST_P(KernelFiles, EachKernelNamesItsFileAndWhereItComesFrom) {
  for (const auto& [name, kernel] : GetParam().kernels) {
    const std::string path = GetParam().path(name);
    EXPECT_EQ(kernel.source_file, path) << "write .source_file = \"" << path << "\"";
    EXPECT_FALSE(kernel.lineage.empty()) << path << ": write .lineage = \"<where it comes from>\"";
    const bool is_exact = kernel.promise.kind == Promise::Kind::bit_exact;
    EXPECT_TRUE(is_exact || !kernel.promise.text.empty())
        << path << ": say in one sentence what the contract allows";
    EXPECT_EQ(kernel.origin.kind == Origin::Kind::project, kernel.origin.maker.empty())
        << path << ": name the library in .origin, or leave .origin out";
  }
}

TEST_P(KernelFiles, EachOpensWithIdeaSourceBoundAndTheCommandThatMeasuresIt) {
  for (const auto& file : files_of(GetParam())) {
    const std::string name = file.stem(), path = GetParam().path(name);
    const std::string head = head_of(content_of(file));
    EXPECT_TRUE(std::regex_search(head, std::regex("^// \\S.*\\n")))
        << path << ": needs its idea as the first line: '// <the idea>'";
    EXPECT_TRUE(std::regex_search(head, std::regex("\n// Source: \\S")))
        << path << ": needs a line '// Source: <where it comes from>'";
    EXPECT_TRUE(std::regex_search(head, std::regex("\n// Bound:  \\S")))
        << path << ": needs a line '// Bound:  <what limits it>'";
    const bool peers = registers_peers(name);
    const std::string kernel = peers ? "'bitsandbytes\\*' PEER=\\S+" : name;
    EXPECT_TRUE(
        std::regex_search(head, std::regex("\n// Alone:  make bench KERNEL=" + kernel + "\n")))
        << path << ": needs a line '// Alone:  make bench KERNEL="
        << (peers ? "'bitsandbytes*' PEER=<path>" : name) << "'";
    EXPECT_LE(std::ranges::count(head, '\n'), 15)
        << path << ": shorten the comment it opens with to 15 lines";
  }
}

TEST_P(KernelFiles, EachCanBeReadAtOneSitting) {
  for (const auto& file : files_of(GetParam())) {
    EXPECT_LE(std::ranges::count(content_of(file), '\n'), 150)
        << file.filename() << ": shorten it to 150 lines, or move what is shared to a header";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, KernelFiles, testing::ValuesIn(all_families()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace reprolab
