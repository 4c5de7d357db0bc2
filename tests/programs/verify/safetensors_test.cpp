// A valid file is read back exactly as it was written.
#include "reference/checkpoint/shard_set.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/message_of.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

class Safetensors : public testing::Test {
 protected:
  ShardSet open(const std::vector<BuilderTensor>& tensors) {
    return ShardSet({folder_.write("a.safetensors", safetensors_bytes(tensors))});
  }

  OwnFolder folder_;
};

TEST_F(Safetensors, UnalignedDataAreCopiedOut) {
  const auto file =
      open({{"one", "U8", {1}, "x"}, {"f", "F32", {1}, std::string("\0\0\x80\x3f", 4)}});
  EXPECT_EQ(file.read<float>(*file.find("f")), std::vector<float>{1.0f});
  EXPECT_EQ(file.find("absent"), nullptr);
}

TEST_F(Safetensors, EveryDtypeOfTheFormatIsAPlainTensor) {
  std::vector<BuilderTensor> tensors;
  const std::vector<std::pair<std::string, int>> dtypes = {
      {"F64", 8},  {"F32", 4},     {"F16", 2},     {"BF16", 2},    {"I64", 8}, {"I32", 4},
      {"I16", 2},  {"I8", 1},      {"U64", 8},     {"U32", 4},     {"U16", 2}, {"U8", 1},
      {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"C64", 8}};
  for (const auto& [dtype, bytes] : dtypes) {
    tensors.push_back({dtype, dtype, {3}, std::string(3 * bytes, 'a')});
  }
  tensors.push_back({"F4", "F4", {6}, "abc"});
  tensors.push_back({"F6_E3M2", "F6_E3M2", {4}, "abc"});
  EXPECT_EQ(open(tensors).tensor_count(), tensors.size());
}

TEST_F(Safetensors, ScalarsAndEmptyTensorsAreTensors) {
  const auto file = open({{"scalar", "U8", {}, "x"}, {"empty", "F32", {0, 7}, ""}});
  EXPECT_EQ(file.find("scalar")->info->elements, 1);
  EXPECT_EQ(file.find("empty")->info->elements, 0);
  EXPECT_TRUE(file.read<float>(*file.find("empty")).empty());
}

TEST_F(Safetensors, AWeightWithoutElementsIsDequantizedToNothing) {
  const BnbCheckpoint checkpoint(
      {folder_.write("empty", safetensors_bytes(valid_tensors({.rows = 0, .columns = 5})))});
  EXPECT_TRUE(dequantize(checkpoint.load(checkpoint.tensors()[0])).empty());
}

/// A FIFO would be waited for, /dev/zero read without end.
TEST_F(Safetensors, WhatIsNoRegularFileIsRefusedAtOnce) {
  const auto fifo = folder_.path() / "fifo.safetensors";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto listener = folder_.path() / "socket";
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  listener.native().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const std::filesystem::path& path :
       std::vector<std::filesystem::path>{fifo, listener, "/dev/zero", "/dev/null"}) {
    EXPECT_EQ(message_of<InvalidFile>([&] { BnbCheckpoint({path}); }),
              path.string() + ": is not a regular file; give a .safetensors file");
  }
  ::close(descriptor);
  EXPECT_THROW(BnbCheckpoint({folder_.path()}), InvalidFile) << "a FIFO in a folder";
  std::filesystem::rename(fifo, folder_.path() / "model.safetensors.index.json");
  EXPECT_THROW(BnbCheckpoint({folder_.path()}), InvalidFile) << "a FIFO as the index";
}

/// What was a regular file may be a FIFO by the time it is opened, and a program may be started
/// while it is open.
TEST_F(Safetensors, AnOpenFileIsNeverWaitedForNorInherited) {
  const RegularFile file(folder_.write("a", "b"));
  int found = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || FileIdentity(status) != file.identity()) continue;
    ++found;
    EXPECT_NE(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace reprolab::reference
