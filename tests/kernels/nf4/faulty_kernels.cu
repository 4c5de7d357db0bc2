// Kernels with one planted fault each, to test that wrong kernels are caught. One weight per
// thread, fp16 only. Their names begin with "test_".
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {
namespace {

constexpr int threads = 256;

/// No fault; the others differ from it in one member.
struct Sound {
  __device__ static bool skips(std::int64_t, std::int64_t) { return false; }
  __device__ static unsigned code(std::uint8_t byte, std::int64_t i) {
    return i % 2 == 0 ? first_code(byte) : second_code(byte);
  }
  __device__ static float entry(unsigned code) { return table_entry(static_cast<int>(code)); }
  __device__ static float nested(float entry, float absmax, float offset) {
    return nested_scale(entry, absmax, offset);
  }
};

struct SwappedNibbles : Sound {
  __device__ static unsigned code(std::uint8_t byte, std::int64_t i) {
    return i % 2 == 0 ? second_code(byte) : first_code(byte);
  }
};

struct FusedMultiplyAdd : Sound {
  __device__ static float nested(float entry, float absmax, float offset) {
    return __fmaf_rn(entry, absmax, offset);
  }
};

/// Entry 5 with a typing error in its fourth decimal.
struct WrongEntry : Sound {
  __device__ static float entry(unsigned code) {
    return code == 5 ? -0.18467343022823334f : Sound::entry(code);
  }
};

struct MissingTail : Sound {
  __device__ static bool skips(std::int64_t i, std::int64_t n) { return i >= n / 1024 * 1024; }
};

template <class Fault>
__global__ void dequantize(const Problem problem) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= problem.n || Fault::skips(i, problem.n)) return;
  const std::int64_t block = i / problem.block_size;
  const NestedScales& nested = problem.nested;
  const float scale = nested.codes == nullptr
                          ? problem.absmax[block]
                          : Fault::nested(nested.map[nested.codes[block]],
                                          nested.absmax[block / nested.block_size], nested.offset);
  const float entry = Fault::entry(Fault::code(problem.codes[i / 2], i));
  static_cast<__half*>(problem.output)[i] = round_to<__half>(scaled(entry, scale));
}

template <class Fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((problem.n + threads - 1) / threads);
  dequantize<Fault><<<blocks, threads, 0, stream>>>(problem);
  return cudaGetLastError();
}

__global__ void write_behind(__half* end) { end[0] = round_to<__half>(0.0f); }

cudaError_t launch_with_write_behind(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch<Sound>(problem, stream);
  write_behind<<<1, 1, 0, stream>>>(static_cast<__half*>(problem.output) + problem.n);
  return status;
}

cudaError_t launch_twice(const Problem& problem, cudaStream_t stream) {
  const cudaError_t status = launch<Sound>(problem, stream);
  return status == cudaSuccess ? launch<Sound>(problem, stream) : status;
}

cudaError_t launch_with_too_many_threads(const Problem& problem, cudaStream_t stream) {
  dequantize<Sound><<<1, 2048, 0, stream>>>(problem);
  return cudaGetLastError();
}

__global__ void trap() { asm("trap;"); }

cudaError_t launch_trap(const Problem&, cudaStream_t stream) {
  trap<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

/// A deviation: the first weight of each block is not written.
struct SkipsFirst : Sound {
  __device__ static bool skips(std::int64_t i, std::int64_t) { return i % 64 == 0; }
};

void without_first(const Problem& host, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (i % 64 == 0) continue;
    const std::uint8_t byte = host.codes[i / 2];
    const unsigned code = i % 2 == 0 ? first_code(byte) : second_code(byte);
    static_cast<__half*>(host.output)[i] =
        round_to<__half>(scaled(table_entry(static_cast<int>(code)), host.absmax[i / 64]));
  }
}

Support fp16_only(const Problem& problem) {
  if (problem.output_type != OutputType::fp16) return Support::no("a test's kernel: fp16 only");
  return Support::yes();
}

Support never(const Problem&) { return Support::no("a test's kernel: runs nothing"); }

using Launch = cudaError_t (*)(const Problem&, cudaStream_t);

Kernel<Problem> faulty(const char* name, Launch launch, const Contract<Problem>& contract = {},
                       Support (*supports)(const Problem&) = fp16_only) {
  return {.name = name,
          .lineage = "a test",
          .source_file = "tests/kernels/nf4/faulty_kernels.cu",
          .contract = contract,
          .supports = supports,
          .launch = launch};
}

const Contract<Problem> declares_skipping = DeclaredDeviation<Problem>{
    "the first weight of each block of 64 stays unwritten", without_first};

const Register<Problem> kernels[] = {
    Register<Problem>(faulty("test_sound", launch<Sound>)),
    Register<Problem>(faulty("test_launches_twice", launch_twice)),
    Register<Problem>(faulty("test_swapped_nibbles", launch<SwappedNibbles>)),
    Register<Problem>(faulty("test_fused_multiply_add", launch<FusedMultiplyAdd>)),
    Register<Problem>(faulty("test_wrong_entry", launch<WrongEntry>)),
    Register<Problem>(faulty("test_missing_tail", launch<MissingTail>)),
    Register<Problem>(faulty("test_writes_behind", launch_with_write_behind)),
    Register<Problem>(faulty("test_too_many_threads", launch_with_too_many_threads)),
    Register<Problem>(faulty("test_trap", launch_trap)),
    Register<Problem>(faulty("test_deviates", launch<SkipsFirst>, declares_skipping)),
    Register<Problem>(faulty("test_deviates_not", launch<Sound>, declares_skipping)),
    Register<Problem>(faulty("test_deviates_otherwise", launch<SwappedNibbles>, declares_skipping)),
    Register<Problem>(faulty("test_undeclared_deviation", launch<SkipsFirst>)),
    Register<Problem>(faulty("test_supports_nothing", launch<Sound>, {}, never)),
};

}  // namespace
}  // namespace reprolab::nf4
