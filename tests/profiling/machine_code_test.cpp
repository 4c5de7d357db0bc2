// Digests of code: which changes affect them, and files without code.
#include "profiling/machine_code.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <stdexcept>

#include "profiling/sha256.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::profiling {
namespace {

/// Source: FIPS 180-4's examples, and a text that leaves no room for the length in its block.
TEST(Sha256, OfTheStandardsExamples) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  Sha256 million;
  for (int i = 0; i < 1000; ++i) million.update(std::string(1000, 'a'));
  EXPECT_EQ(million.hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

constexpr const char* ptx = R"(
.version 8.7
.target sm_90a
.visible .entry nf4(.param .u64 codes)
{
$L__tmp0:
    .loc 1 12 3
    mov.u32 %r1, 64; // a block
    ret;
}
    .file 1 "/somewhere/nf4.py"
    .section .debug_abbrev
    {
.b8 1
    }
.global .u32 last;
)";

std::string with(std::string text, const std::string& part, const std::string& other) {
  const auto at = text.find(part);
  EXPECT_NE(at, text.npos) << part;
  return text.replace(at, part.size(), other);
}

TEST(PtxDigest, DependsOnlyOnTheCode) {
  const std::string before = ptx_digest(ptx);
  EXPECT_EQ(ptx_digest(with(ptx, "// a block", "// 64 weights")), before);
  EXPECT_EQ(ptx_digest(with(ptx, "1 12 3", "1 13 3")), before);
  EXPECT_EQ(ptx_digest(with(ptx, "/somewhere", "/elsewhere")), before);
  EXPECT_EQ(ptx_digest(with(ptx, ".b8 1", ".b8 2")), before);
  EXPECT_EQ(ptx_digest(with(ptx, "$L__tmp0:\n", "")), before);
  EXPECT_NE(ptx_digest(with(ptx, "%r1, 64", "%r1, 65")), before);
  EXPECT_NE(ptx_digest(with(ptx, "sm_90a", "sm_90")), before);
  EXPECT_NE(ptx_digest(with(ptx, ".u32 last", ".u64 last")), before);
}

TEST(FileDigest, CoversAllBytesAndForPtxTheCode) {
  const OwnFolder folder;
  EXPECT_EQ(file_digest(folder.write("library.so", "abc")), sha256("abc"));
  EXPECT_EQ(file_digest(folder.write("a.ptx", ptx)), ptx_digest(ptx));
}

TEST(MachineCode, AFileThatIsNotAProgramIsRefusedByName) {
  const OwnFolder folder;
  // A program's table of sections is at its end.
  const std::string start = content_of("/proc/self/exe").substr(0, 4096);
  ASSERT_EQ(::mkfifo((folder.path() / "fifo").c_str(), 0600), 0);
  for (const auto& file : {folder.path() / "missing.so", folder.write("short", "x"),
                           folder.write("text", std::string(100, 'x')),
                           folder.write("start", start), folder.path() / "fifo"}) {
    expect_refused<std::runtime_error>([&] { machine_code_in(file); }, file.filename().string());
  }
}

TEST(MachineCode, AProgramWithoutDeviceCodeHasNone) {
  EXPECT_TRUE(machine_code_in("/proc/self/exe").empty());
}

}  // namespace
}  // namespace reprolab::profiling
