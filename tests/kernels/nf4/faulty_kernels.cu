// Kernels with one planted fault each, to test that wrong kernels are detected. fp16 only. Their
// names begin with "test_".
#include "kernels/nf4/expected_output.hpp"
#include "tests/kernels/nf4/right_launch.cuh"

namespace reprolab::nf4 {
namespace {

struct SwappedNibbles : Sound {
  __device__ static unsigned code(std::uint8_t byte, std::int64_t i) {
    return Sound::code(byte, i + 1);
  }
};

struct FusedMultiplyAdd : Sound {
  __device__ static float nested(float entry, float absmax, float offset) {
    return __fmaf_rn(entry, absmax, offset);
  }
};

/// Entry 5 with a typo in its fourth decimal.
struct WrongEntry : Sound {
  __device__ static float entry(unsigned code) {
    return code == 5 ? -0.18467343022823334f : Sound::entry(code);
  }
};

struct MissingTail : Sound {
  __device__ static bool skips(std::int64_t i, std::int64_t n) { return i >= n / 1024 * 1024; }
};

cudaError_t launch_with_too_many_threads(const Problem& problem, cudaStream_t stream) {
  dequantize<Sound><<<1, 2048, 0, stream>>>(problem);
  return cudaGetLastError();
}

void without_first(const Problem& host, std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (i % 64 == 0) continue;
    write_expected(host, i, i + 1, [&](std::int64_t) { return host.absmax[i / 64]; });
  }
}

Kernel<Problem> like(const Contract& contract = {}) {
  return {.source_file = "tests/kernels/nf4/faulty_kernels.cu",
          .contract = contract,
          .expected_output = contract.deviates() ? without_first : nullptr,
          .supports = [](const Problem& problem) {
            if (problem.output_type == OutputType::fp16) return Support::yes();
            return Support::no("a test's kernel: fp16 only");
          }};
}

Kernel<Problem> unsupporting_kernel() {
  Kernel<Problem> kernel = like();
  kernel.supports = [](const Problem&) { return Support::no("a test's kernel: runs nothing"); };
  return kernel;
}

const RegisterAll<Problem> kernels(like(),
                                   {{"test_sound", launch_right},
                                    {"test_swapped_nibbles", launch_with<SwappedNibbles>},
                                    {"test_fused_multiply_add", launch_with<FusedMultiplyAdd>},
                                    {"test_wrong_entry", launch_with<WrongEntry>},
                                    {"test_missing_tail", launch_with<MissingTail>},
                                    {"test_too_many_threads", launch_with_too_many_threads}});
const RegisterAll<Problem> deviating(like(DeclaredDeviation{
                                         "the first weight of each block of 64 stays unwritten"}),
                                     {{"test_does_not_deviate", launch_right}});
const RegisterAll<Problem> unsupporting(unsupporting_kernel(),
                                        {{"test_supports_nothing", launch_right}});

}  // namespace
}  // namespace reprolab::nf4
