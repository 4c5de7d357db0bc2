#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <utility>

#include "kernels/kept_memory.hpp"
#include "kernels/nf4/loaded_kernels.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {
namespace {

std::string variant_of(const Problem& problem) {
  return std::string(problem.output_type == OutputType::fp16 ? "fp16" : "bf16") +
         (problem.is_nested() ? "_nested" : "");
}

/// A kernel and its loaded variants.
class Loaded {
 public:
  explicit Loaded(const PtxKernel& kernel)
      : ptx_(kernel),
        weights_per_block_(kernel.number("weights_per_block")),
        pointer_alignment_(static_cast<std::uintptr_t>(kernel.number("pointer_alignment"))),
        weights_multiple_(kernel.number("weights_multiple")) {}

  Support supports(const Problem& problem) {
    if (const Support support = supports_standard_table(problem); !support.ok) return support;
    if (problem.n > std::numeric_limits<std::int32_t>::max() - weights_per_block_) {
      return unsupported("counts weights in 32 bits: 2^31 - 1 - " +
                         std::to_string(weights_per_block_) + " at most");
    }
    if (problem.n % weights_multiple_ != 0) {
      return unsupported("is compiled for multiples of " + std::to_string(weights_multiple_) +
                         " weights");
    }
    const NestedScales& nested = problem.nested;
    for (const void* pointer :
         std::initializer_list<const void*>{problem.codes, problem.absmax, nested.codes, nested.map,
                                            nested.absmax, problem.output}) {
      if (reinterpret_cast<std::uintptr_t>(pointer) % pointer_alignment_ != 0) {
        return unsupported("is compiled for arrays aligned to " +
                           std::to_string(pointer_alignment_) + " bytes");
      }
    }
    if (const Support support = ptx_.supports(variant_of(problem)); !support.ok) return support;
    if (device_copy(problem.table, nullptr, table_) == cudaSuccess) return Support::yes();
    cudaGetLastError();
    return Support::no("has no device memory for its table");
  }

  cudaError_t launch(const Problem& problem, cudaStream_t stream) {
    if (problem.n == 0) return cudaSuccess;
    if (table_ == nullptr) return cudaErrorMemoryAllocation;
    const NestedScales& nested = problem.nested;
    const void* codes = problem.codes;
    const void* table = table_;
    const void* absmax = problem.is_nested() ? nested.absmax : problem.absmax;
    const void *scale_codes = nested.codes, *map = nested.map;
    void* output = problem.output;
    std::int32_t n = static_cast<std::int32_t>(problem.n);
    std::int32_t shift = log2_exact(problem.block_size);
    std::int32_t second_shift = log2_exact(nested.block_size);
    float offset = nested.offset;
    void* const arguments[] = {&codes,  &table, &absmax, &scale_codes,  &map,
                               &output, &n,     &shift,  &second_shift, &offset};
    return ptx_.launch(variant_of(problem), blocks_over(problem.n, weights_per_block_), arguments,
                       stream);
  }

 private:
  LoadedPtx ptx_;
  std::int64_t weights_per_block_;
  std::uintptr_t pointer_alignment_;
  std::int64_t weights_multiple_;
  const float* table_ = nullptr;  ///< In device memory, when a problem is supported.
};

}  // namespace

void add_ptx_kernel(const PtxKernel& kernel) {
  const auto loaded = std::make_shared<Loaded>(kernel);
  Kernel<Problem> row = described<Problem>(kernel);
  row.supports = [loaded](const Problem& problem) { return loaded->supports(problem); };
  row.launch = [loaded](const Problem& problem, cudaStream_t stream) {
    return loaded->launch(problem, stream);
  };
  Registry<Problem>::instance().add(std::move(row));
}

}  // namespace reprolab::nf4
