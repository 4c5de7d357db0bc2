// The peer: the real bitsandbytes, called through the C API of its CUDA library.
//
// Source: libbitsandbytes_cuda*.so of a bitsandbytes wheel. For nested scales, Unsloth's
//         fast_dequantize: the library's call for the scales, the offset, its call for the weights.
// Bound:  whatever limits the library's kernel.
// Alone:  make bench KERNEL='bitsandbytes*' PEER=/path/to/libbitsandbytes_cuda*.so
#include "kernels/bitsandbytes_library.hpp"
#include "kernels/nf4/fp32_scales.cuh"
#include "kernels/nf4/loaded_kernels.hpp"

namespace reprolab::nf4 {
namespace {

/// Parameters: code or map, codes, absmax, output, block size, n, stream; NF4 ignores `code`.
using Dequantize = void (*)(const float*, const std::uint8_t*, const float*, void*, int, int,
                            cudaStream_t);

/// A function that the library does not export is null; the problems that need it are refused.
struct Library {
  Dequantize to_fp16 = nullptr, to_bf16 = nullptr;
  Dequantize to_fp32 = nullptr;  ///< Dequantizes nested scales.
};

constexpr const char* fp16_name = "cdequantize_blockwise_fp16_nf4";
constexpr const char* bf16_name = "cdequantize_blockwise_bf16_nf4";
constexpr const char* fp32_name = "cdequantize_blockwise_fp32";

cudaError_t dequantize_scales(const Library& library, const Problem& problem, float* absmax,
                              std::int64_t blocks, cudaStream_t stream) {
  const NestedScales& nested = problem.nested;
  library.to_fp32(nested.map, nested.codes, nested.absmax, absmax, nested.block_size,
                  static_cast<int>(blocks), stream);
  add_offset<<<grid_of(blocks_over(blocks, 256)), 256, 0, stream>>>(absmax, nested.offset, blocks);
  return cudaGetLastError();
}

cudaError_t launch(const Library& library, const Problem& problem, cudaStream_t stream) {
  if (problem.n == 0) return cudaSuccess;
  const Dequantize dequantize =
      problem.output_type == OutputType::fp16 ? library.to_fp16 : library.to_bf16;
  const int n = static_cast<int>(problem.n);
  if (!problem.is_nested()) {
    dequantize(nullptr, problem.codes, problem.absmax, problem.output, problem.block_size, n,
               stream);
    return cudaGetLastError();
  }
  return with_fp32_scales(problem, stream, [&](float* absmax, std::int64_t blocks) {
    const auto status = dequantize_scales(library, problem, absmax, blocks, stream);
    if (status == cudaSuccess) {
      dequantize(nullptr, problem.codes, absmax, problem.output, problem.block_size, n, stream);
    }
    return status;
  });
}

Support supports(const Library& library, const Problem& problem) {
  const bool to_fp16 = problem.output_type == OutputType::fp16;
  const char* lacks = nullptr;
  if (to_fp16 && library.to_fp16 == nullptr) lacks = fp16_name;
  if (!to_fp16 && library.to_bf16 == nullptr) lacks = bf16_name;
  if (problem.is_nested() && library.to_fp32 == nullptr) lacks = fp32_name;
  if (lacks != nullptr) return unsupported(std::string("the library exports no ") + lacks);
  // The API counts weights in an int, to which the library adds the size of a tile.
  if (problem.n > (std::int64_t{1} << 31) - 2048) {
    return Support::no("bitsandbytes counts weights in an int: 2^31 - 2048 at most");
  }
  return supports_standard_table(problem);
}

}  // namespace

std::string add_bitsandbytes_peer(const std::string& argument) {
  const BitsandbytesLibrary loaded(argument);
  Library library;  // bound one by one, because each function is useful alone
  loaded.functions().bind({{library.to_fp16, fp16_name}});
  loaded.functions().bind({{library.to_bf16, bf16_name}});
  loaded.functions().bind({{library.to_fp32, fp32_name}});
  if (library.to_fp16 == nullptr && library.to_bf16 == nullptr) {
    loaded.refuse(std::string("exports neither ") + fp16_name + " nor " + bf16_name +
                  "; give libbitsandbytes_cuda*.so of a bitsandbytes wheel");
  }
  loaded.add<Problem>({
      .name = loaded.name(),
      .source_file = "kernels/nf4/bitsandbytes_peer.cu",
      .supports = [library](const Problem& problem) { return supports(library, problem); },
      .launch = [library](const Problem& problem,
                          cudaStream_t stream) { return launch(library, problem, stream); },
  });
  return loaded.name();
}

}  // namespace reprolab::nf4
