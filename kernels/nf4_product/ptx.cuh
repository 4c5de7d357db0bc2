// The instructions that the product kernels write in PTX, one small function each: matrix multiply,
// asynchronous copies, barriers in shared memory. PTX ISA, "mma", "wgmma", "cp.async" and
// "mbarrier". Below the compute capability that an instruction needs, its function does nothing:
// `supports` refuses such a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "common/bulk_copy.cuh"

namespace reprolab::nf4_product {

#if __CUDA_ARCH__ >= 900
inline constexpr bool has_bulk_copies = true;
#else
inline constexpr bool has_bulk_copies = false;
#endif

/// 4 to 16 bytes at an address in shared memory that asynchronous copies write; it is read where
/// the program says so.
template <class T>
__device__ T read_stage(std::uint32_t address) {
  T value;
  if constexpr (std::is_same_v<T, float>) {
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address));
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address));
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address));
  } else {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address));
  }
  return value;
}
/// A number to such an address, or four where it is a multiple of 16.
__device__ inline void write_stage(std::uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ inline void write_stage(std::uint32_t address, float4 value) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

/// This thread's place in its warp, read anew at each call: no register needs to keep it.
__device__ inline unsigned this_lane() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// Yes in one lane of a warp, which must be converged.
__device__ inline bool is_elected() {
  unsigned elected = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("{ .reg .pred one; elect.sync _|one, 0xffffffff; selp.u32 %0, 1, 0, one; }"
               : "=r"(elected)::"memory");
#else
  elected = threadIdx.x % 32 == 0;
#endif
  return elected != 0;
}

/// d[16 x 8] = a[16 x 16] * b[16 x 8] + c, by a warp, as mma.m16n8k16 lays the fragments out.
template <class Out>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1, float c0, float c1, float c2, float c3) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<Out, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
        " {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2),
          "f"(c3));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
        " {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(c0), "f"(c1), "f"(c2),
          "f"(c3));
  }
#endif
}
template <class Out>
__device__ void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  multiply_add<Out>(c, a, b0, b1, c[0], c[1], c[2], c[3]);
}
/// The same without a sum to add to.
template <class Out>
__device__ void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
  multiply_add<Out>(d, a, b0, b1, 0, 0, 0, 0);
}

/// The products of two pairs of 16-bit numbers, each rounded to nearest.
template <class Out>
__device__ std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
#if __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<Out, __half>) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  } else {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  }
#endif
  return product;
}

/// All threads of so many warps meet at barrier `id`, from 1 to 15; __syncthreads() has 0.
template <int Warps>
__device__ inline void synchronize_warps(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(Warps * 32) : "memory");
}

/// A barrier in shared memory that completes a phase after `arrivals` and all bytes expected.
__device__ inline void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
#endif
}

/// What this thread knows to have been done to shared memory comes before the bulk copies after it.
__device__ inline void order_before_bulk_copies() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ inline void arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(shared_address(barrier))
      : "memory");
#endif
}

/// One arrival that lets the phase wait for `bytes` of bulk copies, too.
__device__ inline void arrive_expecting(std::uint64_t* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}

/// One arrival when all 16-byte copies that this thread has started are there.
__device__ inline void arrive_after_copies(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
#endif
}

/// Returns when the phase of that parity (0, 1, 0, ...) is complete.
__device__ inline void wait_for(std::uint64_t* barrier, unsigned parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
#endif
}

/// Whose turn it is in a ring of stages: a stage, and the parity of the phase in which it is used.
struct Turn {
  int stage = 0;
  unsigned parity = 0;

  __device__ void next(int stages) {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
  /// The turn before; that of a ring's first stage is complete from the beginning.
  __device__ Turn before(int stages) const {
    return {stage == 0 ? stages - 1 : stage - 1, stage == 0 ? parity ^ 1 : parity};
  }
};

/// Starts to copy 16 bytes, of which only the first `existing` are read; the others are 0.
__device__ inline void copy_16(std::uint32_t to, const void* from, int existing = 16) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(existing)
               : "memory");
#endif
}

/// The compiler takes `value` as if it came from nowhere: it stays in a register instead of being
/// computed anew in a loop, and what is computed from it is so after this place.
template <class T>
__device__ void keep(T& value) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
}

/// Lets the launch after this one begin, if it was launched to begin early.
__device__ inline void let_next_launch_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// In a launch that began early: returns when the launch before has ended and its results are seen.
__device__ inline void wait_for_launch_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace reprolab::nf4_product
