// The paper's decode policy: one thread copies the table from constant to shared memory, a barrier
// makes it visible to the block, and each weight is an indexed read. Source: paper, sections IV-B
// and V-A.
#pragma once

#include "kernels/nf4/constant_table.cuh"

namespace reprolab::nf4 {

struct SharedLut {
  struct Storage {
    float table[16];
  };
  const float* table;

  __device__ explicit SharedLut(Storage& storage) : table(storage.table) {
    if (threadIdx.x == 0) {
#pragma unroll
      for (int code = 0; code < 16; ++code) storage.table[code] = constant_table.entry[code];
    }
    __syncthreads();
  }
  __device__ float operator()(unsigned code) const { return table[code]; }
};

}  // namespace reprolab::nf4
