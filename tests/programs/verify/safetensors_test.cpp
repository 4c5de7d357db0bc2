// Valid and invalid contents of safetensors files, of any size.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"
#include "tests/refusal.hpp"

namespace reprolab::reference {
namespace {

TEST(Safetensors, EveryDtypeAndShapeOfTheFormatIsAPlainTensor) {
  const std::vector<std::pair<std::string, int>> dtypes = {
      {"F64", 8},  {"F32", 4},     {"F16", 2},     {"BF16", 2},    {"I64", 8}, {"I32", 4},
      {"I16", 2},  {"I8", 1},      {"U64", 8},     {"U32", 4},     {"U16", 2}, {"U8", 1},
      {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"C64", 8}};
  std::vector<BuilderTensor> tensors = {{"F4", "F4", {6}, "abc"},
                                        {"F6_E3M2", "F6_E3M2", {4}, "abc"},
                                        {"scalar", "U8", {}, "x"},
                                        {"empty", "F32", {0, 7}, ""}};
  for (const auto& [dtype, bytes] : dtypes) {
    tensors.push_back({dtype, dtype, {3}, std::string(3 * bytes, 'a')});
  }
  const MemoryFile file;
  const ShardSet shards({file.write(safetensors_bytes(tensors))});
  EXPECT_EQ(shards.tensor_count(), tensors.size());
  EXPECT_EQ(shards.find("scalar")->elements, 1);
  EXPECT_EQ(shards.find("empty")->elements, 0);
  EXPECT_TRUE(shards.read<float>(*shards.find("empty")).empty());
  EXPECT_EQ(shards.find("absent"), nullptr);
}

/// All dtypes as which bitsandbytes 0.50.2 stores codes under PyTorch 2.13, by quant_storage.
TEST(Safetensors, CodesAreReadFromEveryDtype) {
  const CheckpointSpec spec{.rows = 4, .columns = 64};
  for (const auto& [dtype, bytes] :
       std::vector<std::pair<std::string, std::int64_t>>{{"F64", 8},
                                                         {"F32", 4},
                                                         {"F16", 2},
                                                         {"BF16", 2},
                                                         {"I64", 8},
                                                         {"I32", 4},
                                                         {"I16", 2},
                                                         {"I8", 1},
                                                         {"U64", 8},
                                                         {"U32", 4},
                                                         {"U16", 2},
                                                         {"U8", 1},
                                                         {"BOOL", 1},
                                                         {"F8_E4M3", 1},
                                                         {"F8_E5M2", 1},
                                                         {"F8_E4M3FNUZ", 1},
                                                         {"F8_E5M2FNUZ", 1},
                                                         {"F8_E8M0", 1},
                                                         {"C64", 8}}) {
    SCOPED_TRACE(dtype);
    auto tensors = valid_tensors(spec);
    BuilderTensor& codes = tensor_named(tensors, "layer.weight");
    codes.dtype = dtype;
    codes.shape = {128 / bytes, 1};
    const MemoryFile file;
    const BnbCheckpoint checkpoint({file.write(safetensors_bytes(tensors))});
    const auto& info = checkpoint.tensors().at(0);
    EXPECT_EQ(dequantize(checkpoint.load(info)), checkpoint.load_bits(*info.dequantized));
  }
  auto tensors = valid_tensors(spec);
  BuilderTensor& codes = tensor_named(tensors, "layer.weight");
  codes.dtype = "F4";  // two to a byte, as PyTorch's float4_e2m1fn_x2 is written
  codes.shape = {128, 2};
  tensors.push_back({"layer.SCB", "F32", {1}, "abcd"});
  const MemoryFile file;
  const BnbCheckpoint checkpoint({file.write(safetensors_bytes(tensors))});
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
}

/// Scales with LLM.int8()'s names do not make int8 weights of NF4 codes stored as I8.
TEST(Safetensors, Nf4CodesAsInt8AreCountedOnce) {
  auto tensors = valid_tensors({.dequantized = false});
  tensor_named(tensors, "layer.weight").dtype = "I8";
  tensors.push_back({"layer.SCB", "F32", {1}, "abcd"});
  const MemoryFile file;
  const BnbCheckpoint checkpoint({file.write(safetensors_bytes(tensors))});
  EXPECT_EQ(checkpoint.tensors().size(), 1u);
  EXPECT_EQ(describe(checkpoint.other_tensors()), "1 tensor of F32");
}

TEST(Safetensors, AWeightWithoutElementsIsDequantizedToNothing) {
  const MemoryFile file;
  for (const bool nested : {false, true}) {
    const BnbCheckpoint checkpoint({file.write(
        safetensors_bytes(valid_tensors({.nested = nested, .rows = 0, .columns = 5})))});
    EXPECT_TRUE(dequantize(checkpoint.load(checkpoint.tensors()[0])).empty());
  }
}

/// A FIFO would block, and /dev/zero would never end.
TEST(Safetensors, AnotherFileThanARegularOneIsRefusedAtOnce) {
  const OwnFolder folder;
  const auto fifo = folder.path() / "fifo.safetensors";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto listener = folder.path() / "socket";
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  listener.native().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  for (const std::filesystem::path& path :
       std::vector<std::filesystem::path>{fifo, listener, "/dev/zero", "/dev/null"}) {
    expect_refused<InvalidFile>([&] { BnbCheckpoint({path}); }, "safetensors");
  }
  ::close(descriptor);
  expect_refused<InvalidFile>([&] { BnbCheckpoint({folder.path()}); }, "safetensors");
  std::filesystem::rename(fifo, folder.path() / "model.safetensors.index.json");
  expect_refused<InvalidFile>([&] { BnbCheckpoint({folder.path()}); }, "safetensors");
}

/// A regular file may become a FIFO before it is opened, and a program may be started while it is
/// open.
TEST(Safetensors, OpeningNeverBlocksAndFilesAreNotInherited) {
  const OwnFolder folder;
  const RegularFile file(folder.write("a", "b"));
  int descriptors = 0;
  for (int descriptor = 0; descriptor < 1024; ++descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) != 0 || status.st_ino != file.identity().inode) continue;
    ++descriptors;
    EXPECT_NE(::fcntl(descriptor, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0);
  }
  EXPECT_EQ(descriptors, 1);
}

/// As many as a mixture-of-experts model has.
TEST(Scale, FortyThousandTensorsAreAllFound) {
  std::vector<BuilderTensor> tensors;
  const auto layer = valid_tensors({.nested = true, .rows = 1, .columns = 64});
  for (int i = 0; i < 5'000; ++i) {
    for (BuilderTensor tensor : layer) {
      tensor.name.replace(0, 5, fmt::format("model.layers.{}.experts.{}", i / 1000, i % 1000));
      tensors.push_back(std::move(tensor));
    }
    tensors.push_back({fmt::format("norm.{}", i), "BF16", {1}, "ab"});
  }
  const MemoryFile file;
  const BnbCheckpoint checkpoint({file.write(safetensors_bytes(tensors))});
  EXPECT_EQ(checkpoint.shards().tensor_count(), 40'000u);
  EXPECT_EQ(describe(checkpoint.other_tensors()), "5000 tensors of BF16");
  ASSERT_EQ(checkpoint.tensors().size(), 5'000u);
  EXPECT_EQ(checkpoint.tensors().front().name, "model.layers.0.experts.0.weight");
  const auto& last = checkpoint.tensors().back();
  EXPECT_EQ(last.name, "model.layers.4.experts.999.weight");
  EXPECT_EQ(dequantize(checkpoint.load(last, 1), 1), checkpoint.load_bits(*last.dequantized));
}

/// Headers of any composition, with many entries of one kind.
TEST(Scale, LongHeadersAreReadOrRefusedInOneLine) {
  constexpr int many = 200'000;
  std::string sizes = "1", texts = R"("-":"")", entries = R"("-":{})";
  for (int i = 0; i < many; ++i) {
    sizes += ",1";
    texts += fmt::format(",\"{}\":\"\"", i);
    entries += fmt::format(",\"{}\":{{}}", i);
  }
  const std::string name(10 * many, 'n'), entry = R"({"dtype":"U8","data_offsets":[0,1],"shape":[)";
  const OwnFolder folder;
  const auto read = [&](const std::string& header, const std::string& data) {
    return ShardSet({folder.write("a.safetensors", safetensors_bytes("{" + header + "}", data))});
  };
  EXPECT_EQ(read("\"t\":" + entry + sizes + "]}", "x").find("t")->elements, 1);
  EXPECT_NE(read("\"" + name + "\":" + entry + "]}", "x").find(name), nullptr);
  EXPECT_EQ(read(R"("__metadata__":{)" + texts + "}", "").tensor_count(), 0u);
  for (const auto& header : {R"("__metadata__":{)" + texts + R"(,"777":""})", entries}) {
    expect_refused<InvalidFile>([&] { read(header, ""); }, "safetensors");
  }
}

}  // namespace
}  // namespace reprolab::reference
