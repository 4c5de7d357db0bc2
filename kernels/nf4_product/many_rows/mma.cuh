// How many_rows multiplies a step: a tile of weights in registers by the activations of a stage, by
// the matrix multiplication of a warpgroup (four warps) of compute capability 9.0a or by mma. PTX
// ISA, "wgmma.mma_async" and "Matrix descriptor".
#pragma once

#include "kernels/nf4_product/many_rows/tiling.hpp"
#include "kernels/nf4_product/ptx.cuh"

namespace reprolab::nf4_product {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool has_wgmma = true;
#else
inline constexpr bool has_wgmma = false;
#endif

/// The matrix descriptor of columns of 64 16-bit numbers in shared memory, 128 bytes apart, from a
/// multiple of 1024 on, in the 128-byte swizzle: 16-byte chunk p of column c is at p ^ (c % 8). The
/// next 16 numbers of each column are 32 bytes further.
__device__ constexpr std::uint64_t matrix_descriptor(std::uint32_t first) {
  constexpr std::uint64_t swizzle_128_bytes = std::uint64_t{1} << 62;
  constexpr std::uint64_t bytes_per_8_columns = std::uint64_t{1024 / 16} << 32;
  constexpr std::uint64_t unused = std::uint64_t{1} << 16;
  return swizzle_128_bytes | bytes_per_8_columns | unused | (first & 0x3ffff) >> 4;
}

/// Orders the warpgroup's accesses to registers before its next wgmma().
__device__ inline void wgmma_fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}

/// Closes the group of wgmma() that wgmma_wait() waits for.
__device__ inline void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}

/// Returns when all groups have completed; their result is in `d`.
template <int Registers>
__device__ void wgmma_wait(float (&d)[Registers]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < Registers; ++i) asm volatile("" : "+f"(d[i])::"memory");
#endif
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
// PTX names each register: the sums d[0], d[1], ... are %0, %1, ..., then the other operands.
#define REPROLAB_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define REPROLAB_NAMES_16 \
  REPROLAB_NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define REPROLAB_NAMES_32 \
  REPROLAB_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define REPROLAB_NAMES_64                                                              \
  REPROLAB_NAMES_32                                                                    \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REPROLAB_NAMES_128                                                               \
  REPROLAB_NAMES_64                                                                      \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "   \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "     \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, "     \
  "%110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, " \
  "%124, %125, %126, %127"
#define REPROLAB_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define REPROLAB_SUMS_8(i) REPROLAB_SUMS_4(i), REPROLAB_SUMS_4(i + 4)
#define REPROLAB_SUMS_16(i) REPROLAB_SUMS_8(i), REPROLAB_SUMS_8(i + 8)
#define REPROLAB_SUMS_32(i) REPROLAB_SUMS_16(i), REPROLAB_SUMS_16(i + 16)
#define REPROLAB_SUMS_64(i) REPROLAB_SUMS_32(i), REPROLAB_SUMS_32(i + 32)
#define REPROLAB_SUMS_128(i) REPROLAB_SUMS_64(i), REPROLAB_SUMS_64(i + 64)
#define REPROLAB_WGMMA_OF(type, registers, columns, a_names, b_name, adds_name)                 \
  asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " adds_name                                \
               ", 0;"                                                                           \
               " wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type            \
               " {" REPROLAB_NAMES_##registers "}, {" a_names "}, " b_name ", adds, 1, 1, 0; }" \
               : REPROLAB_SUMS_##registers(0)                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0))
#define REPROLAB_WGMMA(registers, ...)                                   \
  if constexpr (Registers == registers && std::is_same_v<Out, __half>) { \
    REPROLAB_WGMMA_OF("f16", registers, __VA_ARGS__);                    \
  } else if constexpr (Registers == registers) {                         \
    REPROLAB_WGMMA_OF("bf16", registers, __VA_ARGS__);                   \
  }
#endif

/// Starts d[64 x 2 * Registers] = a[64 x 16] * b, plus d if `adds`.
template <class Out, int Registers, int Size>
__device__ void wgmma(float (&d)[Size], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  REPROLAB_WGMMA(8, "16", "%8, %9, %10, %11", "%12", "%13")
  REPROLAB_WGMMA(16, "32", "%16, %17, %18, %19", "%20", "%21")
  REPROLAB_WGMMA(32, "64", "%32, %33, %34, %35", "%36", "%37")
  REPROLAB_WGMMA(64, "128", "%64, %65, %66, %67", "%68", "%69")
  REPROLAB_WGMMA(128, "256", "%128, %129, %130, %131", "%132", "%133")
#endif
}

/// Starts `into` = weights of a step x activations of `ActiveM` rows from `first_m` on, plus `into`
/// if `adds`: by wgmma for the 64 columns of a warpgroup; or by mma for the 16 of a warp, complete
/// on return. `step` is the number of the step in stage `stage` of the activations.
template <class Out, int TileM, int Warpgroups, int ActiveM>
__device__ void start_step(float (&into)[TileM / 2], const std::uint32_t (&weights)[4][4],
                           bool adds, const unsigned char* shared, int stage, int step,
                           int first_m) {
  constexpr ManyRowsLayout layout(TileM, Warpgroups * 4);
  if constexpr (has_wgmma) {
    constexpr int descriptor_bytes = 16;
    const std::uint64_t descriptor = matrix_descriptor(0) + layout.stage(stage) / descriptor_bytes;
    wgmma_fence();
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      wgmma<Out, ActiveM / 2>(
          into, weights[j],
          descriptor + ((step * TileM + first_m) * step_bytes + j * 32) / descriptor_bytes,
          adds || j > 0);
    }
    wgmma_commit();
    __syncwarp();  // so that the compiler starts them all before it decodes the next step
    return;
  }
  const unsigned char* const columns =
      shared + layout.stage(stage) + (step * TileM + first_m) * step_bytes;
  const int row = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
  for (int t = 0; t < ActiveM / 8; ++t) {
    float product[4] = {};
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      if (adds) product[r] = into[t * 4 + r];
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      // Pair `p` of the step, in this lane's row and place of a fragment.
      const auto pair = [&](int p) {
        return *reinterpret_cast<const std::uint32_t*>(columns + (t * 8 + row) * step_bytes +
                                                       (p ^ row) * 16 + quad * 4);
      };
      multiply_add<Out>(product, weights[j], pair(j * 2), pair(j * 2 + 1));
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) into[t * 4 + r] = product[r];
  }
}

}  // namespace reprolab::nf4_product
