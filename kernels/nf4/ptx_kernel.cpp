#include "kernels/nf4/ptx_kernel.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "kernels/nf4/support.hpp"
#include "kernels/ptx_module.hpp"

namespace reprolab::nf4 {
namespace {

std::string variant_of(const Problem& problem) {
  return std::string(problem.output_type == OutputType::fp16 ? "fp16" : "bf16") +
         (problem.is_nested() ? "_nested" : "");
}

/// 90 for compute capability 9.0; 0 if there is no GPU.
int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return 10 * major + minor;
}

/// The standard table in device memory, for as long as the process lives. Null if that fails.
const float* device_table() {
  static const float* const table = []() -> const float* {
    constexpr Table entries = standard_table();
    void* memory = nullptr;
    if (cudaMalloc(&memory, sizeof entries) == cudaSuccess &&
        cudaMemcpy(memory, &entries, sizeof entries, cudaMemcpyHostToDevice) == cudaSuccess) {
      return static_cast<const float*>(memory);
    }
    cudaGetLastError();
    return nullptr;
  }();
  return table;
}

/// A kernel with what of it is loaded.
class Loaded {
 public:
  explicit Loaded(const PtxKernel& kernel) : kernel_(kernel) {
    for (const auto& [capability, variants] : kernel_.variants) {
      for (const auto& [name, variant] : variants) {
        functions_.try_emplace({capability, name}, variant.file, variant.entry);
      }
    }
  }

  Support supports(const Problem& problem) {
    if (const Support support = supports_standard_table(problem); !support.ok) return support;
    if (problem.n > std::numeric_limits<std::int32_t>::max() - kernel_.weights_per_block) {
      return Support::no("counts weights in 32 bits: 2^31 - 1 - " +
                         std::to_string(kernel_.weights_per_block) + " at most");
    }
    if (problem.n % kernel_.weights_multiple != 0) {
      return Support::no("is compiled for multiples of " +
                         std::to_string(kernel_.weights_multiple) + " weights");
    }
    for (const void* pointer :
         {static_cast<const void*>(problem.codes), static_cast<const void*>(problem.absmax),
          static_cast<const void*>(problem.nested.codes),
          static_cast<const void*>(problem.nested.map),
          static_cast<const void*>(problem.nested.absmax),
          static_cast<const void*>(problem.output)}) {
      if (reinterpret_cast<std::uintptr_t>(pointer) % kernel_.pointer_alignment != 0) {
        return Support::no("is compiled for arrays aligned to " +
                           std::to_string(kernel_.pointer_alignment) + " bytes");
      }
    }
    return supports_gpu(variant_of(problem));
  }

  cudaError_t launch(const Problem& problem, cudaStream_t stream) {
    if (problem.n == 0) return cudaSuccess;
    const std::string name = variant_of(problem);
    const int capability = compute_capability();
    const auto function = functions_.find({capability, name});
    if (function == functions_.end() || device_table() == nullptr) return cudaErrorNotSupported;
    const PtxVariant& variant = kernel_.variants.at(capability).at(name);
    const NestedScales& nested = problem.nested;
    const void* codes = problem.codes;
    const void* table = device_table();
    const void* absmax = problem.is_nested() ? nested.absmax : problem.absmax;
    const void *scale_codes = nested.codes, *map = nested.map, *null = nullptr;
    void* output = problem.output;
    std::int32_t n = static_cast<std::int32_t>(problem.n);
    std::int32_t shift = log2_exact(problem.block_size);
    std::int32_t second_shift = log2_exact(nested.block_size);
    float offset = nested.offset;
    void* arguments[10 + max_null_pointers] = {&codes,  &table, &absmax, &scale_codes,  &map,
                                               &output, &n,     &shift,  &second_shift, &offset};
    std::fill_n(arguments + 10, variant.null_pointers, static_cast<void*>(&null));
    const std::int64_t blocks =
        (problem.n + kernel_.weights_per_block - 1) / kernel_.weights_per_block;
    return function->second.launch(
        ModuleDriver::installed(),
        {static_cast<unsigned>(blocks), kernel_.threads, variant.shared_bytes}, arguments, stream);
  }

 private:
  Support supports_gpu(const std::string& variant) {
    const int capability = compute_capability();
    if (capability == 0) return Support::no("needs a GPU");
    const auto function = functions_.find({capability, variant});
    if (function == functions_.end()) {
      const std::string arch = std::to_string(capability);
      return Support::no("is not compiled for sm_" + arch + "; make " + kernel_.make_target +
                         " ARCH=" + arch);
    }
    // Makes the device's context current, into which the driver loads.
    if (cudaFree(nullptr) != cudaSuccess || device_table() == nullptr) {
      cudaGetLastError();
      return Support::no("has no device memory for its table");
    }
    const std::string& why_not = function->second.load(ModuleDriver::installed());
    return why_not.empty() ? Support::yes() : Support::no(why_not);
  }

  PtxKernel kernel_;
  std::map<std::pair<int, std::string>, PtxFunction> functions_;
};

}  // namespace

void add_ptx_kernel(const PtxKernel& kernel) {
  const auto loaded = std::make_shared<Loaded>(kernel);
  Registry<Problem>::instance().add({
      .name = kernel.name,
      .lineage = kernel.lineage,
      .source_file = kernel.source_file,
      .contract = {},
      .supports = [loaded](const Problem& problem) { return loaded->supports(problem); },
      .launch = [loaded](const Problem& problem,
                         cudaStream_t stream) { return loaded->launch(problem, stream); },
      .origin = {Origin::Kind::compiler, kernel.compiler},
  });
}

}  // namespace reprolab::nf4
