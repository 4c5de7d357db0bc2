// The fastest kernel here: blocks take tiles down the columns of the input, so that the region
// written at any one time has no gaps, and L2 is asked to keep the data that was read.
//
// Source: ours. Found by timing orders, tile shapes and cache hints on an H200. By the counters
//         there (compared with column_walk_plain_reads), nothing is read twice, and the request
//         changes neither the sectors that miss L2 nor those that cross the bus; but DRAM idles
//         less, and shared memory has fewer bank conflicts. The loads also bypass L1; which of the
//         two causes this is open. The request takes six registers, so that six blocks fit on a
//         multiprocessor instead of eight; that alone would make the kernel slower
//         (column_walk_six_blocks).
// Bound:  memory, at nearly the speed of a copy.
// Alone:  make bench KERNEL=column_walk
#include "kernels/access.cuh"
#include "kernels/device.hpp"
#include "kernels/transpose/problem.hpp"
#include "kernels/transpose/shifted_window.cuh"
#include "kernels/transpose/vector_tile.cuh"

namespace reprolab::transpose {
namespace {

/// Whether tiles divide every output row at multiples of 32 bytes, the unit of a memory write.
bool cuts_at_32_bytes(const Problem& problem) {
  return moves_in_float4s(problem) && reinterpret_cast<std::uintptr_t>(problem.output) % 32 == 0 &&
         problem.out_stride % 8 == 0;
}

cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const std::int64_t elements = problem.rows * problem.columns;
  const std::int64_t l2_bytes = device_attribute(cudaDevAttrL2CacheSize);
  const std::int64_t multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
  // If input and output together are below about 4 times L2, keeping anything in L2 costs time.
  const bool small = 2 * elements * std::int64_t{sizeof(float)} < 4 * l2_bytes;
  if (!cuts_at_32_bytes(problem)) {
    return small ? shifted::launch<DownColumns<1>, StreamingAccess>(problem, stream)
                 : shifted::launch<DownColumns<1>, KeepReads>(problem, stream);
  }
  // A multiprocessor holds 6 to 8 blocks of 256 threads. With fewer than 8 tiles per
  // multiprocessor, smaller tiles spread the work more evenly.
  if (elements < 8 * multiprocessors * 64 * 64) {
    return launch_vector_tile<DownColumns<1>, StreamingAccess, 16, 128, 128>(problem, stream);
  }
  if (small) {
    return launch_vector_tile<DownColumns<1>, StreamingAccess, 64, 64, 256>(problem, stream);
  }
  // If the row stride is a multiple of 128 KiB, the reads of one column of tiles have the same low
  // 17 address bits in every row. On an H200 the speed was then 0.94 to 0.98 of a copy, depending
  // on where the matrix was in memory; two columns at once gave 0.98 at every place.
  if (problem.in_stride * std::int64_t{sizeof(float)} % (1 << 17) == 0) {
    return launch_vector_tile<DownColumns<2>, KeepReads, 64, 64, 256>(problem, stream);
  }
  return launch_vector_tile<DownColumns<1>, KeepReads, 64, 64, 256>(problem, stream);
}

const Register<Problem> registered{{
    .name = "column_walk",
    .lineage = "ours",
    .supports = supports_tiles,
    .launch = launch,
}};

}  // namespace
}  // namespace reprolab::transpose
