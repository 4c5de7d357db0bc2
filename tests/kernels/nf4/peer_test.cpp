// The errors of files that are no peers.
#include "harness/errors.hpp"
#include "harness/nf4/options.hpp"
#include "kernels/nf4/loaded_kernels.hpp"
#include "tests/kernels/nf4/testing.hpp"
#include "tests/refusal.hpp"
#include "tests/temporary_folder.hpp"

namespace reprolab::nf4 {
namespace {

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

TEST(PeerErrors, AFileThatIsNotBitsandbytesIsOneLine) {
  const OwnFolder folder;
  add("peer_twice=" CRASHING_PEER, "peer_twice");
  for (const std::string& argument :
       {std::string("/nonexistent/a.so"), std::string("mine=/nonexistent/a.so"),
        std::string("/no=folder/a.so"), folder.path().string(),
        folder.write("libbitsandbytes_cuda1.so", "not ELF").string(), std::string(NOT_A_PEER),
        std::string("peer_twice=" CRASHING_PEER), std::string("shared_lut=" CRASHING_PEER)}) {
    EXPECT_TRUE(contains(complaint(argument), "peer"));
  }
}

}  // namespace
}  // namespace reprolab::nf4
