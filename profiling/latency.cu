// A step is one instruction, whose result is the address of the next. The timed loop in SASS, 64
// steps to an iteration (sm_90; nvdisasm of this file's object shows it for any other):
//   global_through_l1     LDG.E.64 R2, [R2.64]              constant       LDC R0, c[0x3][R0]
//   global_past_l1        LDG.E.64.STRONG.GPU R2, [R2.64]   shared         LDS R0, [R0]
//   shared_store_to_load  STS [R0], R5; LDS R0, [R0]        shared_store   STS [R4], R5
// There is no arithmetic on addresses. An iteration's counter, comparison and branch depend on no
// load, so that they run while one is in flight; a 64-bit address is moved once in each (two MOVs
// in 64 steps).
#include <cstdint>
#include <vector>

#include "profiling/latency.hpp"

namespace reprolab::profiling::latency {
namespace {

constexpr int unroll = 64;
static_assert(timed_steps % unroll == 0 && unroll % ring_nodes == 0);
/// After a walk that stored, all stored nodes are read again, and a few of them once more, so that
/// the walk ends at another node than its first.
constexpr int links_read_again = ring_nodes + 3;

__constant__ std::uint32_t constant_memory[max_on_chip_bytes / sizeof(std::uint32_t)];

// Volatile assembler: the compiler may neither reorder nor remove it.

__device__ std::uint64_t cycles_now() {
  std::uint64_t cycles;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(cycles)::"memory");
  return cycles;
}
__device__ void load_through_l1(std::uint64_t& at) {
  asm volatile("ld.global.u64 %0, [%0];" : "+l"(at)::"memory");
}
__device__ void load_past_l1(std::uint64_t& at) {
  asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(at)::"memory");
}
__device__ void load_constant(std::uint32_t& at) {
  asm volatile("{ .reg .u64 a; cvt.u64.u32 a, %0; ld.const.u32 %0, [a]; }" : "+r"(at)::"memory");
}
// .volatile, because ptxas would otherwise pass a stored value on in a register.
__device__ void load_shared(std::uint32_t& at) {
  asm volatile("ld.volatile.shared.u32 %0, [%0];" : "+r"(at)::"memory");
}
__device__ void store_shared(std::uint32_t at, std::uint32_t value) {
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(at), "r"(value) : "memory");
}

template <class TakeSteps>
__device__ void walk(const TakeSteps& take_steps) {
#pragma unroll 1
  for (int left = timed_steps; left > 0; left -= unroll) take_steps(left);
}

/// Walks twice; returns the cycles of the second walk. `take_steps(left)` takes `unroll` steps.
template <class TakeSteps>
__device__ std::uint64_t cycles_of(const TakeSteps& take_steps) {
  walk(take_steps);
  const std::uint64_t start = cycles_now();
  walk(take_steps);
  return cycles_now() - start;
}

// One thread each. Adding threadIdx.x, which is 0, hides from the compiler that an address is the
// same in all lanes, for which it would use other instructions.

/// `never` is unequal to any number of remaining steps, which the compiler cannot prove: otherwise
/// it would remove an empty loop.
__global__ void walk_empty(std::uint32_t start, int never, Walked* walked) {
  const std::uint64_t cycles = cycles_of([&](int left) {
    if (left == never) __trap();
  });
  *walked = {cycles, start};
}

template <void load(std::uint64_t&)>
__global__ void walk_global(std::uint64_t base, std::uint32_t start, Walked* walked) {
  std::uint64_t at = base + start + threadIdx.x;
  const std::uint64_t cycles = cycles_of([&](int) {
#pragma unroll
    for (int i = 0; i < unroll; ++i) load(at);
  });
  *walked = {cycles, static_cast<std::uint32_t>(at - base)};
}

__device__ std::uint32_t constant_base() {
  return static_cast<std::uint32_t>(__cvta_generic_to_constant(constant_memory));
}

__global__ void find_constant_base(Walked* walked) { walked->end = constant_base(); }

__global__ void walk_constant(std::uint32_t start, Walked* walked) {
  std::uint32_t at = constant_base() + start + threadIdx.x;
  const std::uint64_t cycles = cycles_of([&](int) {
#pragma unroll
    for (int i = 0; i < unroll; ++i) load_constant(at);
  });
  *walked = {cycles, at - constant_base()};
}

/// Walks a ring whose links it stores itself, while it walks: `ring[i]` leads to `ring[i + 1]`.
template <Step step>
__device__ std::uint64_t store_cycles(std::uint32_t& at) {
  std::uint32_t ring[ring_nodes + 1];
  ring[0] = at;
#pragma unroll
  for (unsigned i = 0; i < ring_nodes; ++i) load_shared(ring[i + 1] = ring[i]);
    // Every node now leads to itself, so that the end reveals a link that is not stored.
#pragma unroll
  for (unsigned i = 0; i < ring_nodes; ++i) store_shared(ring[i], ring[i]);
  const std::uint64_t cycles = cycles_of([&](int) {
#pragma unroll
    for (unsigned i = 0; i < unroll; ++i) {
      const std::uint32_t node = ring[i % ring_nodes], to = ring[i % ring_nodes + 1];
      store_shared(step == Step::shared_store ? node : at, to);
      if (step == Step::shared_store_to_load) load_shared(at);
    }
  });
  for (int i = 0; i < links_read_again; ++i) load_shared(at);
  return cycles;
}

