#include "reference/parallel.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace reprolab::reference {
namespace {

TEST(ParallelFor, CoversEachIndexOnceInChunksOfTheGrain) {
  for (const int threads : {0, 1, 7}) {
    std::vector<int> visits(1003);
    parallel_for(1003, 10, threads, [&](std::int64_t begin, std::int64_t end) {
      EXPECT_EQ(begin % 10, 0);
      EXPECT_EQ(end, std::min<std::int64_t>(1003, begin + 10));
      for (auto i = begin; i < end; ++i) ++visits[i];
    });
    EXPECT_EQ(visits, std::vector<int>(1003, 1));
  }
  parallel_for(0, 10, 4, [](auto, auto) { FAIL() << "there is nothing to do"; });
}

}  // namespace
}  // namespace reprolab::reference
