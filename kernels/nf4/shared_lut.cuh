// The paper's decode policy: a table in shared memory that one thread copies from constant memory.
// Source: paper, sections IV-B and V-A.
#pragma once

#include "kernels/nf4/constant_table.cuh"
#include "kernels/nf4/tile_walk.cuh"

namespace reprolab::nf4 {

struct FillByOneThread {
  __device__ static void fill(float* table) {
    if (threadIdx.x != 0) return;
#pragma unroll
    for (int code = 0; code < 16; ++code) table[code] = constant_table.entry[code];
  }
};
using SharedLut = SharedTable<FillByOneThread>;

}  // namespace reprolab::nf4