template <Step step>
__global__ void walk_shared(const std::uint32_t* offsets, std::uint32_t bytes, std::uint32_t start,
                            Walked* walked) {
  __shared__ std::uint32_t memory[max_on_chip_bytes / sizeof(std::uint32_t)];
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
#pragma unroll 1
  for (unsigned i = 0; i < bytes / sizeof(std::uint32_t); ++i) memory[i] = base + offsets[i];
  std::uint32_t at = base + start + threadIdx.x;
  std::uint64_t cycles;
  if constexpr (step == Step::shared) {
    cycles = cycles_of([&](int) {
#pragma unroll
      for (int i = 0; i < unroll; ++i) load_shared(at);
    });
  } else {
    cycles = store_cycles<step>(at);
  }
  *walked = {cycles, at - base};
}

__global__ void write_addresses(const Link* links, std::uint64_t count, std::byte* memory) {
  const std::uint64_t i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  *reinterpret_cast<std::byte**>(memory + links[i].at) = memory + links[i].to;
}

bool is_global(Step step) {
  return step == Step::global_through_l1 || step == Step::global_past_l1;
}

/// In global memory: at each node the address of the next.
DeviceBuffer with_addresses(std::span<const Link> links, std::uint32_t bytes) {
  DeviceBuffer memory(bytes), on_device(links.size_bytes());
  check(cudaMemcpy(on_device.data(), links.data(), links.size_bytes(), cudaMemcpyHostToDevice),
        "copying a chain to the GPU");
  constexpr unsigned threads = 256;
  const auto blocks = static_cast<unsigned>((links.size() + threads - 1) / threads);
  if (blocks > 0) {
    write_addresses<<<blocks, threads>>>(on_device.as<Link>(), links.size(),
                                         memory.as<std::byte>());
  }
  check(cudaGetLastError(), "launching the kernel that writes a chain");
  check(cudaDeviceSynchronize(), "writing a chain");
  return memory;
}

/// For memory that is filled with 4-byte words: at each node `base` and the offset of the next.
std::vector<std::uint32_t> words(std::span<const Link> links, std::uint32_t bytes,
                                 std::uint32_t base) {
  std::vector<std::uint32_t> memory(bytes / sizeof(std::uint32_t), base);
  for (const Link& link : links) memory[link.at / sizeof(std::uint32_t)] = base + link.to;
  return memory;
}

}  // namespace

std::int64_t links_followed(Step step) {
  if (step == Step::empty) return 0;
  if (step == Step::shared_store) return links_read_again;
  return 2 * timed_steps + (step == Step::shared_store_to_load ? links_read_again : 0);
}

Chain::Chain(Step step, std::span<const Link> links, std::uint32_t bytes)
    : step_(step), bytes_(bytes) {
  if (step == Step::empty) return;
  if (is_global(step)) {
    memory_ = with_addresses(links, bytes);
  } else if (step == Step::constant) {
    find_constant_base<<<1, 1>>>(walked_.data());
    check(cudaGetLastError(), "launching the kernel that finds constant memory");
    check(cudaDeviceSynchronize(), "finding the address of constant memory");
    const auto filled = words(links, bytes, walked().end);
    check(cudaMemcpyToSymbol(constant_memory, filled.data(), bytes), "filling constant memory");
  } else {
    const auto filled = words(links, bytes, 0);
    memory_ = DeviceBuffer(bytes);
    check(cudaMemcpy(memory_.data(), filled.data(), bytes, cudaMemcpyHostToDevice),
          "copying a chain to the GPU");
  }
}

void Chain::enqueue(std::uint32_t start, cudaStream_t stream) {
  Walked* const walked = walked_.data();
  const auto shared = [&](auto* kernel) {
    kernel<<<1, 1, 0, stream>>>(memory_.as<std::uint32_t>(), bytes_, start, walked);
  };
  const auto global = [&](auto* kernel) {
    kernel<<<1, 1, 0, stream>>>(reinterpret_cast<std::uint64_t>(memory_.data()), start, walked);
  };
  switch (step_) {
    case Step::empty:
      walk_empty<<<1, 1, 0, stream>>>(start, /*never=*/1, walked);
      break;
    case Step::global_through_l1:
      global(walk_global<load_through_l1>);
      break;
    case Step::global_past_l1:
      global(walk_global<load_past_l1>);
      break;
    case Step::constant:
      walk_constant<<<1, 1, 0, stream>>>(start, walked);
      break;
    case Step::shared:
      shared(walk_shared<Step::shared>);
      break;
    case Step::shared_store:
      shared(walk_shared<Step::shared_store>);
      break;
    case Step::shared_store_to_load:
      shared(walk_shared<Step::shared_store_to_load>);
      break;
  }
  check(cudaGetLastError(), "launching a walk");
}

}  // namespace reprolab::profiling::latency
