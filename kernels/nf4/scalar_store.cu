// One 16-bit store per weight.
//
// Source: D. Robertson's post, the kernels before its packed stores.
// Bound:  latency, as in packed_store, and twice as many stores, each half as wide.
// Alone:  make bench KERNEL=scalar_store
#include "kernels/nf4/byte_walk.cuh"

namespace reprolab::nf4 {
namespace {

struct ScalarStore {
  template <class Out, class Index>
  __device__ static void pair(Out* output, Index byte, float first, float second) {
    output[2 * byte] = round_to<Out>(first);
    output[2 * byte + 1] = round_to<Out>(second);
  }
};

const Register<Problem> registered{{
    .name = "scalar_store",
    .lineage = "D. Robertson's post: before packed stores",
    .supports = supports_standard_table,
    .launch = launch_byte_walk<ScalarStore>,
}};

}  // namespace
}  // namespace reprolab::nf4
