// The drop-in library: checks arguments and hands dequantizations to the registered kernels.
#include "dropin/reprolab_nf4.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "common/printable.hpp"
#include "dropin/calls.hpp"
#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/registry.hpp"

namespace reprolab::nf4 {
namespace {

using namespace dropin;

const Kernel<Problem>& default_kernel() {
  static const Kernel<Problem>& kernel = kernel_named<Problem>("streaming");
  return kernel;
}

std::atomic<const Kernel<Problem>*> chosen_kernel = nullptr;  ///< Null: the default.

/// What is wrong with a call, or "".
std::string fault_of(const Problem& problem, std::initializer_list<Pointer> pointers) {
  return first_of({fault_of_block_size("blocksize", problem.block_size),
                   fault_of_block_size("blocksize2", problem.nested.block_size),
                   fault_of_count("n", problem.n),
                   problem.n <= 0 ? "" : dropin::fault_of(pointers)});
}

/// `pointers`: all that the problem has. `function`: what an error message begins with.
int dequantize(const char* function, const Problem& problem,
               std::initializer_list<Pointer> pointers, cudaStream_t stream) {
  const auto fail_with = [&](cudaError_t error, const std::string& why) {
    return fail(error, std::string(function) + ": " + why);
  };
  if (const std::string fault = fault_of(problem, pointers); !fault.empty()) {
    return fail_with(cudaErrorInvalidValue, fault);
  }
  if (problem.n == 0) return succeed();
  const Kernel<Problem>* kernel = chosen_kernel;
  if (kernel == nullptr || !kernel->supports(problem).ok) kernel = &default_kernel();
  if (const Support support = kernel->supports(problem); !support.ok) {
    return fail_with(cudaErrorNotSupported, kernel->name + ": " + support.reason);
  }
  const cudaError_t error = kernel->launch(problem, stream);
  if (error == cudaSuccess) return succeed();
  return fail_with(error, launch_failure(kernel->name, error));
}

Problem problem_of(OutputType type, const unsigned char* codes, void* out, int block_size,
                   std::int64_t n) {
  return {.codes = codes,
          .nested = {},
          .table = std::bit_cast<std::array<float, 16>>(standard_table()),
          .n = n,
          .block_size = block_size,
          .output = out,
          .output_type = type};
}

int dequantize_plain(const char* function, OutputType type, const unsigned char* codes,
                     const float* absmax, void* out, int block_size, int n, cudaStream_t stream) {
  Problem problem = problem_of(type, codes, out, block_size, n);
  problem.absmax = absmax;
  return dequantize(function, problem, {{"A", codes, 1}, {"absmax", absmax, 4}, {"out", out, 2}},
                    stream);
}

int dequantize_nested(const char* function, OutputType type, const unsigned char* codes,
                      const NestedScales& scales, void* out, int block_size, std::int64_t n,
                      cudaStream_t stream) {
  Problem problem = problem_of(type, codes, out, block_size, n);
  problem.nested = scales;
  return dequantize(function, problem,
                    {{"A", codes, 1},
                     {"absmax_codes", scales.codes, 1},
                     {"code2", scales.map, 4},
                     {"absmax2", scales.absmax, 4},
                     {"out", out, 2}},
                    stream);
}

/// Names of the bit-exact kernels, with `separator` between them.
std::string choices(const char* separator) {
  std::string names;
  for (const auto& [name, kernel] : Registry<Problem>::instance().kernels()) {
    if (is_bit_exact(kernel)) names += (names.empty() ? "" : separator) + name;
  }
  return names;
}

}  // namespace
}  // namespace reprolab::nf4

using namespace reprolab::nf4;

int cdequantize_blockwise_fp16_nf4(const float*, const unsigned char* A, const float* absmax,
                                   void* out, int blocksize, int n, cudaStream_t stream) {
  return dequantize_plain(__func__, OutputType::fp16, A, absmax, out, blocksize, n, stream);
}

int cdequantize_blockwise_bf16_nf4(const float*, const unsigned char* A, const float* absmax,
                                   void* out, int blocksize, int n, cudaStream_t stream) {
  return dequantize_plain(__func__, OutputType::bf16, A, absmax, out, blocksize, n, stream);
}

int reprolab_nf4_dequantize_nested_fp16(const unsigned char* A, const unsigned char* absmax_codes,
                                        const float* code2, const float* absmax2, float offset,
                                        void* out, int blocksize, int blocksize2, std::int64_t n,
                                        cudaStream_t stream) {
  return dequantize_nested(__func__, OutputType::fp16, A,
                           {absmax_codes, code2, absmax2, offset, blocksize2}, out, blocksize, n,
                           stream);
}

int reprolab_nf4_dequantize_nested_bf16(const unsigned char* A, const unsigned char* absmax_codes,
                                        const float* code2, const float* absmax2, float offset,
                                        void* out, int blocksize, int blocksize2, std::int64_t n,
                                        cudaStream_t stream) {
  return dequantize_nested(__func__, OutputType::bf16, A,
                           {absmax_codes, code2, absmax2, offset, blocksize2}, out, blocksize, n,
                           stream);
}

int reprolab_nf4_use(const char* kernel) {
  const auto& kernels = reprolab::Registry<Problem>::instance().kernels();
  const auto found = kernel == nullptr ? kernels.end() : kernels.find(kernel);
  if (kernel != nullptr && (found == kernels.end() || !is_bit_exact(found->second))) {
    const char* why = found == kernels.end() ? "there is none of that name" : "it is not bit-exact";
    return fail(cudaErrorInvalidValue, "reprolab_nf4_use: '" + reprolab::printable(kernel) +
                                           "': " + why + "; choose one of " + choices(", "));
  }
  chosen_kernel = kernel == nullptr ? nullptr : &found->second;
  return succeed();
}

const char* reprolab_nf4_kernels() {
  static const std::string names = choices("\n");
  return names.c_str();
}

const char* reprolab_nf4_build() { return REPROLAB_NVCC "\n" REPROLAB_ARCHITECTURES; }

const char* reprolab_nf4_error() { return reprolab::dropin::error_message.data(); }
