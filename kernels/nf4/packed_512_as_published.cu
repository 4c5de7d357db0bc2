// packed_512 as its author published it: a nested scale is one fused multiply-add. That rounds once
// where bitsandbytes rounds twice, so some outputs differ in their last bit. Plain scales are
// exact.
//
// Source: D. Robertson's post, its final kernel (3.46 s on a T4).
// Bound:  latency, as in packed_512.
// Alone:  make bench KERNEL=packed_512_as_published
#include "kernels/nf4/byte_walk.cuh"
#include "kernels/nf4/expected_output.hpp"

namespace reprolab::nf4 {
namespace {

struct FusedNestedScaleReader : NestedScaleReader {
  using NestedScaleReader::NestedScaleReader;

  template <class Index>
  __device__ float at(Index weight) const {
    const Index block = weight >> shift;
    return fused_nested_scale(__ldg(map + __ldg(codes + block)),
                              __ldg(absmax + (block >> second_shift)), offset);
  }
};

void expected_output(const Problem& host, std::int64_t begin, std::int64_t end) {
  write_expected(host, begin, end, [&](std::int64_t i) {
    return host_scale(host, i / host.block_size, fused_nested_scale);
  });
}

const Register<Problem> registered{{
    .name = "packed_512_as_published",
    .lineage = "D. Robertson's post: its final kernel",
    .contract =
        DeclaredDeviation{
            "not bit-exact: fused multiply-add in nested scales (plain scales are exact)"},
    .expected_output = expected_output,
    .supports = supports_packed_stores,
    .launch = launch_byte_walk<PackedStore, ByteTile<128, 4, 2>, FusedNestedScaleReader>,
}};

}  // namespace
}  // namespace reprolab::nf4
