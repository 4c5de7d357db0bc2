// How a peer is named, and the message for a user who names one wrongly.
#include "common/printable.hpp"
#include "harness/errors.hpp"
#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

/// The fake peer in an unpacked wheel: site/bitsandbytes/libbitsandbytes_cuda999.so, with the
/// wheel's metadata next to its folder.
std::string peer_in_wheel(const OwnFolder& site, const std::string& dist_info) {
  if (!dist_info.empty()) site.write(dist_info + "/METADATA", "");
  const auto library = site.path() / "bitsandbytes/libbitsandbytes_cuda999.so";
  std::filesystem::create_directories(library.parent_path());
  std::filesystem::copy_file(FAKE_PEER, library);
  return library.string();
}

/// The message of add_bitsandbytes_peer for `argument`; nothing may have been registered.
std::string complaint(const std::string& argument) {
  const auto before = Registry<Problem>::instance().kernels().size();
  const auto text = message_of<std::runtime_error>([&] { add_bitsandbytes_peer(argument); });
  EXPECT_EQ(Registry<Problem>::instance().kernels().size(), before);
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

/// Peers stay registered as long as the process lives, so every test uses its own name.
const Kernel<Problem>& add(const std::string& argument, const std::string& expected_name) {
  EXPECT_EQ(add_bitsandbytes_peer(argument), expected_name);
  return kernel_named<Problem>(expected_name);
}

TEST(PeerErrors, NoSuchFile) {
  EXPECT_EQ(complaint("/nonexistent/libbitsandbytes_cuda1.so"),
            "peer /nonexistent/libbitsandbytes_cuda1.so: no such file; give the path of "
            "libbitsandbytes_cuda*.so");
  EXPECT_EQ(complaint("mine=/nonexistent/a.so"),
            "peer /nonexistent/a.so: no such file; give the path of libbitsandbytes_cuda*.so");
  const OwnFolder folder;
  EXPECT_EQ(complaint(folder.path().string()),
            "peer " + folder.path().string() +
                ": no such file; give the path of libbitsandbytes_cuda*.so");
}

TEST(PeerErrors, NotASharedLibrary) {
  const OwnFolder folder;
  const std::string path = folder.write("libbitsandbytes_cuda1.so", "not ELF").string();
  EXPECT_EQ(complaint(path), "peer " + path + ": cannot be loaded (" + path +
                                 ": file too short); put its CUDA libraries on LD_LIBRARY_PATH");
}

TEST(PeerErrors, ALibraryThatIsNotBitsandbytes) {
  EXPECT_EQ(complaint(NOT_A_PEER),
            "peer " NOT_A_PEER
            ": exports neither cdequantize_blockwise_fp16_nf4 nor cdequantize_blockwise_bf16_nf4; "
            "give libbitsandbytes_cuda*.so of a bitsandbytes wheel");
}

TEST(PeerErrors, ALibraryThatEndsTheProcessWhenItIsLoaded) {
  EXPECT_EQ(message_of<UsageError>([] { load_peers({UNLOADABLE_PEER}); }),
            "peer " UNLOADABLE_PEER
            ": when it was loaded, it ended the process: exit status 7; leave it out");
  EXPECT_EQ(message_of<UsageError>([] { load_peers({"/nonexistent/a.so"}); }),
            "peer /nonexistent/a.so: no such file; give the path of libbitsandbytes_cuda*.so");
}

TEST(PeerErrors, ASecondPeerOfTheSameNameAndThatOfAKernel) {
  add("peer_twice=" FAKE_PEER, "peer_twice");
  EXPECT_EQ(complaint("peer_twice=" FAKE_PEER),
            "peer " FAKE_PEER
            ": there is already a kernel named 'peer_twice'; name this one: "
            "NAME=" FAKE_PEER);
  EXPECT_EQ(complaint("shared_lut=" FAKE_PEER),
            "peer " FAKE_PEER
            ": there is already a kernel named 'shared_lut'; name this one: "
            "NAME=" FAKE_PEER);
}

TEST(PeerErrors, ANameThatIsNotPlain) {
  const std::string rule =
      "; give NAME=path, of at most 64 letters, digits, '_', '-' and '.', the first of them no '.'";
  for (const std::string name : {"", "a|b", "$x$", "a b", ".a", "a\nb"}) {
    EXPECT_EQ(complaint(name + "=" FAKE_PEER),
              "peer " FAKE_PEER ": cannot be named '" + printable(name) + "'" + rule);
  }
  const OwnFolder site;
  EXPECT_EQ(complaint(peer_in_wheel(site, "bitsandbytes-1\x1b.dist-info")),
            "peer " + (site.path() / "bitsandbytes/libbitsandbytes_cuda999.so").string() +
                ": cannot be named 'bitsandbytes_1\\x1b'" + rule);
}

TEST(PeerErrors, AnEqualsSignInAFolderIsNoName) {
  EXPECT_EQ(complaint("/no=folder/a.so"),
            "peer /no=folder/a.so: no such file; give the path of libbitsandbytes_cuda*.so");
}

TEST(PeerNames, ThatOfTheUserWins) {
  const auto peer = add("peer_named=" FAKE_PEER, "peer_named");
  EXPECT_EQ(peer.lineage, "bitsandbytes (version unknown), libbitsandbytes_cuda999.so");
  EXPECT_EQ(peer.source_file, "kernels/nf4/bitsandbytes_peer.cu");
  EXPECT_EQ(peer.origin.kind, Origin::Kind::peer);
  EXPECT_TRUE(is_bit_exact(peer));
}

TEST(PeerNames, ThatOfTheWheelsVersionWhereItsMetadataLieBesideTheLibrary) {
  const OwnFolder site;
  const std::string library = peer_in_wheel(site, "bitsandbytes-0.47.0.dist-info");
  const auto peer = add(library, "bitsandbytes_0.47.0");
  EXPECT_EQ(peer.lineage, "bitsandbytes 0.47.0, libbitsandbytes_cuda999.so");
}

TEST(PeerNames, ThatOfTheFileWhereTheVersionIsUnknown) {
  const OwnFolder site;
  const std::string library = peer_in_wheel(site, "another-1.0.dist-info");
  add(library, "bitsandbytes_cuda999");
}

TEST(PeerNames, ARegisteredPeerIsListedAsOneWithItsMaker) {
  add("peer_listed=" FAKE_PEER, "peer_listed");
  const auto all = registered_variants<Problem>();
  const auto listed = std::ranges::find(all, "peer_listed", &VariantInfo::name);
  ASSERT_NE(listed, all.end());
  EXPECT_EQ(listed->origin.kind, Origin::Kind::peer);
  EXPECT_EQ(listed->origin.maker, "bitsandbytes (version unknown)");
  const auto ours = std::ranges::find(all, "shared_lut", &VariantInfo::name);
  ASSERT_NE(ours, all.end());
  EXPECT_EQ(ours->origin.kind, Origin::Kind::project);
}

TEST(PeerSupports, WhatTheLibraryExportsAndNothingElse) {
  const auto peer = add("peer_without_nested=" CRASHING_PEER, "peer_without_nested");
  Problem problem;
  problem.table = reference::standard_table;
  problem.n = 64;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.output_type = OutputType::bf16;
  EXPECT_TRUE(peer.supports(problem).ok);
  const std::uint8_t code = 0;
  problem.nested.codes = &code;
  EXPECT_EQ(peer.supports(problem).reason, "the library exports no cdequantize_blockwise_fp32");
}

TEST(PeerSupports, LengthsThatAnIntCanCountWithATileToSpare) {
  const auto peer = add("peer_lengths=" FAKE_PEER, "peer_lengths");
  Problem problem;
  problem.table = reference::standard_table;
  constexpr std::int64_t longest = (std::int64_t{1} << 31) - 2048;
  problem.n = longest;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.n = longest + 1;
  EXPECT_FALSE(peer.supports(problem).ok);
  EXPECT_EQ(peer.supports(problem).reason,
            "bitsandbytes counts weights in an int: 2^31 - 2048 at most");
  problem.n = 1;
  problem.table[3] = 0.5f;
  EXPECT_EQ(peer.supports(problem).reason,
            "the checkpoint's quant_map is not the NF4 table built into the kernel");
}

}  // namespace
}  // namespace reprolab::nf4
