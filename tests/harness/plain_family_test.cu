// Families of one struct: what their problems are, with the transposes as one of them, and, on a
// GPU, that what a kernel may rely on is there and what it may not do is found.
#include "harness/plain_family.cuh"

#include "kernels/transpose/family.cu"
#include "tests/kernels/register_all.hpp"
#include "tests/kernels/testing.hpp"
#include "tests/refusal.hpp"

namespace reprolab {

/// The problems of a family that an options line selects (planned.cpp: nvcc is slow with CLI11).
std::vector<PlannedProblem> planned(const std::string& name, const std::string& options,
                                    const std::string& data = "");

namespace {

namespace sums {

struct Problem {
  static constexpr const char* family = "sums";
  const std::uint32_t* input = nullptr;
  std::uint32_t* output = nullptr;
  std::int64_t n = 0, step = 0;
  void* workspace = nullptr;
};

/// output[i] = input[i * step] + ... + input[i * step + step - 1]
struct Sums {
  using Problem = sums::Problem;
  std::int64_t n = 0, step = 4;
  int data = 0;

  static const PlainFacts<Sums>& facts() {
    static const PlainFacts<Sums> facts{
        .family = {.name = "sums", .size_option = "--words", .profiled_size = "1000"},
        .element = "sum",
        .numbers = {{{.name = "n", .most = std::int64_t{1} << 36}, &Sums::n},
                    {{.name = "step", .most = 1000, .option = "--step", .help = "", .mark = "/by"},
                     &Sums::step}},
        .usual = {{.n = 8}, {.n = std::int64_t{1} << 33, .step = 2}},
        .data = {"random", "ones"}};
    return facts;
  }
  PlainFields fields() const { return {{"outputs", output_words()}}; }
  std::int64_t input_words() const { return n; }
  std::int64_t output_words() const { return n / step; }
  __host__ __device__ constexpr std::uint32_t input(std::int64_t at, std::uint64_t seed) const {
    const auto place = static_cast<std::uint64_t>(at);
    return data == 0 ? reference::distinct_value_bits(place, seed) : 1;
  }
  void reference(std::span<const std::uint32_t> in, std::span<std::uint32_t> out) const {
    for (std::int64_t i = 0; i < n / step * step; ++i) {
      if (i % step == 0) out[i / step] = 0;
      out[i / step] += in[i];
    }
  }
  Problem problem(const void* in, void* out, void* workspace) const {
    return {static_cast<const std::uint32_t*>(in), static_cast<std::uint32_t*>(out), n, step,
            workspace};
  }
  bool halve() { return (n /= 2) > 500; }
};

PlainFamily<Sums> family;

enum class Fault { none, past_output, past_workspace, trusts_workspace, skips_last, writes_input };

__global__ void add_up(Problem problem, Fault fault) {
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t outputs = problem.n / problem.step;
  if (at >= outputs - (fault == Fault::skips_last)) return;
  std::uint32_t sum = 0;
  for (std::int64_t i = 0; i < problem.step; ++i) sum += problem.input[at * problem.step + i];
  auto* const scratch = static_cast<std::uint32_t*>(problem.workspace);
  if (fault == Fault::trusts_workspace) sum += scratch[at];
  scratch[at] = sum;
  problem.output[at] = sum;
  if (at > 0) return;
  if (fault == Fault::past_output) problem.output[outputs] = 0;
  if (fault == Fault::past_workspace) scratch[outputs] = 0;
  if (fault == Fault::writes_input) const_cast<std::uint32_t*>(problem.input)[0] = 0;
}

/// The output that a launch leaves incomplete, if any.
const void* incomplete_output = nullptr;

int times_asked = 0;  ///< Whether a kernel supports a problem, for which kernels ask the GPU.

template <Fault fault>
cudaError_t launch(const Problem& problem, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(problem.n / problem.step / 256 + 1);
  const bool is_incomplete = problem.output == incomplete_output;
  add_up<<<blocks, 256, 0, stream>>>(problem, is_incomplete ? Fault::skips_last : fault);
  return cudaGetLastError();
}

const RegisterAll<Problem> all({.name = "",
                                .supports =
                                    [](const Problem& problem) {
                                      ++times_asked;
                                      return problem.n < 7 ? Support::no("needs 7 words")
                                                           : Support::yes();
                                    },
                                .launch = {},
                                .workspace_bytes =
                                    [](const Problem& problem) {
                                      return 4 *
                                             static_cast<std::uint64_t>(problem.n / problem.step);
                                    }},
                               {{"sound", launch<Fault::none>},
                                {"past_output", launch<Fault::past_output>},
                                {"past_workspace", launch<Fault::past_workspace>},
                                {"trusts_workspace", launch<Fault::trusts_workspace>},
                                {"skips_last", launch<Fault::skips_last>},
                                {"writes_input", launch<Fault::writes_input>}});

}  // namespace sums

TEST(PlainFamily, StatesItsProblems) {
  const auto usual = planned("sums", "");
  ASSERT_EQ(usual.size(), 2u);
  EXPECT_EQ(usual[0].facts.description, (Description{{"name", "8"},
                                                     {"family", "sums"},
                                                     {"n", 8},
                                                     {"outputs", 2},
                                                     {"data", "random"},
                                                     {"checked_on", "host"}}));
  constexpr std::uint64_t n = std::uint64_t{1} << 33;  // more than 32 bits count
  const PlannedProblem& large = usual[1];
  EXPECT_EQ(large.facts.name, "8589934592/by2");
  EXPECT_EQ(large.facts.description.at("step"), Description::mapped_type(2));
  EXPECT_EQ(large.facts.description.at("outputs"), Description::mapped_type(std::int64_t{n / 2}));
  EXPECT_EQ(large.facts.elements, static_cast<std::int64_t>(n / 2));
  EXPECT_EQ(large.facts.element_bytes, 4);
  EXPECT_EQ(large.facts.bytes_read, 4 * n);
  EXPECT_EQ(large.facts.bytes_written, 2 * n);
  EXPECT_EQ(large.buffer_set_device_bytes, 6 * n + guard_bytes);
  EXPECT_EQ(large.shared_device_bytes(), 6 * (2 * n + guard_bytes)) << "six kernels' workspaces";
  EXPECT_EQ(large.host_bytes, 4 * n + 2 * 2 * n) << "one input, two matrices' outputs";
  EXPECT_TRUE(large.timed);

  const auto few = planned("sums", "--words 6 --words 1003 --step 3", "ones");
  EXPECT_EQ(few.at(0).shared_device_bytes(), 0u) << "no kernel runs it";
  EXPECT_EQ(few[0].supports("sound").reason, std::string("needs 7 words"));
  EXPECT_EQ(few.at(1).facts.name, "1003/by3/ones");
  EXPECT_EQ(few[1].facts.description.at("data"), Description::mapped_type("ones"));
  EXPECT_FALSE(few[1].timed);
  expect_refused<UsageError>([] { planned("sums", "--words 3x4"); }, "--words: expected n");
  expect_refused<UsageError>([] { planned("sums", "--words 68719476737"); },
                             "more than 68719476736");
}

/// The program plans before it starts the worker, and a process that has asked the GPU cannot fork.
TEST(PlainFamily, HalvesWithoutTheGpu) {
  const int before = sums::times_asked;
  EXPECT_EQ(planned("sums", "--words 4000 --halve-to-fit").at(0).facts.name, "4000");
  EXPECT_EQ(sums::times_asked, before);
}

TEST(PlainFamily, DescribesAMismatch) {
  EXPECT_EQ(plain_mismatch("sum", {.mismatches = 3, .first_mismatch = 5}, 16, "5", 1, ~0u),
            "3 of 16 sums differ; first at 5: expected 0x00000001, actual 0xffffffff");
}

/// Place by place, in the input and in its transpose by two loops; gaps between rows.
TEST(Transposes, HoldTheirValuesAtTheirPlacesAndExpectThemTurned) {
  using transpose::Matrix;
  for (const Matrix& matrix : {Matrix{1, 1}, Matrix{1, 7, 2}, Matrix{7, 1, 2}, Matrix{64, 64},
                               Matrix{257, 131, 1}, Matrix{33, 100, 4}, Matrix{33, 100, 4, 1}}) {
    const auto [rows, columns, padding, data] = matrix;
    const std::int64_t in_stride = columns + padding, out_stride = rows + padding;
    std::vector<std::uint32_t> input((rows - 1) * in_stride + columns, ~0u);
    std::vector<std::uint32_t> expected((columns - 1) * out_stride + rows, ~0u);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t column = 0; column < columns; ++column) {
        input[row * in_stride + column] = expected[column * out_stride + row] =
            data == 1 ? 0x3f800000u : reference::distinct_value_bits(row * columns + column, 5);
      }
    }
    EXPECT_EQ(plain_input(matrix, 5), input);
    EXPECT_EQ(plain_output(matrix, input), expected);
    for (std::size_t at = 0; at < expected.size(); ++at) {
      ASSERT_EQ(matrix.output(static_cast<std::int64_t>(at), 5), expected[at]);
    }
  }
}

