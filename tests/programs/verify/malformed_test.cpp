// Faults that tests/golden/damaged_checkpoints.json cannot hold: texts that are hostile to a reader
// of JSON, and files that are not there. And what bitsandbytes writes that is no JSON, but sound.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/message_of.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

struct Malformed {
  std::string bytes;
  std::string fault;  ///< Of the file, without what to do.
};

TEST(MalformedFile, GetsOneLineThatNamesTheFault) {
  const std::vector<Malformed> files = {
      {"1234567", "has 7 bytes, fewer than the 8 of a safetensors header length"},
      {safetensors_bytes("{\"\xff\":1}", ""), "the header is not valid JSON (byte 3)"},
      {safetensors_bytes(R"({"t":)" + std::string(5000, '1') + "}", ""),
       "the header holds a number out of range"},
      {safetensors_bytes(R"({"t":)" + std::string(1'000'000, '['), ""),
       "the header nests deeper than 4 levels"},
  };
  const OwnFolder folder;
  for (const auto& [bytes, fault] : files) {
    const auto path = folder.write("a.safetensors", bytes);
    EXPECT_EQ(
        message_of<InvalidFile>([&] { BnbCheckpoint({path}); }),
        path.string() + ": " + fault + "; the file is damaged or was cut short; download it again");
  }
}

TEST(SpecialOffset, InfinityAsPythonWritesItIsAccepted) {
  const OwnFolder folder;
  for (const std::string word : {"Infinity", "-Infinity"}) {
    auto tensors = valid_tensors({.nested = true});
    BuilderTensor& state = tensor_named(tensors, "layer.weight.quant_state.bitsandbytes__nf4");
    const std::string key = "\"nested_offset\": ";
    state.data.resize(state.data.find(key) + key.size());
    state.data += word + "}";
    state.shape = {static_cast<std::int64_t>(state.data.size())};
    const BnbCheckpoint checkpoint({folder.write("a", safetensors_bytes(tensors))});
    const float offset = checkpoint.tensors()[0].state.nested_offset;
    EXPECT_TRUE(std::isinf(offset) && (offset < 0) == (word[0] == '-'));
  }
}

TEST(AbsentFile, IsSaidToBeAbsent) {
  EXPECT_EQ(message_of<InvalidFile>([] { BnbCheckpoint({"/nonexistent/a.safetensors"}); }),
            "/nonexistent/a.safetensors: cannot be opened: No such file or directory");
}

TEST(AbsentFile, AnEmptyFolderIsNoCheckpoint) {
  const OwnFolder folder;
  EXPECT_EQ(
      message_of<InvalidFile>([&] { BnbCheckpoint({folder.path()}); }),
      folder.path().string() + ": holds no .safetensors file; give the folder of a checkpoint");
}

}  // namespace
}  // namespace reprolab::reference
