// How a peer is named, and the message for a user who names one wrongly.
#include <map>

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

TEST(PeerErrors, WhatIsNoLibraryOfBitsandbytesIsOneLine) {
  const OwnFolder folder;
  const std::string text = folder.write("libbitsandbytes_cuda1.so", "not ELF").string();
  const std::string no_file = ": no such file; give the path of libbitsandbytes_cuda*.so";
  add("peer_twice=" FAKE_PEER, "peer_twice");
  const auto taken = [](const std::string& name) {
    return FAKE_PEER ": there is already a kernel named '" + name +
           "'; name this one: NAME=" FAKE_PEER;
  };
  for (const auto& [argument, line] : std::map<std::string, std::string>{
           {"/nonexistent/a.so", "/nonexistent/a.so" + no_file},
           {"mine=/nonexistent/a.so", "/nonexistent/a.so" + no_file},
           {"/no=folder/a.so", "/no=folder/a.so" + no_file},
           {folder.path().string(), folder.path().string() + no_file},
           {text, text + ": cannot be loaded (" + text +
                      ": file too short); put its CUDA libraries on LD_LIBRARY_PATH"},
           {NOT_A_PEER, NOT_A_PEER
            ": exports neither cdequantize_blockwise_fp16_nf4 nor cdequantize_blockwise_bf16_nf4; "
            "give libbitsandbytes_cuda*.so of a bitsandbytes wheel"},
           {"peer_twice=" FAKE_PEER, taken("peer_twice")},
           {"shared_lut=" FAKE_PEER, taken("shared_lut")}}) {
    EXPECT_EQ(complaint(argument), "peer " + line);
  }
}

TEST(PeerErrors, ALibraryThatEndsTheProcessWhenItIsLoaded) {
  EXPECT_EQ(message_of<UsageError>([] { load_peers({UNLOADABLE_PEER}); }),
            "peer " UNLOADABLE_PEER
            ": when it was loaded, it ended the process: exit status 7; leave it out");
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

/// The user's name wins, then that of the wheel's version if its metadata lie beside the library,
/// then that of the file.
TEST(PeerNames, AreThoseOfTheUserOrOfTheWheelOrOfTheFile) {
  add("peer_named=" FAKE_PEER, "peer_named");
  const auto all = registered_variants<Problem>();
  const auto peer = *std::ranges::find(all, "peer_named", &VariantInfo::name);
  EXPECT_EQ(peer.lineage, "bitsandbytes (version unknown), libbitsandbytes_cuda999.so");
  EXPECT_EQ(peer.source_file, "kernels/nf4/bitsandbytes_peer.cu");
  EXPECT_EQ(peer.origin.kind, Origin::Kind::peer);
  EXPECT_EQ(peer.origin.maker, "bitsandbytes (version unknown)");
  EXPECT_FALSE(peer.promise.deviates());
  const OwnFolder site, other_site;
  EXPECT_EQ(
      add(peer_in_wheel(site, "bitsandbytes-0.47.0.dist-info"), "bitsandbytes_0.47.0").lineage,
      "bitsandbytes 0.47.0, libbitsandbytes_cuda999.so");
  add(peer_in_wheel(other_site, "another-1.0.dist-info"), "bitsandbytes_cuda999");
}

TEST(PeerSupports, WhatTheLibraryExportsAndAnIntCanCountWithATileToSpare) {
  const auto& peer = add("peer_without_nested=" CRASHING_PEER, "peer_without_nested");
  constexpr std::int64_t longest = (std::int64_t{1} << 31) - 2048;
  Problem problem;
  problem.table = reference::standard_table;
  problem.n = longest;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.output_type = OutputType::bf16;
  EXPECT_TRUE(peer.supports(problem).ok);
  problem.n = longest + 1;
  EXPECT_EQ(peer.supports(problem).reason,
            "bitsandbytes counts weights in an int: 2^31 - 2048 at most");
  problem.n = 1;
  problem.table[3] = 0.5f;
  EXPECT_EQ(peer.supports(problem).reason,
            "the checkpoint's quant_map is not the NF4 table built into the kernel");
  const std::uint8_t code = 0;
  problem.nested.codes = &code;
  EXPECT_EQ(peer.supports(problem).reason, "the library exports no cdequantize_blockwise_fp32");
}

}  // namespace
}  // namespace reprolab::nf4
