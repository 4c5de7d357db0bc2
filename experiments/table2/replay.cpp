#include "experiments/table2/replay.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "experiments/harness/errors.hpp"
#include "experiments/table2/protocol.hpp"
#include "profiling/nvtx.hpp"

namespace reprolab::table2 {
namespace {

constexpr std::uint64_t reserve_bytes = std::uint64_t{1} << 30;  // cuBLAS, CUPTI, fragments

enum Tag : std::uint64_t { dequantize_tag = 1, product_tag = 2 };

nf4::TensorSpec spec_of(const nf4::LayerMatrix& matrix) {
  return {.rows = matrix.rows, .columns = matrix.columns};
}

std::map<std::int64_t, nf4::LayerMatrix> distinct_sizes(const nf4::Model& model) {
  std::map<std::int64_t, nf4::LayerMatrix> distinct;
  for (const auto& matrix : model.matrices) distinct.emplace(matrix.weights(), matrix);
  return distinct;
}

std::int64_t longest_side(const nf4::Model& model) {
  std::int64_t longest = 0;
  for (const auto& matrix : model.matrices) {
    longest = std::max({longest, matrix.rows, matrix.columns});
  }
  return longest;
}

std::uint64_t largest_output_bytes(const nf4::Model& model) {
  return 2 * static_cast<std::uint64_t>(distinct_sizes(model).rbegin()->first);
}

/// Calls `body`, its launches tagged where there is a recorder.
template <class Body>
void tagged(profiling::ActivityRecorder* recorder, Tag tag, Body body) {
  if (recorder == nullptr) return body();
  const profiling::ScopedTag scope(*recorder, tag);
  body();
}

}  // namespace

std::uint64_t working_bytes(const nf4::Model& model, int largest_batch) {
  std::uint64_t bytes = largest_output_bytes(model) + reserve_bytes;
  for (const auto& [weights, matrix] : distinct_sizes(model)) {
    // Inputs, an output to verify into, the reference's bits, and a declared output's.
    bytes += spec_of(matrix).bytes_read() + 3 * spec_of(matrix).bytes_written();
  }
  return bytes + 4 * static_cast<std::uint64_t>(largest_batch * longest_side(model));
}

std::uint64_t layer_bytes(const nf4::Model& model) {
  std::uint64_t bytes = 0;
  for (const auto& matrix : model.matrices) bytes += spec_of(matrix).bytes_read();
  return bytes;
}

std::int64_t layers_that_fit(const nf4::Model& model, int largest_batch, std::uint64_t free_bytes) {
  const std::uint64_t working = working_bytes(model, largest_batch);
  if (free_bytes < working + layer_bytes(model)) {
    throw UsageError(fmt::format(
        "{}: one layer and its outputs take {:.1f} GB of device memory, {:.1f} GB are free; leave "
        "the model out with --models",
        model.id, 1e-9 * static_cast<double>(working + layer_bytes(model)),
        1e-9 * static_cast<double>(free_bytes)));
  }
  return std::min(model.layers,
                  static_cast<std::int64_t>((free_bytes - working) / layer_bytes(model)));
}

Replay::Replay(const nf4::Model& model, int largest_batch, std::uint64_t seed,
               const DeviceComparison& comparison, cudaStream_t stream)
    : model_(model),
      stream_(stream),
      dequantized_(largest_output_bytes(model)),
      product_(largest_batch, longest_side(model), stream) {
  std::size_t free_bytes = 0, total_bytes = 0;
  profiling::check(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free device memory");
  layers_resident_ = layers_that_fit(model, largest_batch, free_bytes);
  make_distinct(seed, comparison);
  make_resident();
}

void Replay::make_distinct(std::uint64_t seed, const DeviceComparison& comparison) {
  for (const auto& [weights, matrix] : distinct_sizes(model_)) {
    const auto spec = spec_of(matrix);
    const auto facts = nf4::describe_problem(model_.id + "." + matrix.name, spec, {});
    Distinct distinct;
    distinct.workload = std::make_unique<nf4::Nf4Workload>(facts, nf4::make_tensor(spec, seed), 1);
    distinct.verifier = std::make_unique<Verifier>(*distinct.workload, comparison, stream_);
    distinct_.emplace(weights, std::move(distinct));
  }
}

void Replay::make_resident() {
  for (std::int64_t layer = 0; layer < layers_resident_; ++layer) {
    for (const auto& matrix : model_.matrices) {
      const auto& original = distinct_.at(matrix.weights()).workload->input(0);
      resident_.push_back({matrix, nf4::DeviceTensor(original, stream_)});
    }
  }
  profiling::check(cudaStreamSynchronize(stream_), "laying out the model's weights");
}

std::int64_t Replay::weights_resident() const {
  return model_.weights() / model_.layers * layers_resident_;
}

template <class Body>
void Replay::for_each_launch(Body body) {
  for (std::int64_t layer = 0; layer < model_.layers; ++layer) {
    const auto first = static_cast<std::size_t>(layer % layers_resident_) * model_.matrices.size();
    for (std::size_t matrix = 0; matrix < model_.matrices.size(); ++matrix) {
      body(resident_[first + matrix]);
    }
  }
}

void Replay::dequantize(const VariantInfo& kernel, const Resident& resident) {
  profiling::check(kernel_named<nf4::Problem>(kernel.name)
                       .launch(resident.weights.problem(dequantized_.data()), stream_),
                   kernel.name);
}

Verification Replay::verify(const VariantInfo& kernel) {
  Verification worst{Outcome::bit_exact};
  for (auto& [weights, distinct] : distinct_) {
    const Verification one = distinct.verifier->verify(kernel);
    if (!may_be_timed(one.outcome)) return one;
    if (one.outcome == Outcome::deviation_as_declared) worst = one;
  }
  const Verification copies = verify_copies(kernel);
  return copies.outcome == worst.outcome ? worst : copies;
}

Verification Replay::verify_copies(const VariantInfo& kernel) {
  bool deviates = false;
  for (const Resident& resident : resident_) {
    const std::uint64_t bytes = spec_of(resident.matrix).bytes_written();
    profiling::check(cudaMemsetAsync(dequantized_.data(), poison_byte, bytes, stream_),
                     "poisoning an output");
    dequantize(kernel, resident);
    const Verification one = distinct_.at(resident.matrix.weights())
                                 .verifier->judge_on_device(kernel, dequantized_.data());
    if (!may_be_timed(one.outcome)) {
      return {one.outcome, fmt::format("{}.{}: {}", model_.id, resident.matrix.name, one.reason),
              one.found};
    }
    deviates = deviates || one.outcome == Outcome::deviation_as_declared;
  }
  return {deviates ? Outcome::deviation_as_declared : Outcome::bit_exact};
}

PassTime Replay::pass(const VariantInfo& kernel, int batch, profiling::ActivityRecorder* recorder) {
  const profiling::NvtxRange range("table2", kernel.name,
                                   fmt::format("{}.batch{}", model_.id, batch));
  for_each_launch([&](const Resident& resident) {
    tagged(recorder, dequantize_tag, [&] { dequantize(kernel, resident); });
    tagged(recorder, product_tag, [&] {
      product_.multiply(dequantized_.data(), resident.matrix.rows, resident.matrix.columns, batch);
    });
  });
  probe_.enqueue(0, stream_);
  profiling::check(cudaStreamSynchronize(stream_), "a forward pass");
  if (recorder == nullptr) return {};
  auto sums = profiling::sum_by_tag(recorder->flush());
  require_all_launches(kernel.name, kernel.role == Role::peer, sums[dequantize_tag].kernels);
  require_all_launches("the matrix product", true, sums[product_tag].kernels);
  return {sums[dequantize_tag].busy_us, sums[product_tag].busy_us, probe_.mhz(0).value_or(0)};
}

void Replay::require_all_launches(const std::string& name, bool is_library,
                                  std::size_t kernels) const {
  const auto launches = static_cast<std::size_t>(model_.launches());
  if (is_library ? kernels >= launches : kernels == launches) return;
  throw std::runtime_error(fmt::format(
      "{}: CUPTI recorded {} kernels of {} launches of {}; a time without the rest would be worth "
      "nothing, so run again",
      model_.id, kernels, launches, name));
}

InstrumentCheck Replay::check_instruments(const VariantInfo& kernel,
                                          profiling::ActivityRecorder& recorder) {
  const auto time = timer_.time(
      [&](cudaStream_t) {
        for_each_launch([&](const Resident& resident) {
          tagged(&recorder, dequantize_tag, [&] { dequantize(kernel, resident); });
        });
      },
      stream_);
  auto sums = profiling::sum_by_tag(recorder.flush());
  require_all_launches(kernel.name, kernel.role == Role::peer, sums[dequantize_tag].kernels);
  if (!time.host_ahead) {
    throw std::runtime_error(kernel.name + ": the GPU overtook the host in the instruments' check");
  }
  return {.name = fmt::format("{}/{}: events against activity", model_.id, kernel.name),
          .first = time.us,
          .second = sums[dequantize_tag].span_us,
          .unit = "us",
          .allowed_percent = instrument_tolerance_percent};
}

}  // namespace reprolab::table2
