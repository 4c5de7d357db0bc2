// The matrix multiplication of a warpgroup (four warps) of compute capability 9.0a, with the first
// operand in registers. PTX ISA, "wgmma.mma_async" and "Matrix descriptor".
#pragma once

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
#define REPROLAB_WGMMA(sums, columns, type, a_names, b_name, adds_name)                    \
  asm volatile("{ .reg .pred adds; setp.ne.b32 adds, " adds_name                           \
               ", 0;"                                                                      \
               " wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type       \
               " {" REPROLAB_NAMES_##sums "}, {" a_names "}, " b_name ", adds, 1, 1, 0; }" \
               : REPROLAB_SUMS_##sums(0)                                                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds ? 1 : 0))
#endif

/// Starts d[64 x 2 * Registers] = a[64 x 16] * b, plus d if `adds`.
template <class Out, int Registers, int Size>
__device__ void wgmma(float (&d)[Size], const std::uint32_t (&a)[4], std::uint64_t b, bool adds) {
  static_assert(Registers == 8 || Registers == 16 || Registers == 32 || Registers == 64 ||
                Registers == 128);
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr bool is_fp16 = std::is_same_v<Out, __half>;
  if constexpr (Registers == 8 && is_fp16) {
    REPROLAB_WGMMA(8, "16", "f16", "%8, %9, %10, %11", "%12", "%13");
  } else if constexpr (Registers == 8 && !is_fp16) {
    REPROLAB_WGMMA(8, "16", "bf16", "%8, %9, %10, %11", "%12", "%13");
  } else if constexpr (Registers == 16 && is_fp16) {
    REPROLAB_WGMMA(16, "32", "f16", "%16, %17, %18, %19", "%20", "%21");
  } else if constexpr (Registers == 16 && !is_fp16) {
    REPROLAB_WGMMA(16, "32", "bf16", "%16, %17, %18, %19", "%20", "%21");
  } else if constexpr (Registers == 32 && is_fp16) {
    REPROLAB_WGMMA(32, "64", "f16", "%32, %33, %34, %35", "%36", "%37");
  } else if constexpr (Registers == 32 && !is_fp16) {
    REPROLAB_WGMMA(32, "64", "bf16", "%32, %33, %34, %35", "%36", "%37");
  } else if constexpr (Registers == 64 && is_fp16) {
    REPROLAB_WGMMA(64, "128", "f16", "%64, %65, %66, %67", "%68", "%69");
  } else if constexpr (Registers == 64 && !is_fp16) {
    REPROLAB_WGMMA(64, "128", "bf16", "%64, %65, %66, %67", "%68", "%69");
  } else if constexpr (Registers == 128 && is_fp16) {
    REPROLAB_WGMMA(128, "256", "f16", "%128, %129, %130, %131", "%132", "%133");
  } else if constexpr (Registers == 128 && !is_fp16) {
    REPROLAB_WGMMA(128, "256", "bf16", "%128, %129, %130, %131", "%132", "%133");
  }
#endif
}

}  // namespace reprolab::nf4_product
