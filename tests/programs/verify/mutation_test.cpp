// Thousands of damaged files: each is either read completely or refused with InvalidFile. Run under
// the preset asan, this also shows that nothing is read past the end of a file.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

#include "reference/checkpoint/bnb_checkpoint.hpp"
#include "tests/programs/verify/checkpoint_builder.hpp"

namespace reprolab::reference {
namespace {

/// One to three damages of `bytes`, of which the first 8 are a length.
std::string damaged(std::string bytes, std::uint32_t seed) {
  std::mt19937 random(seed);  // its sequence is fixed by the standard
  const auto below = [&](std::size_t bound) { return random() % bound; };
  for (auto changes = 1 + below(3); changes > 0 && bytes.size() > 8; --changes) {
    char& any = bytes[below(bytes.size())];
    switch (below(6)) {
      case 0:
        any ^= static_cast<char>(1 << below(8));
        break;
      case 1:
        any = static_cast<char>(below(256));
        break;
      case 2:
        bytes.resize(below(bytes.size()));
        break;
      case 3:
        bytes.append(1 + below(64), static_cast<char>(below(256)));
        break;
      case 4: {  // a length a little off, or far
        std::uint64_t length = 0;
        std::memcpy(&length, bytes.data(), 8);
        length = below(2) == 0 ? random() : length + below(32) - 16;
        std::memcpy(bytes.data(), &length, 8);
        break;
      }
      case 5: {  // an offset, a shape or a block size: any digit
        const auto digit = bytes.find_first_of("0123456789", below(bytes.size()));
        if (digit != bytes.npos) bytes[digit] = static_cast<char>('0' + below(10));
        break;
      }
    }
  }
  return bytes;
}

/// Returns whether the file was accepted.
bool read_all(const std::filesystem::path& path) {
  try {
    const BnbCheckpoint checkpoint({path});
    for (const auto& info : checkpoint.tensors()) {
      dequantize(checkpoint.load(info, 1), 1);
      if (info.dequantized) checkpoint.load_bits(*info.dequantized);
    }
    return true;
  } catch (const InvalidFile&) {
    return false;
  }
}

/// `write` writes the damaged text and returns what to read.
void expect_read_or_refused(const std::string& sound, int mutations,
                            const std::function<std::filesystem::path(const std::string&)>& write) {
  ASSERT_TRUE(read_all(write(sound)));
  int accepted = 0;
  for (int seed = 0; seed < mutations; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_NO_THROW(accepted += read_all(write(damaged(sound, seed))));
  }
  EXPECT_GT(accepted, 0) << "some mutations hit data, numbers and white space alone";
  EXPECT_LT(accepted, mutations / 2) << "most must be refused";
}

TEST(Mutation, EveryDamagedFileIsReadOrRefused) {
  const MemoryFile file;
  for (const bool nested : {false, true}) {
    expect_read_or_refused(safetensors_bytes(valid_tensors({.nested = nested})), 3000,
                           [&](const std::string& bytes) { return file.write(bytes); });
  }
}

/// The same bytes are damaged as in a file; that the first 8 are no length does not matter.
TEST(Mutation, EveryDamagedIndexIsReadOrRefused) {
  const OwnFolder folder;
  write_shards(folder, valid_tensors({.nested = true}), 1200);
  const std::string index = "model.safetensors.index.json";
  expect_read_or_refused(content_of(folder.path() / index), 300,
                         [&](const std::string& text) { return folder.write(index, text); });
}

TEST(Truncation, AFileCutAnywhereIsRefused) {
  const MemoryFile file;
  const std::string sound = safetensors_bytes(valid_tensors());
  for (std::size_t size = 0; size < sound.size(); ++size) {
    ASSERT_FALSE(read_all(file.write(sound.substr(0, size)))) << size;
  }
}

}  // namespace
}  // namespace reprolab::reference
