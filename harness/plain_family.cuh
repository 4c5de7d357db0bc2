// A family whose input and output are arrays of 32-bit words. One struct of
// kernels/<family>/family.cu states a problem's sizes, data, reference and bytes; buffers, guards,
// workspaces, options, plan and description are here, for all such families.
//
//   struct Sum {                        // one problem, copied to the device as it is
//     using Problem = reduction::Problem;
//     std::int64_t n = 0;
//     int data = 0;                     // index into facts().data
//
//     static const PlainFacts<Sum>& facts();
//     std::int64_t input_words() const;
//     std::int64_t output_words() const;
//     __host__ __device__ constexpr std::uint32_t input(std::int64_t at, std::uint64_t seed) const;
//     void reference(std::span<const std::uint32_t> input, std::span<std::uint32_t> output) const;
//     Problem problem(const void* input, void* output, void* workspace) const;
//   };
//   PlainFamily<Sum> family;
//
// The reference finds `output` filled with the bytes that a launch finds there; words that it
// leaves may not be written. The struct may also have
//   __host__ __device__ constexpr std::uint32_t output(std::int64_t at, std::uint64_t seed) const
//                                       the output by position: all but the first matrix, and
//                                       arrays above max_on_host words, are checked by it on the
//                                       GPU
//   PlainFields fields() const          of a record, besides its numbers
//   std::uint64_t read_words() const, written_words() const     if launches move fewer than all
//   std::string place(std::int64_t at) const                    of an output's word, for messages
//   bool halve()                        makes the problem smaller, if it can: --halve-to-fit
//   static const CompiledFamily<Problem> compiled    kernels of `make mojo`, added at run time
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/device_checks.hpp"
#include "harness/family.hpp"
#include "harness/plain_family.hpp"

namespace reprolab {

using PlainFields = std::vector<std::pair<std::string, std::int64_t>>;

template <class F>
struct PlainNumber : PlainOption {
  std::int64_t F::*member = nullptr;
};

template <class F>
struct PlainFacts {
  FamilyFacts family;
  std::string element;                  ///< An element of the output, in messages: "sum".
  std::vector<PlainNumber<F>> numbers;  ///< Those of the size come first.
  std::vector<F> usual;                 ///< The problems without the size option.
  std::vector<F> small;                 ///< Family::small(); each is made with all data.
  std::vector<std::string> data;        ///< The first is timed, the others are only verified.
};

/// 8 GiB of words: the host holds up to four arrays of that size.
inline constexpr std::int64_t max_on_host = std::int64_t{1} << 31;

template <class F>
concept HasOutputByPosition = requires(const F& f) {
  f.output(std::int64_t{}, std::uint64_t{});
};

template <class F>
bool plain_fits_host(const F& f) {
  return !HasOutputByPosition<F> || f.output_words() <= max_on_host;
}

template <class F>
constexpr std::uint64_t read_words(const F& f) {
  if constexpr (requires { f.read_words(); }) return f.read_words();
  return static_cast<std::uint64_t>(f.input_words());
}

template <class F>
constexpr std::uint64_t written_words(const F& f) {
  if constexpr (requires { f.written_words(); }) return f.written_words();
  return static_cast<std::uint64_t>(f.output_words());
}

/// The input of a problem on the host.
template <class F>
std::vector<std::uint32_t> plain_input(const F& f, std::uint64_t seed) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(f.input_words()));
  reference::parallel_for(f.input_words(), 1 << 18, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) words[at] = f.input(at, seed);
  });
  return words;
}

/// The output of the reference.
template <class F>
std::vector<std::uint32_t> plain_output(const F& f, std::span<const std::uint32_t> input) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(f.output_words()),
                                   poison_byte * 0x01010101u);
  f.reference(input, words);
  return words;
}

template <class F>
std::vector<PlainOption> plain_options() {
  std::vector<PlainOption> options;
  for (const auto& number : F::facts().numbers) {
    options.push_back(number);
    options.back().usual = F{}.*number.member;
  }
  return options;
}

