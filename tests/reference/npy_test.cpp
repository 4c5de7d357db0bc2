#include "reference/npy.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace reprolab::reference {
namespace {

namespace fs = std::filesystem;

class Npy : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  std::string written(WeightType type, const std::vector<std::int64_t>& shape,
                      const std::vector<std::uint16_t>& bits) {
    write_npy(folder_ / "a.npy", type, shape, bits);
    std::ifstream file(folder_ / "a.npy", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  fs::path folder_ = fs::temp_directory_path() / ("reprolab_npy_" + std::to_string(::getpid()));
};

TEST_F(Npy, HeaderAndBitsAreThoseOfFormatVersion1) {
  const std::string file = written(WeightType::fp16, {2, 1}, {0x3c00, 0x7fff});
  ASSERT_EQ(file.size(), 128u + 4u);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, 58), "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1, )");
  EXPECT_EQ(file[127], '\n');
  EXPECT_EQ(file.substr(128), std::string("\x00\x3c\xff\x7f", 4));
}

TEST_F(Npy, Bf16IsStoredAsItsBits) {
  EXPECT_NE(written(WeightType::bf16, {1}, {1}).find("'<u2'"), std::string::npos);
}

TEST_F(Npy, LeavesNoTemporaryFile) {
  written(WeightType::fp16, {0}, {});
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
}

TEST_F(Npy, SaysWhatCouldNotBeWritten) {
  const fs::path target = folder_ / "absent" / "a.npy";
  try {
    write_npy(target, WeightType::fp16, {0}, {});
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(),
              "cannot write " + target.string() + "; check that the folder exists and has room");
  }
}

}  // namespace
}  // namespace reprolab::reference
