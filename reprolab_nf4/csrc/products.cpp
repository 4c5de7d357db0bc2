// The products of the drop-in library: checks arguments and launches the registered kernels.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>

#include "kernels/nf4/format.hpp"
#include "kernels/nf4_product/problem.hpp"
#include "kernels/printable.hpp"
#include "kernels/registry.hpp"
#include "reprolab_nf4/csrc/calls.hpp"
#include "reprolab_nf4/csrc/reprolab_nf4.h"

namespace reprolab::nf4_product {
namespace {

using namespace dropin;

/// The kernels that need no other library.
constexpr std::array kernel_names = {
    "few_rows",       "many_rows",       "few_rows_99kib",    "simple",
    "few_rows_exact", "many_rows_exact", "many_rows_rounded", "few_rows_exact_99kib"};

/// `absmax_codes`: null for plain scales, whose next three parameters are ignored.
Problem problem_of(int is_bf16, const void* input, const std::uint8_t* codes, const float* absmax,
                   const std::uint8_t* absmax_codes, const float* map, float offset,
                   int second_block_size, const void* bias, void* output, std::int64_t m,
                   std::int64_t n, std::int64_t k, int block_size) {
  Problem problem{.codes = codes,
                  .absmax = absmax,
                  .nested = {},
                  .table = std::bit_cast<std::array<float, 16>>(nf4::standard_table()),
                  .block_size = block_size,
                  .input = input,
                  .bias = bias,
                  .output = output,
                  .m = m,
                  .n = n,
                  .k = k,
                  .type = is_bf16 != 0 ? nf4::OutputType::bf16 : nf4::OutputType::fp16};
  if (absmax_codes != nullptr) {
    problem.absmax = nullptr;
    problem.nested = {absmax_codes, map, absmax, offset, second_block_size};
  }
  return problem;
}

std::string names(const char* separator, bool only_exact = false) {
  std::string all;
  for (const char* name : kernel_names) {
    const std::string_view reading = kernel_named<Problem>(name).contract.reading;
    if (only_exact && reading != dequantized_weights) continue;
    all += (all.empty() ? "" : separator) + std::string(name);
  }
  return all;
}

std::string fault_of_sizes(const Problem& problem) {
  return first_of({fault_of_count("m", problem.m), fault_of_count("n", problem.n),
                   fault_of_count("k", problem.k),
                   fault_of_block_size("blocksize", problem.block_size)});
}

std::string fault_of_activations(const Problem& problem, std::size_t alignment) {
  return fault_of({{"A", problem.input, alignment}, {"out", problem.output, 2}});
}

/// Checks scales and bias, too.
std::string fault_of_weights(const Problem& problem) {
  const auto& nested = problem.nested;
  return first_of(
      {fault_of({{"B", problem.codes, 1}}),
       problem.bias == nullptr ? "" : fault_of({{"bias", problem.bias, 2}}),
       problem.is_nested() ? fault_of({{"code2", nested.map, 4}, {"absmax", nested.absmax, 4}})
                           : fault_of({{"absmax", problem.absmax, 4}}),
       problem.is_nested() ? fault_of_block_size("blocksize2", nested.block_size) : ""});
}

std::string fault_of_pointers(const Problem& problem) {
  return first_of({fault_of_activations(problem, 2), fault_of_weights(problem)});
}

std::uint64_t workspace_bytes(const Kernel<Problem>& kernel, const Problem& problem) {
  return kernel.workspace_bytes ? kernel.workspace_bytes(problem) : 0;
}

/// Null, with an error, if no kernel has that name.
const Kernel<Problem>* kernel_for(const Call& call, const char* name) {
  const std::string wanted = name == nullptr ? "" : name;
  if (std::ranges::find(kernel_names, wanted) != kernel_names.end()) {
    return &kernel_named<Problem>(wanted);
  }
  call.refuse("there is no kernel '" + printable(wanted) + "'; give one of " + names(", "));
  return nullptr;
}

/// 0 if the kernel supports the problem.
int support_for(const Call& call, const Kernel<Problem>& kernel, const Problem& problem) {
  const Support support = kernel.supports(problem);
  if (support.ok) return cudaSuccess;
  const cudaError_t error = has_code();
  if (error != cudaSuccess) return call.fail(error, cudaGetErrorString(error));
  return call.fail(cudaErrorNotSupported, kernel.name + ": " + support.reason);
}

int multiply(const char* function, const char* kernel_name, Problem problem, int weights_ready,
             void* workspace, cudaStream_t stream) {
  const Call call(function);
  const Kernel<Problem>* const kernel = kernel_for(call, kernel_name);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  if (const auto fault = fault_of_sizes(problem); !fault.empty()) return call.refuse(fault);
  if (problem.m == 0 || problem.n == 0) return succeed();
  if (const auto fault = fault_of_pointers(problem); !fault.empty()) return call.refuse(fault);
  if (const int error = support_for(call, *kernel, problem); error != cudaSuccess) return error;
  problem.weights_ready = weights_ready != 0;
  problem.workspace = workspace;
  const auto fault = fault_of({{"workspace", workspace, 16}});
  if (!fault.empty() && workspace_bytes(*kernel, problem) > 0) return call.refuse(fault);
  return call.launch(*kernel, problem, stream);
}

/// `problem`: without activations.
int make_plan(const char* function, const char* kernel_name, const Problem& problem,
              reprolab_nf4_plan** made, std::uint64_t* bytes) {
  const Call call(function);
  const Kernel<Problem>* const kernel = kernel_for(call, kernel_name);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  const bool is_empty = problem.m == 0 || problem.n == 0;
  const auto fault =
      first_of({fault_of_sizes(problem), is_empty ? "m or n is 0" : "", fault_of_weights(problem),
                fault_of({{"plan", made, 8}, {"bytes", bytes, 8}})});
  if (!fault.empty()) return call.refuse(fault);
  if (const int error = support_for(call, *kernel, problem); error != cudaSuccess) return error;
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) {
    return call.fail(error, cudaGetErrorString(error));
  }
  *bytes = workspace_bytes(*kernel, problem);
  *made = new reprolab_nf4_plan{kernel->name, problem, device, *bytes > 0,
                                kernel->plan ? kernel->plan(problem) : kernel->launch};
  return succeed();
}

/// Makes a device current until the end of the scope.
class CurrentDevice {
 public:
  explicit CurrentDevice(int device) : error_(cudaGetDevice(&before_)), device_(device) {
    if (error_ == cudaSuccess && before_ != device_) error_ = cudaSetDevice(device_);
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (error_ == cudaSuccess && before_ != device_) cudaSetDevice(before_);
  }
  cudaError_t error() const { return error_; }

