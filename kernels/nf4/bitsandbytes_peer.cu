// The peer: the real bitsandbytes, called through the C API of its CUDA library.
//
// Source: libbitsandbytes_cuda*.so of a bitsandbytes wheel. For nested scales, Unsloth's
//         fast_dequantize: the library's call for the scales, the offset, its call for the weights.
// Bound:  whatever limits the library's kernel.
// Alone:  make bench KERNEL='bitsandbytes*' PEER=/path/to/libbitsandbytes_cuda*.so
#include <filesystem>
#include <stdexcept>

#include "common/dynamic_library.hpp"
#include "common/plain_name.hpp"
#include "common/printable.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"
#include "kernels/nf4/fp32_scales.cuh"
#include "kernels/nf4/support.hpp"

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
  if (lacks != nullptr) return Support::no(std::string("the library exports no ") + lacks);
  // The API counts weights in an int, to which the library adds the size of a tile.
  if (problem.n > (std::int64_t{1} << 31) - 2048) {
    return Support::no("bitsandbytes counts weights in an int: 2^31 - 2048 at most");
  }
  return supports_standard_table(problem);
}

/// The version, such as "0.47.0", if the library is in an unpacked or installed wheel, else "".
std::string wheel_version(const std::filesystem::path& library) {
  const std::string before = "bitsandbytes-", behind = ".dist-info";
  const auto site = library.parent_path().parent_path();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(site, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(before) || !name.ends_with(behind)) continue;
    return printable(name.substr(before.size(), name.size() - before.size() - behind.size()));
  }
  return "";
}

}  // namespace

std::string add_bitsandbytes_peer(const std::string& argument) {
  auto equals = argument.find('=');
  if (argument.find('/') < equals) equals = std::string::npos;  // part of the path
  const std::string path = equals == std::string::npos ? argument : argument.substr(equals + 1);
  const auto refuse = [&](const std::string& why) {
    throw std::runtime_error(printable("peer " + path + ": " + why));
  };
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    refuse("no such file; give the path of libbitsandbytes_cuda*.so");
  }
  const auto absolute = std::filesystem::absolute(path);
  std::string why_not;
  const auto loaded = DynamicLibrary::open({absolute.string()}, &why_not);
  if (!loaded) {
    refuse("cannot be loaded (" + why_not + "); put its CUDA libraries on LD_LIBRARY_PATH");
  }
  Library library;  // bound one by one, because each function is useful alone
  loaded->bind({{library.to_fp16, fp16_name}});
  loaded->bind({{library.to_bf16, bf16_name}});
  loaded->bind({{library.to_fp32, fp32_name}});
  if (library.to_fp16 == nullptr && library.to_bf16 == nullptr) {
    refuse(std::string("exports neither ") + fp16_name + " nor " + bf16_name +
           "; give libbitsandbytes_cuda*.so of a bitsandbytes wheel");
  }
  const std::string version = wheel_version(absolute);
  const std::string maker = "bitsandbytes " + (version.empty() ? "(version unknown)" : version);
  const std::string stem = absolute.stem().string();  // libbitsandbytes_cuda130
  const std::string own = version.empty() ? stem.substr(stem.find('_') + 1) : version;
  const std::string name =
      equals != std::string::npos ? argument.substr(0, equals) : "bitsandbytes_" + own;
  if (!is_plain_name(name)) {
    refuse("cannot be named '" + name + "'; give NAME=path, of " + std::string(plain_name_rule));
  }
  if (Registry<Problem>::instance().kernels().contains(name)) {
    refuse("there is already a kernel named '" + name + "'; name this one: NAME=" + path);
  }
  Registry<Problem>::instance().add({
      .name = name,
      .lineage = maker + ", " + printable(absolute.filename().string()),
      .source_file = "kernels/nf4/bitsandbytes_peer.cu",
      .contract = BitExact{},
      .supports = [library](const Problem& problem) { return supports(library, problem); },
      .launch = [library](const Problem& problem,
                          cudaStream_t stream) { return launch(library, problem, stream); },
      .origin = {Origin::Kind::peer, maker},
      .code_files = [path = absolute.string()](int) -> std::vector<std::string> {
        return {"kernels/nf4/bitsandbytes_peer.cu", path};
      },
  });
  return name;
}

}  // namespace reprolab::nf4
