// The instructions that the product kernels write in PTX, one small function each: matrix multiply,
// asynchronous copies, barriers in shared memory. PTX ISA, "mma", "cp.async", "mbarrier" and
// "griddepcontrol"; many_rows/mma.cuh has "wgmma". Below the compute capability that an instruction
// needs, its function does nothing: `supports` refuses such a GPU.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/bulk_copy.cuh"

namespace reprolab::nf4_product {

#if __CUDA_ARCH__ >= 900
inline constexpr bool has_bulk_copies = true;
#else
inline constexpr bool has_bulk_copies = false;
#endif

/// Loads 4 to 16 bytes from an address in shared memory that asynchronous copies write. Volatile:
/// the load stays after the wait for the copy.
template <class T>
__device__ T load_shared(std::uint32_t address) {
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
/// Stores one number at such an address, or four where it is a multiple of 16.
__device__ inline void store_shared(std::uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ inline void store_shared(std::uint32_t address, float4 value) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(value.x),
               "f"(value.y), "f"(value.z), "f"(value.w)
               : "memory");
}

/// As __byte_perm(), which ignores bit 3 of a selector: with it, the byte's sign, eight times.
template <std::uint32_t Selectors>
__device__ std::uint32_t permute_signed(std::uint32_t low, std::uint32_t high) {
  std::uint32_t permuted;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(permuted) : "r"(low), "r"(high), "n"(Selectors));
  return permuted;
}

/// This thread's lane in its warp, read again at each call, so that it occupies no register.
__device__ inline unsigned this_lane() {
  unsigned lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

/// True in one lane of the warp, which must be converged.
__device__ inline bool elect_one() {
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
/// The same with c = 0.
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

/// Synchronizes `Warps` warps at named barrier `id`, 1 to 15; __syncthreads() uses 0.
template <int Warps>
__device__ inline void sync_named_barrier(int id) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "n"(Warps * 32) : "memory");
}

/// Makes a barrier in shared memory, whose phase completes after `arrivals` and all expected bytes.
__device__ inline void init_barrier(std::uint64_t* barrier, unsigned arrivals) {
#if __CUDA_ARCH__ >= 800
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals)
               : "memory");
#endif
}

/// Orders accesses to shared memory that this thread has observed before its later bulk copies.
__device__ inline void fence_async_proxy() {
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

/// One arrival; the phase also waits for `bytes` of bulk copies.
__device__ inline void arrive_expect_tx(std::uint64_t* barrier, unsigned bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
#endif
}

/// One arrival when all earlier cp_async_16() of this thread have completed.
__device__ inline void cp_async_arrive(std::uint64_t* barrier) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(barrier))
               : "memory");
#endif
}

/// Returns when the phase of that parity (0, 1, 0, ...) has completed.
__device__ inline void wait_for(std::uint64_t* barrier, unsigned phase) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
#elif __CUDA_ARCH__ >= 800
  asm volatile(
      "{ .reg .pred done;\n"
      "again: mbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again; }" ::"r"(shared_address(barrier)),
      "r"(phase)
      : "memory");
#endif
}

/// A position in a pipeline: a stage of the ring, and the parity of the phase of its barriers.
struct PipelineState {
  int stage = 0;
  unsigned phase = 0;

  __device__ void advance(int stages) {
    if (++stage == stages) stage = 0, phase ^= 1;
  }
  /// One stage earlier. Before the first stage, a wait for its `empty` barrier returns at once.
  __device__ PipelineState previous(int stages) const {
    return {stage == 0 ? stages - 1 : stage - 1, stage == 0 ? phase ^ 1 : phase};
  }
};

/// Starts to copy 16 bytes: the first `existing` from memory, then zeros.
__device__ inline void cp_async_16(std::uint32_t to, const void* from, int existing = 16) {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(existing)
               : "memory");
#endif
}

/// Hides from the compiler how `value` was computed: it stays in a register instead of being
/// recomputed in a loop, and values that depend on it are computed after this point.
template <class T>
__device__ void keep(T& value) {
  if constexpr (sizeof(T) == 8) {
    asm volatile("" : "+l"(value));
  } else {
    asm volatile("" : "+r"(value));
  }
}

/// Allows the next launch in the stream to start, if it is a programmatic dependent launch.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// In a programmatic dependent launch: returns when the previous launch has completed and its
/// writes are visible.
__device__ inline void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace reprolab::nf4_product
