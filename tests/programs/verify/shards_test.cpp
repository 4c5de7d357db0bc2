// Checkpoints of several files, split like Hugging Face's: independent of which tensors belong
// together.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "reference/compare.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"
#include "tests/refusal.hpp"

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;
using Tensors = std::vector<BuilderTensor>;

/// Two NF4 weights, one of them with nested scales, between embeddings and a head that are not
/// quantized.
Tensors small_model() {
  Tensors tensors = {{"embed.weight", "BF16", {40, 10}, std::string(800, 'e')}};
  for (const bool nested : {false, true}) {
    const auto layer = valid_tensors({.name = nested ? "layers.1" : "layers.0", .nested = nested});
    tensors.insert(tensors.end(), layer.begin(), layer.end());
  }
  tensors.push_back({"lm_head.weight", "BF16", {40, 10}, std::string(800, 'h')});
  return tensors;
}

/// The number of NF4 weights, if every one dequantizes to its stored bits; else -1.
int verified(const BnbCheckpoint& checkpoint) {
  for (const auto& info : checkpoint.tensors()) {
    const auto output = dequantize(checkpoint.load(info, 1), 1);
    if (info.dequantized == nullptr ||
        !compare_bits(checkpoint.load_bits(*info.dequantized), output, 1).equal()) {
      return -1;
    }
  }
  return static_cast<int>(checkpoint.tensors().size());
}

void expect_refusal(const std::vector<fs::path>& given) {
  expect_refused<InvalidFile>([&] { BnbCheckpoint{given}; }, "model");
}

class Shards : public testing::Test {
 protected:
  fs::path file(const std::string& name) const { return folder_.path() / name; }
  fs::path index() const { return file("model.safetensors.index.json"); }

  OwnFolder folder_;
};

/// From one file per tensor to a single file, so that every set of neighbours is split once; and in
/// reverse order, with companions in earlier files than the codes and the state.
TEST_F(Shards, EverySplitIsVerifiedFromFolderIndexAndFiles) {
  Tensors tensors = small_model();
  for (const bool reversed : {false, true}) {
    if (reversed) std::reverse(tensors.begin(), tensors.end());
    std::size_t min_files = tensors.size();
    for (std::size_t shard_bytes = 1; min_files > 1; shard_bytes += 1 + shard_bytes / 16) {
      const OwnFolder folder;
      const auto files = write_shards(folder, tensors, shard_bytes);
      min_files = std::min(min_files, files.size());
      SCOPED_TRACE(fmt::format("{} files", files.size()));
      EXPECT_EQ(verified(BnbCheckpoint({folder.path()})), 2);
      EXPECT_EQ(verified(BnbCheckpoint({folder.path() / "model.safetensors.index.json"})), 2);
      const BnbCheckpoint from_files(files);
      EXPECT_EQ(verified(from_files), 2);
      EXPECT_EQ(from_files.shards().files().size(), files.size());
      EXPECT_EQ(describe(from_files.other_tensors()), "2 tensors of BF16");
    }
  }
}

TEST_F(Shards, OtherFilesBesideAnIndexOrNoIndexMakeNoDifference) {
  const auto files = write_shards(folder_, small_model(), 300);
  folder_.write("consolidated.safetensors", safetensors_bytes(small_model()));
  EXPECT_EQ(verified(BnbCheckpoint({folder_.path()})), 2);
  fs::remove(file("consolidated.safetensors"));
  fs::create_symlink(files[0], file("again.safetensors"));
  const BnbCheckpoint twice({folder_.path(), files[1], index(), file("again.safetensors")});
  EXPECT_EQ(twice.shards().files().size(), files.size()) << "a file given twice is one";
  EXPECT_EQ(verified(twice), 2);
  fs::remove(file("again.safetensors"));
  fs::remove(index());
  folder_.write("notes.txt", "not a tensor");
  folder_.write("._model.safetensors", "left by another system");
  EXPECT_EQ(verified(BnbCheckpoint({folder_.path()})), 2);
}

TEST_F(Shards, MoreFilesThanAProcessMayOpenAreNoHindrance) {
  Tensors tensors = small_model();
  for (int i = 0; i < 1000; ++i) tensors.push_back({fmt::format("t{}", i), "U8", {1}, "x"});
  write_shards(folder_, tensors, 1);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    const BnbCheckpoint checkpoint({folder_.path()});
    EXPECT_EQ(checkpoint.shards().files().size(), tensors.size());
    EXPECT_EQ(verified(checkpoint), 2);
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(Shards, OneFileOfASetIsSaidToLackTheOthers) {
  write_shards(folder_, valid_tensors({.dequantized = false}), 101);
  const auto part = [&](int number) {
    return file(fmt::format("model-{:05}-of-00003.safetensors", number));
  };
  expect_refusal({part(1)});
  expect_refusal({part(2)});
  expect_refusal({part(3)});
  expect_refusal({part(3), part(1)});
  fs::remove(part(1));
  fs::remove(part(2));
  expect_refusal({part(3)});  // its name says that it is a part
}

TEST_F(Shards, AnIndexLongerThanAnyIsRefusedUnread) {
  folder_.write("model.safetensors.index.json", "{}");
  fs::resize_file(index(), 100'000'001);
  expect_refusal({index()});
}

/// Given in full, or in a folder with files of other kinds.
TEST_F(Shards, ATensorThatNoFileCompletesIsNamed) {
  Tensors tensors = small_model();
  remove_tensor(tensors, "layers.1.weight.nested_absmax");
  folder_.write("notes.txt", "not a tensor");
  expect_refusal({folder_.write("a.safetensors", safetensors_bytes(tensors))});
  fs::remove(file("a.safetensors"));
  write_shards(folder_, tensors, 500);
  expect_refusal({folder_.path()});
}

/// Written to, or replaced by another file with the same bytes.
TEST_F(Shards, AFileThatChangesAfterItsHeaderWasReadIsRefused) {
  const std::string bytes = safetensors_bytes(valid_tensors());
  for (const bool replaced : {false, true}) {
    const auto path = folder_.write("a.safetensors", bytes);
    const ShardSet shards({path});
    const auto read = [&] { shards.read<std::uint8_t>(*shards.find("layer.weight")); };
    read();
    if (replaced) {
      fs::rename(folder_.write("b.safetensors", bytes), path);
    } else {
      std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << ' ';
      fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
    }
    expect_refused<InvalidFile>(read, "safetensors");
  }
}

TEST_F(Shards, OfAFolderWithBothTheSingleFileIsReadAsByTransformers) {
  const auto files = write_shards(folder_, small_model(), 500);
  folder_.write("model.safetensors", safetensors_bytes(small_model()));
  const BnbCheckpoint read({folder_.path()});
  ASSERT_EQ(read.shards().files().size(), 1U);
  EXPECT_EQ(read.shards().files()[0].path(), file("model.safetensors"));
  EXPECT_EQ(BnbCheckpoint({index()}).shards().files().size(), files.size());
}

}  // namespace
}  // namespace reprolab::reference
