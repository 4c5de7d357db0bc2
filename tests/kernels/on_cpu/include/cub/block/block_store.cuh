// cub::BlockStore by what it stores: consecutive items of each thread. Its barriers
// are not emulated.
#pragma once

#include <cuda_runtime_api.h>

namespace cub {

enum BlockStoreAlgorithm { BLOCK_STORE_WARP_TRANSPOSE };

template <class T, int Threads, int Items, BlockStoreAlgorithm>
struct BlockStore {
  struct TempStorage {};
  explicit BlockStore(TempStorage&) {}

  void Store(T* to, T (&items)[Items], int valid) const {
    for (int i = 0; i < Items; ++i) {
      const int at = static_cast<int>(threadIdx.x) * Items + i;
      if (at < valid) to[at] = items[i];
    }
  }
};

}  // namespace cub
