// Matrix transpose as a family: the posts' matrix, the sizes of a sweep, or those of the command
// line.
#include "harness/compiled_kernels.hpp"
#include "harness/plain_family.cuh"
#include "kernels/transpose/tma.cuh"
#include "reference/transpose/transpose.hpp"

namespace reprolab::transpose {
namespace {

/// A kernel in PTX, with the variant "fp32". It takes what TmaArguments holds, the maps as 128-byte
/// parameters. Block b of its grid transposes the tile that tma_tile_start (tma.cuh) gives it. Has
/// the contract of its counterpart, with the same tiles and indices; throws where there is none.
void add_ptx_kernel(const PtxKernel& kernel) {
  const auto swizzle = kernel.number("swizzle_bytes") == 0
                           ? CU_TENSOR_MAP_SWIZZLE_NONE
                           : CU_TENSOR_MAP_SWIZZLE_128B;  // both maps
  const auto ptx = std::make_shared<LoadedPtx>(kernel);
  Kernel<Problem> row = described<Problem>(kernel);
  const Kernel<Problem>& counterpart = kernel_named<Problem>(kernel.counterpart);
  row.contract = counterpart.contract;
  row.expected_output = counterpart.expected_output;
  row.supports = [ptx](const Problem& problem) {
    const Support support = tma_support(problem);
    return support.ok ? ptx->supports("fp32") : support;
  };
  row.launch = [ptx, swizzle](const Problem& problem, cudaStream_t stream) {
    const std::int64_t tiles = tma_tiles(problem);
    if (tiles == 0) return cudaSuccess;
    TmaArguments arguments;
    const cudaError_t error = describe(problem, swizzle, arguments);
    return error != cudaSuccess ? error : ptx->launch("fp32", tiles, arguments.pointers(), stream);
  };
  Registry<Problem>::instance().add(std::move(row));
}

struct Matrix {
  using Problem = transpose::Problem;
  static inline const CompiledFamily<Problem> compiled{
      "transpose", {"fp32"}, {{"mojo", "make mojo, with ARCH=90 or newer"}}, add_ptx_kernel};

  std::int64_t rows = 0, columns = 0;
  std::int64_t padding = 0;  ///< Elements between two rows, of input and output.
  int data = 0;

  static const PlainFacts<Matrix>& facts() {
    static const PlainFacts<Matrix> facts = [] {
      constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
      PlainFacts<Matrix> stated{
          .family = {.name = "transpose",
                     .size_option = "--matrix",
                     .profiled_size = "32768x32768"},  // the posts'
          .element = "element",
          .numbers = {{{.name = "rows", .most = most}, &Matrix::rows},
                      {{.name = "columns", .most = most}, &Matrix::columns},
                      {{.name = "padding",
                        .most = 1 << 20,
                        .option = "--padding",
                        .help = "Elements between two rows, of input and output",
                        .mark = "+"},
                       &Matrix::padding}},
          .usual = {},
          // Tiles that the matrix cuts off, with rows that begin anywhere, at multiples of 16
          // bytes, and with room between them; a single row and column.
          .small = {{128, 192},
                    {68, 132},
                    {67, 130},
                    {1, 130},
                    {130, 1},
                    {1, 1},
                    {3, 5},
                    {25, 26},
                    {31, 33},
                    {63, 65},
                    {129, 257},
                    {8, 8, 4},
                    {100, 260, 4},
                    {33, 62, 1},
                    {129, 65, 3},
                    {66, 96, 2},
                    {520, 1028},
                    {515, 1029}},
          .data = {"random", "constant"}};
      // Multiples of the tiles (64), multiples of 4 only, and neither.
      for (const std::int64_t size : {256,   512,   1000,  1023,  1024,  1536,  2020,  2048,  2050,
                                      3072,  4096,  4097,  4100,  6144,  8191,  8192,  10000, 12288,
                                      16383, 16384, 20004, 24576, 32767, 32768, 32772, 65536}) {
        stated.usual.push_back({.rows = size, .columns = size});
      }
      return stated;
    }();
    return facts;
  }

  __host__ __device__ constexpr reference::MatrixShape in() const {
    return {rows, columns, columns + padding};
  }
  __host__ __device__ constexpr reference::MatrixShape out() const {
    return {columns, rows, rows + padding};
  }
  PlainFields fields() const {
    return {{"n", rows * columns}, {"in_stride", in().stride}, {"out_stride", out().stride}};
  }
  std::int64_t input_words() const { return in().elements(); }
  std::int64_t output_words() const { return out().elements(); }
  std::uint64_t read_words() const { return static_cast<std::uint64_t>(rows * columns); }
  std::uint64_t written_words() const { return read_words(); }

  /// Random: each element has its own value. Constant: 1.0, as in the posts' own check.
  __host__ __device__ constexpr std::uint32_t value(std::int64_t row, std::int64_t column,
                                                    std::uint64_t seed) const {
    if (data != 0) return 0x3f800000u;
    return reference::distinct_value_bits(static_cast<std::uint64_t>(row * columns + column), seed);
  }
  /// No kernel may use or change what lies between two rows: the bits that outputs are filled with.
  static constexpr std::uint32_t gap = 0xffffffffu;
  __host__ __device__ constexpr std::uint32_t input(std::int64_t at, std::uint64_t seed) const {
    const std::int64_t row = at / in().stride, column = at % in().stride;
    return column < columns ? value(row, column, seed) : gap;
  }
  __host__ __device__ constexpr std::uint32_t output(std::int64_t at, std::uint64_t seed) const {
    const std::int64_t row = at / out().stride, column = at % out().stride;
    return column < rows ? value(column, row, seed) : gap;
  }
  void reference(std::span<const std::uint32_t> input, std::span<std::uint32_t> output) const {
    reference::transpose(input, in(), output, out().stride);
  }

  std::string place(std::int64_t at) const {
    const std::int64_t row = at / out().stride, column = at % out().stride;
    return "row " + std::to_string(row) + ", column " + std::to_string(column) + " of the output" +
           (column < rows ? "" : ", between two rows");
  }
  /// Not below 1024 rows or columns.
  bool halve() {
    if (std::min(rows, columns) < 2048) return false;
    rows /= 2;
    columns /= 2;
    return true;
  }

  Problem problem(const void* input, void* output, void*) const {
    return {.input = static_cast<const float*>(input),
            .output = static_cast<float*>(output),
            .rows = rows,
            .columns = columns,
            .in_stride = in().stride,
            .out_stride = out().stride};
  }
};

PlainFamily<Matrix> family;

}  // namespace
}  // namespace reprolab::transpose
