// The peer: the real bitsandbytes through the C API of its CUDA library.
//
// Source: libbitsandbytes_cuda*.so of a bitsandbytes wheel. Nested scales take the three launches
//         that Unsloth's fast_dequantize makes: the scales' dequantization, the offset, the
//         weights.
// Bound:  whatever the library's kernel is bound by.
// Alone:  make bench KERNEL='bitsandbytes.*' PEER=/path/to/libbitsandbytes_cuda*.so
#include <dlfcn.h>

#include <filesystem>
#include <regex>
#include <stdexcept>

#include "kernels/nf4/bitsandbytes_peer.hpp"
#include "kernels/nf4/support.hpp"

namespace reprolab::nf4 {
namespace {

/// void (code or map, codes, absmax, output, block size, n, stream); `code` is ignored for NF4.
using Dequantize = void (*)(const float*, const std::uint8_t*, const float*, void*, int, int,
                            cudaStream_t);

struct Library {
  Dequantize to_fp16, to_bf16, to_fp32;
};

__global__ void add_offset(float* absmax, float offset, std::int64_t blocks) {
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (block < blocks) absmax[block] = __fadd_rn(absmax[block], offset);
}

cudaError_t dequantize_scales(const Library& library, const Problem& problem, float* absmax,
                              std::int64_t blocks, cudaStream_t stream) {
  const NestedScales& nested = problem.nested;
  library.to_fp32(nested.map, nested.codes, nested.absmax, absmax, nested.block_size,
                  static_cast<int>(blocks), stream);
  add_offset<<<static_cast<unsigned>((blocks + 255) / 256), 256, 0, stream>>>(absmax, nested.offset,
                                                                              blocks);
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
  const std::int64_t blocks = (problem.n + problem.block_size - 1) / problem.block_size;
  float* absmax = nullptr;
  cudaError_t status =
      cudaMallocAsync(reinterpret_cast<void**>(&absmax), blocks * sizeof(float), stream);
  if (status != cudaSuccess) return status;
  status = dequantize_scales(library, problem, absmax, blocks, stream);
  if (status == cudaSuccess) {
    dequantize(nullptr, problem.codes, absmax, problem.output, problem.block_size, n, stream);
  }
  const cudaError_t freed = cudaFreeAsync(absmax, stream);
  return status != cudaSuccess ? status : freed;
}

Support supports(const Problem& problem) {
  // The API counts weights in an int and adds a tile to it.
  if (problem.n > (std::int64_t{1} << 31) - 2048) {
    return Support::no("bitsandbytes counts weights in an int: 2^31 - 2048 at most");
  }
  return supports_standard_table(problem);
}

/// "0.47.0" where the library lies in an unpacked or installed wheel, else "".
std::string wheel_version(const std::filesystem::path& library) {
  const auto site = library.parent_path().parent_path();
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(site, ignored)) {
    std::smatch match;
    const std::string name = entry.path().filename().string();
    if (std::regex_match(name, match, std::regex(R"(bitsandbytes-([0-9][0-9a-z.]*)\.dist-info)"))) {
      return match[1];
    }
  }
  return "";
}

/// What follows "libbitsandbytes_" in the file's name.
std::string stem(const std::filesystem::path& library) {
  const std::string stem = library.stem().string();
  const std::string prefix = "libbitsandbytes_";
  return stem.starts_with(prefix) ? stem.substr(prefix.size()) : stem;
}

Dequantize symbol(void* handle, const char* name, const std::string& path) {
  void* address = dlsym(handle, name);
  if (address == nullptr) {
    throw std::runtime_error("peer " + path + ": exports no " + name +
                             "; give libbitsandbytes_cuda*.so of a bitsandbytes wheel");
  }
  return reinterpret_cast<Dequantize>(address);
}

}  // namespace

std::string add_bitsandbytes_peer(const std::string& argument) {
  const auto equals = argument.find('=');
  const std::string path = equals == std::string::npos ? argument : argument.substr(equals + 1);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) {
    throw std::runtime_error("peer " + path +
                             ": no such file; give the path of libbitsandbytes_cuda*.so");
  }
  const auto absolute = std::filesystem::absolute(path);
  void* handle = dlopen(absolute.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string error = dlerror();
    throw std::runtime_error("peer " + path + ": cannot be loaded (" + error +
                             "); put the CUDA libraries it was built with on LD_LIBRARY_PATH");
  }
  const Library library{symbol(handle, "cdequantize_blockwise_fp16_nf4", path),
                        symbol(handle, "cdequantize_blockwise_bf16_nf4", path),
                        symbol(handle, "cdequantize_blockwise_fp32", path)};

  const std::string version = wheel_version(absolute);
  const std::string name = equals != std::string::npos ? argument.substr(0, equals)
                           : version.empty()           ? "bitsandbytes_" + stem(absolute)
                                                       : "bitsandbytes_" + version;
  if (Registry<Problem>::instance().kernels().contains(name)) {
    throw std::runtime_error("peer " + path + ": there is already a kernel named '" + name +
                             "'; name this one: NAME=" + path);
  }
  Registry<Problem>::instance().add({
      .name = name,
      .lineage = "bitsandbytes " + (version.empty() ? "(version unknown)" : version) + ", " +
                 absolute.filename().string(),
      .source_file = "kernels/nf4/bitsandbytes_peer.cu",
      .contract = {},
      .supports = supports,
      .launch = [library](const Problem& problem,
                          cudaStream_t stream) { return launch(library, problem, stream); },
      .peer = true,
  });
  return name;
}

}  // namespace reprolab::nf4
