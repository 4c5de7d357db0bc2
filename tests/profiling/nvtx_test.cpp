#include "profiling/nvtx.hpp"

#include "tests/profiling/testing.hpp"

namespace reprolab::profiling {
namespace {

TEST(Nvtx, NamesHaveNoCharacterThatNcuReads) {
  EXPECT_EQ(nvtx_range_name("table2", "shared_lut", "qwen3-32b.gate/fp16/b64"),
            "table2:shared_lut:qwen3-32b.gate_fp16_b64");
  EXPECT_EQ(nvtx_range_name("a", "b@c[d]", "e+f*g,h i\\j"), "a:b_c_d_:e_f_g_h_i_j");
}

TEST(Nvtx, RangesWorkWithoutADriverOrProfiler) {
  for (int i = 0; i < 3; ++i) {
    const NvtxRange outer("table2", "shared_lut", "a/b");
    const NvtxRange inner("table2", "shared_lut", "c");
  }
}

}  // namespace
}  // namespace reprolab::profiling
