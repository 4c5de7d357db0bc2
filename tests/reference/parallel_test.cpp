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

TEST(ParallelFor, PassesAnExceptionOn) {
  for (const int threads : {1, 3}) {
    EXPECT_THROW(parallel_for(100, 10, threads,
                              [](std::int64_t begin, std::int64_t) {
                                if (begin == 50) throw std::runtime_error("at 50");
                              }),
                 std::runtime_error);
  }
}

}  // namespace
}  // namespace reprolab::reference
