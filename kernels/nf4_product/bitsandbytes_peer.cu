// The peer: the products of the real bitsandbytes, through the C API of its CUDA library. Its
// Python code (0.50 and newer) calls the fused product for M <= 4. For M from 5 to 1536 a table by
// GPU and shape decides, on an H200 in favour of the fused product for M <= 64 and large layers.
// Otherwise, and if K is not a multiple of the block size, it dequantizes and calls torch. Older
// versions have a product for M = 1 and dequantize for more.
//
// Source: libbitsandbytes_cuda*.so of a bitsandbytes wheel; its csrc/gemm_4bit.cu, cuda/ops.py.
// Bound:  whatever limits the library's kernel.
// Alone:  make bench KERNEL='bitsandbytes*' PEER=/path/to/libbitsandbytes_cuda*.so
#include "kernels/nf4_product/bitsandbytes_peer.hpp"

#include "kernels/bitsandbytes_library.hpp"
#include "kernels/kept_memory.hpp"
#include "kernels/nf4/support.hpp"
#include "kernels/nf4_product/device.hpp"
#include "kernels/nf4_product/problem.hpp"

namespace reprolab::nf4_product {
namespace {

/// A, B, absmax, absmax_8bit, absmax_code, absmax_offset, out, bias, M, N, K, block size, type of
/// quantization, stream. With nested scales, `absmax` has the second-level scales, and the offset
/// is in device memory; with plain scales the three pointers after `absmax` are null.
using Gemm = void (*)(const void*, const std::uint8_t*, const float*, const std::uint8_t*,
                      const float*, const float*, void*, const void*, int, int, int, int, int,
                      cudaStream_t);
constexpr int nf4_type = 2;  // 1 is FP4

/// N, 1, K, A, B, absmax, the 16 values, out, N, bytes per row of B, N, block size, stream.
using Gemv = void (*)(int, int, int, const void*, const std::uint8_t*, const float*, const float*,
                      void*, int, int, int, int, cudaStream_t);

template <class Function>
struct Functions {
  Function fp16 = nullptr, bf16 = nullptr;

  Function of(const Problem& problem) const {
    return problem.type == nf4::OutputType::fp16 ? fp16 : bf16;
  }
};

/// Requirements of both: the library counts in ints and loads 16 bytes at a time.
Support supports_both(const Problem& problem, bool exported) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  if (!exported) return Support::no("the library exports no product for this type");
  if (problem.k % problem.block_size != 0) {
    return Support::no("bitsandbytes dequantizes where a row of weights is not whole blocks");
  }
  if (problem.n * problem.k / 2 > most || problem.m * std::max(problem.n, problem.k) > most) {
    return Support::no("bitsandbytes counts bytes of codes and elements in an int: below 2^31");
  }
  if (!is_aligned(problem.codes) || !is_aligned(problem.input)) {
    return Support::no("codes and input must be aligned to 16 bytes");
  }
  return nf4::supports_standard_table({.table = problem.table});
}

Support supports_gemm(const Functions<Gemm>& gemm, const Problem& problem) {
  if (problem.m > 1536) return Support::no("bitsandbytes dequantizes for more than 1536 rows");
  if (problem.m > 3 && problem.n % 2 != 0) {
    return Support::no("for M > 3, supports even N only");
  }
  if (problem.is_nested() && problem.nested.block_size != 256) {
    return Support::no("supports nested scales only with 256 scales per second-level scale");
  }
  return supports_both(problem, gemm.of(problem) != nullptr);
}

cudaError_t launch_gemm(const Functions<Gemm>& gemm, const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  const nf4::NestedScales& nested = problem.nested;
  const float* offset = nullptr;
  if (problem.is_nested()) {
    const auto error = device_copy({&nested.offset, 1}, stream, offset);
    if (error != cudaSuccess) return error;
  }
  gemm.of(problem)(problem.input, problem.codes,
                   problem.is_nested() ? nested.absmax : problem.absmax, nested.codes, nested.map,
                   offset, problem.output, problem.bias, static_cast<int>(problem.m),
                   static_cast<int>(problem.n), static_cast<int>(problem.k), problem.block_size,
                   nf4_type, stream);
  return cudaGetLastError();
}

Support supports_gemv(const Functions<Gemv>& gemv, const Problem& problem) {
  if (problem.m > 1) return Support::no("supports M = 1 only");
  if (problem.bias != nullptr) return Support::no("does not support a bias");
  if (problem.is_nested())
    return Support::no("does not support nested scales: bitsandbytes dequantizes them first");
  if (problem.n % 4 != 0) return Support::no("reads scales past the end unless 4 divides n");
  return supports_both(problem, gemv.of(problem) != nullptr);
}

cudaError_t launch_gemv(const Functions<Gemv>& gemv, const Problem& problem, cudaStream_t stream) {
  if (problem.m == 0 || problem.n == 0) return cudaSuccess;
  const float* table = nullptr;
  const auto error = device_copy(problem.table, stream, table);
  if (error != cudaSuccess) return error;
  const int n = static_cast<int>(problem.n), k = static_cast<int>(problem.k);
  gemv.of(problem)(n, 1, k, problem.input, problem.codes, problem.absmax, table, problem.output, n,
                   (k + 1) / 2, n, problem.block_size, stream);
  return cudaGetLastError();
}

/// Registers a product that the library exports for at least one type.
template <class Function, class Supports, class Launch>
void add(const BitsandbytesLibrary& loaded, const Functions<Function>& functions,
         const std::string& kind, Supports supports, Launch launch,
         std::vector<std::string>& added) {
  if (functions.fp16 == nullptr && functions.bf16 == nullptr) return;
  added.push_back(loaded.name() + "_" + kind);
  loaded.add<Problem>(
      {.name = added.back(),
       .source_file = "kernels/nf4_product/bitsandbytes_peer.cu",
       .contract = WithinBound{"rounds entries, scales, weights and products to 16 bits, some or "
                               "all of them as the number of rows has it; adds in fp32",
                               rounded_products},
       .supports = [=](const Problem& problem) { return supports(functions, problem); },
       .launch = [=](const Problem& problem,
                     cudaStream_t stream) { return launch(functions, problem, stream); }});
}

}  // namespace

std::vector<std::string> add_bitsandbytes_peers(const std::string& argument) {
  const BitsandbytesLibrary loaded(argument);
  Functions<Gemm> gemm;
  Functions<Gemv> gemv;
  loaded.functions().bind({{gemm.fp16, "cgemm_4bit_fp16"}});
  loaded.functions().bind({{gemm.bf16, "cgemm_4bit_bf16"}});
  loaded.functions().bind({{gemv.fp16, "cgemm_4bit_inference_naive_fp16"}});
  loaded.functions().bind({{gemv.bf16, "cgemm_4bit_inference_naive_bf16"}});
  std::vector<std::string> added;
  add(loaded, gemm, "gemm", supports_gemm, launch_gemm, added);
  add(loaded, gemv, "gemv", supports_gemv, launch_gemv, added);
  return added;
}

}  // namespace reprolab::nf4_product
