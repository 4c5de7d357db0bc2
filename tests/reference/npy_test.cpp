#include "reference/npy.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/message_of.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/text.hpp"

namespace reprolab::reference {
namespace {

TEST(Npy, HeaderAndBitsAreThoseOfFormatVersion1AndNoTemporaryFileStays) {
  const OwnFolder folder;
  const auto written = [&](WeightType type, const std::vector<std::int64_t>& shape,
                           const std::vector<std::uint16_t>& bits) {
    write_npy(folder.path() / "a.npy", type, shape, bits);
    EXPECT_EQ(folder.names().size(), 1u);
    return content_of(folder.path() / "a.npy");
  };
  const std::string file = written(WeightType::fp16, {2, 1}, {0x3c00, 0x7fff});
  ASSERT_EQ(file.size(), 128u + 4u);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, 58), "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 1, )");
  EXPECT_EQ(file[127], '\n');
  EXPECT_EQ(file.substr(128), std::string("\x00\x3c\xff\x7f", 4));
  EXPECT_TRUE(contains(written(WeightType::bf16, {1}, {1}), "'<u2'")) << "stored as its bits";
}

TEST(Npy, SaysWhatCouldNotBeWritten) {
  EXPECT_EQ(message_of<std::runtime_error>(
                [] { write_npy("/nonexistent/a.npy", WeightType::fp16, {0}, {}); }),
            "cannot write /nonexistent/a.npy; check that the folder exists and has room");
}

}  // namespace
}  // namespace reprolab::reference