template <class F>
ProblemFacts plain_facts(const F& f) {
  const auto& all = F::facts();
  const std::vector<PlainOption> numbers = plain_options<F>();
  std::vector<std::int64_t> values;
  for (const auto& number : all.numbers) values.push_back(f.*number.member);
  const std::string& data = all.data.at(static_cast<std::size_t>(f.data));
  const std::string name = plain_name(numbers, values, f.data == 0 ? "" : data);
  Description description = {{"name", name},
                             {"family", all.family.name},
                             {"data", data},
                             {"checked_on", plain_fits_host(f) ? "host" : "device"}};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].option.empty() || values[i] != numbers[i].usual) {
      description[numbers[i].name] = values[i];
    }
  }
  if constexpr (requires { f.fields(); }) {
    for (const auto& [field, value] : f.fields()) description[field] = value;
  }
  return {.name = name,
          .description = std::move(description),
          .elements = f.output_words(),
          .element_bytes = 4,
          .bytes_read = 4 * read_words(f),
          .bytes_written = 4 * written_words(f)};
}

template <class F, bool of_output>
__global__ void fill_words(F f, std::uint32_t* words, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; at < count; at += step) {
    if constexpr (of_output) {
      words[at] = f.output(at, seed);
    } else {
      words[at] = f.input(at, seed);
    }
  }
}

/// Enqueues filling device memory with a problem's input or output.
template <bool of_output, class F>
void plain_fill(const F& f, void* words, std::uint64_t seed, cudaStream_t stream) {
  const std::int64_t count = of_output ? f.output_words() : f.input_words();
  if (count == 0) return;
  constexpr unsigned blocks = 8192;  // more than enough to fill any GPU
  fill_words<F, of_output>
      <<<blocks, 256, 0, stream>>>(f, static_cast<std::uint32_t*>(words), count, seed);
  profiling::check(cudaGetLastError(), "filling an array");
}

template <class F>
class PlainWorkload : public FamilyWorkload<typename F::Problem> {
  using Problem = typename F::Problem;
  using Words = std::vector<std::uint32_t>;

 public:
  /// Fills `buffer_sets` inputs on the device, each different matrix from its own seed.
  PlainWorkload(const F& f, std::uint64_t seed, int buffer_sets)
      : FamilyWorkload<Problem>(plain_facts(f)), f_(f), seed_(seed) {
    for (int i = 0; i < buffer_sets; ++i) {
      inputs_.emplace_back(4 * static_cast<std::uint64_t>(f.input_words()));
      this->add_output();
    }
    const int on_host = !plain_fits_host(f) ? 0 : HasOutputByPosition<F> ? 1 : this->matrices();
    for (int matrix = 0; matrix < on_host; ++matrix) {
      Words input = plain_input(f, seed_of(matrix));
      expected_.push_back(plain_output(f, input));
      if (matrix == 0 && declares_deviations()) host_input_ = std::move(input);
    }
    this->make_workspaces();
    fill_inputs();
  }

  Problem problem(const std::string& kernel, int buffer_set) const override {
    return f_.problem(inputs_[static_cast<std::size_t>(buffer_set)].data(),
                      this->output(buffer_set), this->workspace(kernel));
  }
  std::span<const std::byte> input(int buffer_set) const override {
    const auto& buffer = inputs_[static_cast<std::size_t>(buffer_set)];
    return {buffer.as<std::byte>(), buffer.bytes()};
  }
  Bounds bounds(int matrix, const std::string&) const override {
    if (matrix >= std::ssize(expected_)) return {};
    const auto bytes = std::as_bytes(std::span(expected_[static_cast<std::size_t>(matrix)]));
    return {bytes, bytes};
  }
  void write_expected(int matrix, void* to, cudaStream_t stream) const override {
    if constexpr (HasOutputByPosition<F>) {
      if (matrix >= std::ssize(expected_)) return plain_fill<true>(f_, to, seed_of(matrix), stream);
    }
    Workload::write_expected(matrix, to, stream);
  }
  std::string describe(int, const reference::Comparison& comparison, std::uint32_t expected,
                       std::uint32_t actual) const override {
    std::string place = std::to_string(comparison.first_mismatch);
    if constexpr (requires { f_.place(0); }) place = f_.place(comparison.first_mismatch);
    return plain_mismatch(F::facts().element, comparison, written_words(f_), place, expected,
                          actual);
  }

 private:
  static bool declares_deviations() {
    return std::ranges::any_of(Registry<Problem>::instance().kernels(),
                               [](const auto& named) { return named.second.contract.deviates(); });
  }
  std::uint64_t seed_of(int matrix) const { return seed_ + static_cast<std::uint64_t>(matrix); }
  void fill_inputs() override {
    for (int i = 0; i < this->buffer_sets(); ++i) {
      plain_fill<false>(f_, inputs_[static_cast<std::size_t>(i)].data(),
                        seed_of(this->matrix_of(i)), nullptr);
    }
    profiling::check(cudaDeviceSynchronize(), "filling the inputs");
  }
  Problem problem_on_host(void* output) const override {
    return f_.problem(host_input_.data(), output, nullptr);
  }

