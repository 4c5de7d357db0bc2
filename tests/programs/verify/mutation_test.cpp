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

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::string mutate(std::string bytes) {
    const std::size_t header_bytes =
        8 + std::min<std::uint64_t>(header_length(bytes), bytes.size());
    const auto changes = 1 + below(3);
    for (std::uint32_t i = 0; i < changes && bytes.size() > 8; ++i) {
      switch (below(7)) {
        case 0:
          bytes[below(bytes.size())] ^= static_cast<char>(1 << below(8));
          break;
        case 1:
          bytes[below(std::min(header_bytes, bytes.size()))] = static_cast<char>(below(256));
          break;
        case 2:
          bytes.resize(below(bytes.size()));
          break;
        case 3:
          bytes.append(1 + below(64), static_cast<char>(below(256)));
          break;
        case 4:
          set_header_length(bytes);
          break;
        case 5:
          change_digit(bytes);
          break;
        case 6:
          swap_runs(bytes);
          break;
      }
    }
    return bytes;
  }

 private:
  std::uint32_t below(std::uint64_t bound) { return static_cast<std::uint32_t>(random_() % bound); }

  static std::uint64_t header_length(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    return length;
  }

  void set_header_length(std::string& bytes) {
    const std::uint64_t length = below(2) ? header_length(bytes) + below(32) - 16 : random_();
    std::memcpy(bytes.data(), &length, 8);
  }

  /// Changes offsets, shapes or block sizes: any digit of any text.
  void change_digit(std::string& bytes) {
    for (int tries = 0; tries < 200; ++tries) {
      char& c = bytes[below(bytes.size())];
      if (c < '0' || c > '9') continue;
      c = static_cast<char>('0' + below(10));
      return;
    }
  }

  void swap_runs(std::string& bytes) {
    const std::size_t length = 1 + below(16);
    if (bytes.size() <= length) return;
    const std::string run = bytes.substr(below(bytes.size() - length), length);
    bytes.replace(below(bytes.size() - length), length, run);
  }

  std::mt19937 random_;  // its sequence is fixed by the standard
};

/// Returns whether the file was accepted.
bool read_all(const std::filesystem::path& path) {
  try {
    const BnbCheckpoint checkpoint({path});
    for (const auto& info : checkpoint.tensors()) {
      const QuantizedTensor tensor = checkpoint.load(info, 1);
      dequantize(tensor, 1);
      if (info.dequantized) checkpoint.load_bits(*info.dequantized);
    }
    return true;
  } catch (const InvalidFile&) {
    return false;
  }
}

/// `write` writes the damaged text and returns what to read.
void expect_read_or_refused(const std::string& sound,
                            const std::function<std::filesystem::path(const std::string&)>& write) {
  ASSERT_TRUE(read_all(write(sound)));
  int accepted = 0;
  constexpr int mutations = 3000;
  for (int seed = 0; seed < mutations; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_NO_THROW(accepted += read_all(write(Mutator(seed).mutate(sound))));
  }
  EXPECT_GT(accepted, 10) << "some mutations hit data, numbers and white space alone";
  EXPECT_LT(accepted, mutations / 2) << "most must be refused";
}

TEST(Mutation, EveryDamagedFileIsReadOrRefused) {
  const MemoryFile file;
  for (const bool nested : {false, true}) {
    expect_read_or_refused(safetensors_bytes(valid_tensors({.nested = nested})),
                           [&](const std::string& bytes) { return file.write(bytes); });
  }
}

/// The same bytes are damaged as in a file; that the first 8 are no length does not matter.
TEST(Mutation, EveryDamagedIndexIsReadOrRefused) {
  const OwnFolder folder;
  write_shards(folder, valid_tensors({.nested = true}), 1200);
  const std::string index = "model.safetensors.index.json";
  expect_read_or_refused(content_of(folder.path() / index),
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
