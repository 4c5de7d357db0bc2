// Transpose kernels on the CPU: shapes at the ends of every unit that a kernel counts in, with and
// without padding, and shapes for each of the branches by size.
#include "harness/transpose/matrix.hpp"
#include "kernels/transpose/problem.hpp"
#include "tests/kernels/on_cpu/checks.hpp"

namespace reprolab::on_cpu {
namespace {

using transpose::MatrixSpec;
using transpose::Problem;

/// Elements by which input and output begin past an aligned address.
struct Offsets {
  int input = 0, output = 0;
};

void run(const Kernel<Problem>& kernel, const MatrixSpec& spec, Offsets at, Tally& tally) {
  auto [values, expected] = transpose::make_matrix(spec, 1);
  Placed<std::uint32_t> input(values, at.input), output(expected.size(), at.output);
  const Problem problem{.input = reinterpret_cast<const float*>(input.data()),
                        .output = reinterpret_cast<float*>(output.data()),
                        .rows = spec.rows,
                        .columns = spec.columns,
                        .in_stride = spec.input().stride,
                        .out_stride = spec.output().stride};
  const auto describe = [&](const reference::Comparison& comparison) {
    const auto first = static_cast<std::size_t>(comparison.first_mismatch);
    return describe_mismatch(comparison, spec, expected[first], output.values()[first]);
  };
  check<Problem, std::uint32_t>(
      kernel, problem, output, expected,
      fmt::format("{}, offsets {} and {}", spec.name(), at.input, at.output), describe, tally);
}

constexpr std::int64_t lengths[] = {1,  2,  3,  4,  5,  7,  8,  9,  24, 25,  26,
                                    31, 32, 33, 57, 63, 64, 65, 66, 96, 128, 130};
constexpr Offsets offsets[] = {{}, {1, 3}, {2, 4}, {3, 7}};
constexpr MatrixSpec large[] = {
    {.rows = 420, .columns = 420},   {.rows = 423, .columns = 421},
    {.rows = 1024, .columns = 1028}, {.rows = 1021, .columns = 1031},
    {.rows = 20, .columns = 32768},  {.rows = 36, .columns = 32700, .padding = 68},
    {.rows = 200001, .columns = 3},  {.rows = 3, .columns = 200001},
};

}  // namespace

Tally check_transpose(const std::string& kernel) {
  const auto& checked = kernel_named<Problem>(kernel);
  Tally tally;
  for (const std::int64_t rows : lengths) {
    for (const std::int64_t columns : lengths) {
      for (const std::int64_t padding : {0, 1, 4}) {
        for (const Offsets& at : offsets) {
          run(checked, {.rows = rows, .columns = columns, .padding = padding}, at, tally);
        }
      }
    }
  }
  for (const MatrixSpec& spec : large) run(checked, spec, {}, tally);
  return tally;
}

}  // namespace reprolab::on_cpu