TEST(Transposes, StateTheirProblems) {
  const auto one = planned("transpose", "--matrix 100x132 --padding 4", "constant").at(0);
  EXPECT_EQ(one.facts.description, (Description{{"name", "100x132+4/constant"},
                                                {"family", "transpose"},
                                                {"n", 13200},
                                                {"rows", 100},
                                                {"columns", 132},
                                                {"padding", 4},
                                                {"in_stride", 136},
                                                {"out_stride", 104},
                                                {"data", "constant"},
                                                {"checked_on", "host"}}));
  constexpr std::uint64_t in = 99 * 136 + 132, out = 131 * 104 + 100;  // words, gaps included
  EXPECT_EQ(one.facts.elements, static_cast<std::int64_t>(out));
  EXPECT_EQ(one.facts.bytes_read, 13200u * 4) << "gaps are not read";
  EXPECT_EQ(one.facts.bytes_written, 13200u * 4) << "gaps are not written";
  EXPECT_EQ(one.buffer_set_device_bytes, 4 * (in + out) + guard_bytes);
  EXPECT_EQ(one.host_bytes, 4 * (in + out)) << "the other matrix is known by position";
  EXPECT_FALSE(one.timed) << "constant data is the post's check, and gets no time";
  const auto large = planned("transpose", "--matrix 65536x65536").at(0);
  EXPECT_EQ(large.facts.description.at("checked_on"), Description::mapped_type("device"));
  EXPECT_EQ(large.host_bytes, 0u);
  EXPECT_EQ(planned("transpose", "").size(), 26u);
}

