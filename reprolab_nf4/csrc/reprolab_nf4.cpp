// The dequantizations of the drop-in library: checks arguments and launches the registered kernels.
#include "reprolab_nf4/csrc/reprolab_nf4.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <string>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4/problem.hpp"
#include "kernels/printable.hpp"
#include "kernels/registry.hpp"
#include "reprolab_nf4/csrc/calls.hpp"

namespace reprolab::nf4 {
namespace {

using namespace dropin;

const Kernel<Problem>& default_kernel() {
  static const Kernel<Problem>& kernel = kernel_named<Problem>("streaming");
  return kernel;
}

std::atomic<const Kernel<Problem>*> chosen_kernel = nullptr;  ///< Null: the default.

/// Launches the chosen kernel.
int dequantize(const char* function, OutputType type, const unsigned char* codes,
               const float* absmax, void* out, int block_size, std::int64_t n,
               cudaStream_t stream) {
  const Call call(function);
  const Problem problem{.codes = codes,
                        .absmax = absmax,
                        .nested = {},
                        .table = std::bit_cast<std::array<float, 16>>(standard_table()),
                        .n = n,
                        .block_size = block_size,
                        .output = out,
                        .output_type = type};
  std::string fault =
      first_of({fault_of_block_size("blocksize", block_size), fault_of_count("n", n)});
  if (!fault.empty()) return call.refuse(fault);
  if (n == 0) return succeed();
  fault = fault_of({{"A", codes, 1}, {"absmax", absmax, 4}, {"out", out, 2}});
  if (!fault.empty()) return call.refuse(fault);

  const Kernel<Problem>* kernel = chosen_kernel;
  if (kernel == nullptr || !kernel->supports(problem).ok) kernel = &default_kernel();
  if (const Support support = kernel->supports(problem); !support.ok) {
    return call.fail(cudaErrorNotSupported, kernel->name + ": " + support.reason);
  }
  return call.launch(*kernel, problem, stream);
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
  return dequantize(__func__, OutputType::fp16, A, absmax, out, blocksize, n, stream);
}

int cdequantize_blockwise_bf16_nf4(const float*, const unsigned char* A, const float* absmax,
                                   void* out, int blocksize, int n, cudaStream_t stream) {
  return dequantize(__func__, OutputType::bf16, A, absmax, out, blocksize, n, stream);
}

int reprolab_nf4_use(const char* kernel) {
  const auto& kernels = reprolab::Registry<Problem>::instance().kernels();
  const auto entry = kernel == nullptr ? kernels.end() : kernels.find(kernel);
  if (kernel != nullptr && (entry == kernels.end() || !is_bit_exact(entry->second))) {
    const char* why = entry == kernels.end() ? "no kernel has that name" : "it is not bit-exact";
    const std::string name = reprolab::printable(kernel);
    return reprolab::dropin::Call(__func__).refuse("'" + name + "': " + why + "; choose one of " +
                                                   choices(", "));
  }
  chosen_kernel = kernel == nullptr ? nullptr : &entry->second;
  return succeed();
}

const char* reprolab_nf4_kernels() {
  static const std::string names = choices("\n");
  return names.c_str();
}

const char* reprolab_nf4_build() { return REPROLAB_NVCC "\n" REPROLAB_ARCHITECTURES; }

const char* reprolab_nf4_error() { return reprolab::dropin::error_message.data(); }
