// The promises that a kernel's file makes to its reader.
#include <regex>

#include "experiments/harness/result_file.hpp"
#include "kernels/registry.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

/// Not a kernel in itself: it registers the peers that a user names.
constexpr const char* peers_file = "bitsandbytes_peer";

std::vector<std::filesystem::path> kernel_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(project_root() / "kernels/nf4")) {
    if (entry.path().extension() == ".cu") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// The comment that a file opens with.
std::string head_of(const std::string& text) {
  std::string head;
  for (std::size_t at = 0; text.compare(at, 2, "//") == 0;) {
    const std::size_t end = text.find('\n', at);
    head += text.substr(at, end + 1 - at);
    at = end + 1;
  }
  return head;
}

TEST(KernelFiles, EachRegistersOneKernelNamedAfterItself) {
  std::vector<std::string> files, kernels;
  for (const auto& file : kernel_files()) {
    if (file.stem() != peers_file) files.push_back(file.stem());
  }
  for (const auto& kernel : registered_kernels()) kernels.push_back(kernel.name);
  EXPECT_GE(files.size(), 11u);
  EXPECT_EQ(kernels, files)
      << "write .name = \"<name>\" in kernels/nf4/<name>.cu, and one kernel a file";
}

TEST(KernelFiles, EachKernelNamesItsFileAndWhereItComesFrom) {
  for (const auto& registered : registered_kernels()) {
    const std::string& name = registered.name;
    const Kernel<Problem>& kernel = Registry<Problem>::instance().kernels().at(name);
    const std::string path = "kernels/nf4/" + name + ".cu";
    EXPECT_EQ(kernel.source_file, path) << "write .source_file = \"" << path << "\"";
    EXPECT_FALSE(kernel.lineage.empty()) << path << ": write .lineage = \"<where it comes from>\"";
    EXPECT_FALSE(kernel.peer) << path << ": leave .peer out; peers are loaded from --peer";
    EXPECT_TRUE(kernel.supports) << path << ": write .supports = <what it can run>";
    EXPECT_TRUE(kernel.launch) << path << ": write .launch = <what enqueues it>";
    EXPECT_EQ(kernel.contract.bit_exact(), kernel.contract.emulate == nullptr)
        << path << ": a declared deviation needs .emulate, and nothing else has one";
  }
}

TEST(KernelFiles, EachOpensWithIdeaSourceBoundAndTheCommandThatMeasuresIt) {
  for (const auto& file : kernel_files()) {
    const std::string name = file.stem();
    const std::string head = head_of(content_of(file));
    EXPECT_TRUE(std::regex_search(head, std::regex("^// \\S.*\\n")))
        << name << ".cu: needs its idea as the first line: '// <the idea>'";
    EXPECT_TRUE(std::regex_search(head, std::regex("\n// Source: \\S")))
        << name << ".cu: needs a line '// Source: <where it comes from>'";
    EXPECT_TRUE(std::regex_search(head, std::regex("\n// Bound:  \\S")))
        << name << ".cu: needs a line '// Bound:  <what limits it>'";
    const bool peers = name == peers_file;
    const std::string kernel = peers ? "'bitsandbytes\\.\\*' PEER=\\S+" : name;
    EXPECT_TRUE(
        std::regex_search(head, std::regex("\n// Alone:  make bench KERNEL=" + kernel + "\n")))
        << name << ".cu: needs a line '// Alone:  make bench KERNEL="
        << (peers ? "'bitsandbytes.*' PEER=<path>" : name) << "'";
    EXPECT_LE(std::ranges::count(head, '\n'), 15)
        << name << ".cu: shorten the comment it opens with to 15 lines";
  }
}

TEST(KernelFiles, EachCanBeReadAtOneSitting) {
  for (const auto& file : kernel_files()) {
    EXPECT_LE(std::ranges::count(content_of(file), '\n'), 150)
        << file.filename() << ": shorten it to 150 lines, or move what is shared to a header";
  }
}

}  // namespace
}  // namespace reprolab::nf4