class OnGpuPlainFamily : public OnGpuTest {};

TEST_F(OnGpuPlainFamily, HasItsDataInEachBufferSetAlsoAfterAnExchange) {
  const sums::Sums problem{.n = 1003, .step = 3};
  PlainWorkload<sums::Sums> workload(problem, 7, 3);
  for (int round = 0; round < 2; ++round) {
    for (int set = 0; set < 3; ++set) {
      const int matrix = (set + round) % 2;
      EXPECT_EQ(workload.matrix_of(set), matrix);
      const auto input = workload.input(set);
      ASSERT_EQ(input.size(), 4 * 1003u);
      std::vector<std::uint32_t> words(1003);
      profiling::check(cudaMemcpy(words.data(), input.data(), input.size(), cudaMemcpyDeviceToHost),
                       "reading an input");
      const auto wanted = plain_input(problem, 7 + static_cast<std::uint64_t>(matrix));
      EXPECT_EQ(words, wanted);
      const auto low = workload.bounds(matrix, "").low;
      const auto expected = plain_output(problem, wanted);
      EXPECT_TRUE(std::ranges::equal(low, std::as_bytes(std::span(expected))));
    }
    workload.exchange();
  }
}

TEST_F(OnGpuPlainFamily, FindsWhatAKernelMayNotDo) {
  const auto verdict = [](const std::string& kernel, const std::string& words) {
    const auto problem = planned("sums", "--words " + words).at(0);
    return Proof().verify(variant_named<sums::Problem>(kernel), *problem.prepare(3, 1));
  };
  for (const std::string words : {"7", "1000", "100003"}) {
    EXPECT_EQ(name(verdict("sound", words).outcome), "bit_exact") << verdict("sound", words).reason;
    EXPECT_EQ(name(verdict("trusts_workspace", words).outcome), "mismatch");
    EXPECT_EQ(verdict("skips_last", words).comparison.mismatches, 1);
    for (const char* kernel : {"past_output", "past_workspace", "writes_input"}) {
      try {
        EXPECT_TRUE(verdict(kernel, words).is_bad()) << kernel;
      } catch (const KernelCrashed&) {
      }
    }
  }
  const auto workload = planned("sums", "--words 1000").at(0).prepare(3, 1);
  VariantInfo sound = variant_named<sums::Problem>("sound");
  sums::incomplete_output = workload->output(2);
  EXPECT_TRUE(begins(Proof().verify(sound, *workload).reason, "copy 2: 1 of 250 sums differ"));
  sums::incomplete_output = nullptr;
  sound.contract.independent_of_batch = true;
  EXPECT_TRUE(contains(Proof().verify(sound, *workload).reason, "independent of the batch"))
      << "a promise that the family does not check";
}

}  // namespace
}  // namespace reprolab
