// cub::BlockLoad by what it loads: consecutive items for each thread. Its barriers
// are not emulated.
#pragma once

#include <cuda_runtime_api.h>

namespace cub {

enum BlockLoadAlgorithm { BLOCK_LOAD_WARP_TRANSPOSE };

template <class T, int Threads, int Items, BlockLoadAlgorithm>
struct BlockLoad {
  struct TempStorage {};
  explicit BlockLoad(TempStorage&) {}

  void Load(const T* from, T (&items)[Items], int valid, T otherwise) const {
    for (int i = 0; i < Items; ++i) {
      const int at = static_cast<int>(threadIdx.x) * Items + i;
      items[i] = at < valid ? from[at] : otherwise;
    }
  }
};

}  // namespace cub