  F f_;
  std::uint64_t seed_;
  std::vector<Words> expected_;  ///< Of the matrices that the reference computes on the host.
  Words host_input_;             ///< Of matrix 0, if a kernel declares a deviation.
  std::vector<profiling::DeviceBuffer> inputs_;
};

template <class F>
PlannedProblem plain_plan(const F& f) {
  const auto input = 4 * static_cast<std::uint64_t>(f.input_words());
  const auto output = 4 * static_cast<std::uint64_t>(f.output_words());
  const auto supports = [f](const std::string& kernel) {
    return kernel_named<typename F::Problem>(kernel).supports(f.problem(nullptr, nullptr, nullptr));
  };
  return {
      .facts = plain_facts(f),
      .buffer_set_device_bytes = input + output + guard_bytes,
      .shared_device_bytes =
          [f, supports] { return workspace_bytes(f.problem(nullptr, nullptr, nullptr), supports); },
      .host_bytes = !plain_fits_host(f)      ? 0
                    : HasOutputByPosition<F> ? input + output
                                             : input + distinct_matrices * output,
      .timed = f.data == 0,
      .supports = supports,
      .prepare = [f](int buffer_sets, std::uint64_t seed) -> std::unique_ptr<Workload> {
        return std::make_unique<PlainWorkload<F>>(f, seed, buffer_sets);
      }};
}

template <class F>
class PlainFamily : public Family {
 public:
  PlainFamily() : Family(F::facts().family) {}

  void add_options(CLI::App& app) override {
    selection_.add_options(
        app, facts(), plain_options<F>(), requires(F f) { f.halve(); });
  }
  void configure() override {
    if constexpr (requires { F::compiled; }) F::compiled.load();
    const auto& numbers = F::facts().numbers;
    asked_ = is_selected() ? std::vector<F>{} : F::facts().usual;
    for (const auto& size : selection_.sizes()) {
      F& f = asked_.emplace_back();
      for (std::size_t i = 0; i < size.size(); ++i) f.*numbers[i].member = size[i];
    }
    const auto& others = selection_.others();
    for (F& f : asked_) {
      for (std::size_t i = 0; i < others.size(); ++i) {
        const auto member = numbers[numbers.size() - others.size() + i].member;
        f.*member = others[i].value_or(f.*member);
      }
    }
  }
  bool is_selected() const override { return selection_.is_selected(); }
  std::vector<VariantInfo> kernels() const override {
    return registered_variants<typename F::Problem>();
  }
  std::vector<std::string> absent() const override {
    if constexpr (requires { F::compiled; }) return F::compiled.languages_not_built();
    return {};
  }
  std::vector<std::string> data() const override { return F::facts().data; }

  std::vector<PlannedProblem> small() const override {
    return planned(F::facts().small, data(), {});
  }
  std::vector<PlannedProblem> problems(const FreeMemory& free,
                                       const std::vector<std::string>& data) const override {
    return planned(asked_, data, selection_.halve() ? std::optional(free) : std::nullopt);
  }

 private:
  /// Each with each of `data`; halved until it fits in `free`, if that is given.
  static std::vector<PlannedProblem> planned(const std::vector<F>& problems,
                                             const std::vector<std::string>& data,
                                             const std::optional<FreeMemory>& free) {
    std::vector<PlannedProblem> planned;
    for (F f : problems) {
      if constexpr (requires { f.halve(); }) {
        const auto fits = [&] {
          PlannedProblem plan = plain_plan(f);
          plan.shared_device_bytes = nullptr;  // asks the GPU, which only a worker may
          return buffer_sets_for(plan, {}, *free).count > 0;
        };
        while (free && !fits() && f.halve()) {
        }
      }
      for (const auto& name : data) {
        const auto& names = F::facts().data;
        f.data = static_cast<int>(std::ranges::find(names, name) - names.begin());
        planned.push_back(plain_plan(f));
      }
    }
    return planned;
  }

  PlainSelection selection_;
  std::vector<F> asked_;
};

}  // namespace reprolab
