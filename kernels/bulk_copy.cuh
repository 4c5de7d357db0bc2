// Common parts of the bulk copies of compute capability 9.0: a barrier in shared memory that
// counts the bytes that have arrived, and the wait for stores. PTX ISA, "cp.async.bulk" and
// "mbarrier".
#pragma once

#include <cstdint>

namespace reprolab {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Makes a barrier that waits for `bytes`, before any copy has started. Called by one thread.
__device__ inline void expect_bytes(std::uint32_t barrier, std::uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // visible to the accelerator
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
#endif
}

/// Starts to copy `bytes`, a multiple of 16, to shared memory; `barrier` counts them. Both places
/// are 16-byte aligned. Called by one thread.
__device__ inline void bulk_load(std::uint32_t to, const void* from, std::uint32_t bytes,
                                 std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
#endif
}

/// The same for a tile whose first element is (row, column) in the matrix that `map`, a
/// CUtensorMap, describes (kernels/tensor_map.hpp).
__device__ inline void bulk_load_tile(std::uint32_t to, const void* map, int row, int column,
                                      std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
#endif
}

/// The same for several tiles, from tile number `tile` of the rows on (TiledMatrix::copied_tiles).
__device__ inline void bulk_load_tiles(std::uint32_t to, const void* map, int row, int tile,
                                       std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
      "l"(map), "r"(0), "r"(row), "r"(tile), "r"(barrier)
      : "memory");
#endif
}

/// Returns when the bytes have arrived.
__device__ inline void await_bytes(std::uint32_t barrier) {
#if __CUDA_ARCH__ >= 900
  std::uint32_t done = 0;
  while (done == 0) {
    asm volatile(
        "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], 0;"
        " selp.u32 %0, 1, 0, done; }"
        : "=r"(done)
        : "r"(barrier)
        : "memory");
  }
#endif
}

/// Returns when the bulk stores that this thread has started no longer read shared memory.
__device__ inline void finish_bulk_stores() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#endif
}

}  // namespace reprolab