 private:
  int before_ = 0;
  cudaError_t error_;
  int device_;
};

int run(const char* function, const reprolab_nf4_plan& plan, const void* input, void* output,
        int weights_ready, void* workspace, cudaStream_t stream) {
  const Call call(function);
  Problem problem = plan.problem;
  problem.input = input;
  problem.output = output;
  problem.weights_ready = weights_ready != 0;
  problem.workspace = workspace;
  const auto fault =
      first_of({fault_of_activations(problem, 16),
                plan.needs_workspace ? fault_of({{"workspace", workspace, 16}}) : ""});
  if (!fault.empty()) return call.refuse(fault);
  const CurrentDevice device(plan.device);
  auto error = device.error();
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (error == cudaSuccess) error = cudaStreamIsCapturing(stream, &capture);
  if (error == cudaSuccess && capture != cudaStreamCaptureStatusNone) {
    error = cudaErrorStreamCaptureUnsupported;
  }
  if (error == cudaSuccess) error = plan.launch(problem, stream);
  return call.launched(plan.kernel, error);
}

}  // namespace
}  // namespace reprolab::nf4_product

using namespace reprolab::nf4_product;

int reprolab_nf4_multiply(const char* kernel, int is_bf16, const void* A, const unsigned char* B,
                          const float* absmax, const unsigned char* absmax_codes,
                          const float* code2, float offset, const void* bias, void* out,
                          std::int64_t m, std::int64_t n, std::int64_t k, int blocksize,
                          int blocksize2, int weights_ready, void* workspace, cudaStream_t stream) {
  return multiply(__func__, kernel,
                  problem_of(is_bf16, A, B, absmax, absmax_codes, code2, offset, blocksize2, bias,
                             out, m, n, k, blocksize),
                  weights_ready, workspace, stream);
}

int reprolab_nf4_make_plan(const char* kernel, int is_bf16, const unsigned char* B,
                           const float* absmax, const unsigned char* absmax_codes,
                           const float* code2, float offset, const void* bias, std::int64_t m,
                           std::int64_t n, std::int64_t k, int blocksize, int blocksize2,
                           reprolab_nf4_plan** plan, std::uint64_t* bytes) {
  return make_plan(__func__, kernel,
                   problem_of(is_bf16, nullptr, B, absmax, absmax_codes, code2, offset, blocksize2,
                              bias, nullptr, m, n, k, blocksize),
                   plan, bytes);
}

int reprolab_nf4_run(const reprolab_nf4_plan* plan, const void* A, void* out, int weights_ready,
                     void* workspace, cudaStream_t stream) {
  return run(__func__, *plan, A, out, weights_ready, workspace, stream);
}

int reprolab_nf4_forget(reprolab_nf4_plan* plan) {
  delete plan;
  return succeed();
}

int reprolab_nf4_workspace(const char* kernel, std::int64_t m, std::int64_t n, std::int64_t k,
                           int blocksize, std::uint64_t* bytes) {
  const Call call(__func__);
  const reprolab::Kernel<Problem>* const registered = kernel_for(call, kernel);
  if (registered == nullptr) return cudaErrorInvalidValue;
  const Problem problem{.nested = {}, .block_size = blocksize, .m = m, .n = n, .k = k};
  if (const auto fault = fault_of_sizes(problem); !fault.empty()) return call.refuse(fault);
  if (bytes == nullptr) return call.refuse("bytes is null");
  if (const int error = support_for(call, *registered, problem); error != cudaSuccess) return error;
  *bytes = workspace_bytes(*registered, problem);
  return succeed();
}

const char* reprolab_nf4_products() {
  static const std::string listed = names("\n");
  return listed.c_str();
}

const char* reprolab_nf4_exact_products() {
  static const std::string listed = names("\n", true);
  return listed.c_str();
}
