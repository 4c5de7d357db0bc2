#include "harness/programs/replay/replay.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "kernels/cublas_library.hpp"
#include "profiling/basics.hpp"
#include "profiling/nvtx.hpp"
#include "reference/nf4/nf4.hpp"

namespace reprolab::nf4 {
namespace {

constexpr std::uint64_t reserve_bytes = std::uint64_t{1} << 30;  // cuBLAS, CUPTI, fragmentation
constexpr std::string_view of_the_harness = "";                  // no metric's
constexpr int spot_checks = 8;                                   // outputs compared in a pass
/// Allowed difference of the event span of dequantizations from CUPTI's kernels and gaps.
constexpr double instrument_tolerance_percent = 1.0;

TensorSpec with_shape(TensorSpec format, const LayerMatrix& matrix) {
  format.rows = matrix.rows;
  format.columns = matrix.columns;
  return format;
}

std::map<std::int64_t, LayerMatrix> distinct_sizes(const Model& model) {
  std::map<std::int64_t, LayerMatrix> distinct;
  for (const auto& matrix : model.matrices) distinct.emplace(matrix.weights(), matrix);
  return distinct;
}

std::int64_t longest_side(const Model& model) {
  std::int64_t longest = 0;
  for (const auto& matrix : model.matrices) {
    longest = std::max({longest, matrix.rows, matrix.columns});
  }
  return longest;
}

std::uint64_t largest_output_bytes(const Model& model) {
  return 2 * static_cast<std::uint64_t>(distinct_sizes(model).rbegin()->first);
}

CublasGemmEx gemm = nullptr;

/// cuBLAS; loaded on first use, so that a replay also starts without it.
const CublasHandle& cublas() {
  static const CublasHandle instance({{gemm, "cublasGemmEx"}});
  return instance;
}

void check(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string("matrix product: ") + cublas().status_string(status));
}

}  // namespace

Product::Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream)
    : type_(type == reference::WeightType::fp16 ? CUDA_R_16F : CUDA_R_16BF) {
  if (!why_not().empty()) return;
  input_ = profiling::DeviceBuffer(2 * static_cast<std::uint64_t>(batch * longest));
  output_ = profiling::DeviceBuffer(input_.bytes());
  check(cublas().set_stream(cublas().handle, stream));
  // Random activations: with constant ones the GPU draws less power, and runs faster, than with
  // real ones.
  std::vector<std::uint16_t> activations(static_cast<std::size_t>(batch * longest));
  reference::normal_weights(2, 0, type, 1.0f, activations);
  profiling::check(
      cudaMemcpy(input_.data(), activations.data(), input_.bytes(), cudaMemcpyHostToDevice),
      "copying activations to the GPU");
}

std::string Product::why_not() {
  return cublas().why_not.empty() ? "" : "cuBLAS: " + cublas().why_not;
}

void Product::multiply(const void* weights, std::int64_t rows, std::int64_t columns,
                       int batch) const {
  const float one = 1.0f, zero = 0.0f;
  // cuBLAS is column-major: our row-major [rows, columns] is its [columns, rows].
  check(gemm(cublas().handle, CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(rows), batch,
             static_cast<int>(columns), &one, weights, type_, static_cast<int>(columns),
             input_.data(), type_, static_cast<int>(columns), &zero, output_.data(), type_,
             static_cast<int>(rows), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

ProblemFacts pass_facts(const Model& model, const TensorSpec& format, int batch,
                        std::optional<std::int64_t> layers_resident) {
  const std::string name = fmt::format("{}/batch{}/{}", model.id, batch, format.format());
  Description description = {{"name", name},
                             {"family", "nf4"},
                             {"model", model.id},
                             {"batch", batch},
                             {"layers", model.layers},
                             {"launches", model.launches()},
                             {"weights", model.weights()},
                             {"block_size", format.block_size},
                             {"nested", format.nested},
                             {"output", std::string(reference::name(format.output))}};
  if (layers_resident) {
    description["layers_resident"] = *layers_resident;
    description["weights_resident"] = model.weights() / model.layers * *layers_resident;
  }
  return {.name = name,
          .description = std::move(description),
          .elements = model.weights(),
          .element_bytes = 2,
          .bytes_read = layer_bytes(model, format) * static_cast<std::uint64_t>(model.layers),
          .bytes_written = 2 * static_cast<std::uint64_t>(model.weights())};
}

double min_pass_us(const Model& model, const TensorSpec& format, const profiling::Gpu& gpu) {
  if (!gpu.theoretical_bandwidth_gb_s) return 0;
  std::uint64_t bytes = layer_bytes(model, format);
  for (const auto& matrix : model.matrices) {
    const std::uint64_t output = with_shape(format, matrix).bytes_written();
    bytes += output - std::min(output, gpu.l2_bytes);
  }
  bytes *= static_cast<std::uint64_t>(model.layers);
  return 1e-3 * static_cast<double>(bytes) / *gpu.theoretical_bandwidth_gb_s;
}

std::uint64_t working_bytes(const Model& model, const TensorSpec& format, int largest_batch) {
  std::uint64_t bytes = largest_output_bytes(model) + reserve_bytes;
  for (const auto& [weights, matrix] : distinct_sizes(model)) {
    const TensorSpec spec = with_shape(format, matrix);
    // Per distinct matrix: inputs, an output to verify and the reference's output; plus one
    // declared output.
    bytes +=
        distinct_matrices * (spec.bytes_read() + 2 * spec.bytes_written()) + spec.bytes_written();
  }
  return bytes + 4 * static_cast<std::uint64_t>(largest_batch * longest_side(model));
}

std::uint64_t layer_bytes(const Model& model, const TensorSpec& format) {
  std::uint64_t bytes = 0;
  for (const auto& matrix : model.matrices) bytes += with_shape(format, matrix).bytes_read();
  return bytes;
}

std::int64_t layers_that_fit(const Model& model, const TensorSpec& format, int largest_batch,
                             std::uint64_t free_bytes, std::string& why_none) {
  const std::uint64_t working = working_bytes(model, format, largest_batch);
  const std::uint64_t layer = layer_bytes(model, format);
  if (free_bytes < working + layer) {
    why_none = fmt::format(
        "one layer and its outputs take {:.1f} GB of device memory, {:.1f} GB are free",
        1e-9 * static_cast<double>(working + layer), 1e-9 * static_cast<double>(free_bytes));
    return 0;
  }
  return std::min(model.layers, static_cast<std::int64_t>((free_bytes - working) / layer));
}

Support supports_all(const Model& model, const TensorSpec& format, const std::string& kernel) {
  for (const auto& [weights, matrix] : distinct_sizes(model)) {
    const Support support =
        kernel_named<Problem>(kernel).supports(without_memory(with_shape(format, matrix)));
    if (!support.ok) return support;
  }
  return Support::yes();
}

Replay::Replay(const Model& model, const TensorSpec& format, std::int64_t layers, int largest_batch,
               std::uint64_t seed, const std::string& experiment, const Comparisons& comparisons,
               cudaStream_t stream)
    : model_(model),
      format_(format),
      experiment_(experiment),
      comparisons_(comparisons),
      stream_(stream),
      dequantized_(largest_output_bytes(model) + guard_bytes),
      product_(largest_batch, longest_side(model), format.output, stream),
      random_(std::random_device()()) {
  for (const auto& [weights, matrix] : distinct_sizes(model_)) {
    distinct_.try_emplace(weights, model_.id + "." + matrix.name, with_shape(format_, matrix),
                          distinct_matrices, seed, comparisons_, stream_, experiment);
  }
  std::map<std::int64_t, int> copies;  // so far, by number of weights
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (const auto& shape : model_.matrices) {
      const int matrix = copies[shape.weights()]++ % distinct_matrices;
      const auto& original = distinct_.at(shape.weights()).workload.tensor(matrix);
      resident_.push_back({shape, matrix, DeviceTensor(original, stream_)});
    }
  }
  protect_memory();
}

void Replay::exchange_matrices() {
  for (auto& [shape, matrix, weights] : resident_) {
    matrix = (matrix + 1) % distinct_matrices;
    weights.fill(distinct_.at(shape.weights()).workload.tensor(matrix), stream_);
  }
  protect_memory();
}

void Replay::protect_memory() {
  std::vector<ProtectedMemory::Region> regions;
  for (const Resident& resident : resident_) {
    regions.push_back({resident.weights.data(), resident.weights.bytes()});
  }
  auto* const guard = dequantized_.as<std::byte>() + largest_output_bytes(model_);
  profiling::check(cudaMemsetAsync(guard, poison_byte, guard_bytes, stream_), "making a guard");
  regions.push_back({guard, guard_bytes});
  protected_.emplace(regions, stream_);
}

/// The matrix of a pass's launch; the resident layers are used cyclically.
const Replay::Resident& Replay::resident_at(std::int64_t launch) const {
  return resident_[static_cast<std::size_t>(launch) % resident_.size()];
}

void Replay::require_untouched(const VariantInfo& kernel) const {
  protected_->require_unchanged(kernel.name);
  for (const auto& [weights, distinct] : distinct_) distinct.verifier.require_untouched(kernel);
}

void Replay::dequantize(const VariantInfo& kernel, const Resident& resident) {
  require_launched(kernel_named<Problem>(kernel.name)
                       .launch(resident.weights.problem(dequantized_.data()), stream_));
}

Verification Replay::verify(const VariantInfo& kernel, profiling::Instrument& instrument) {
  Verification worst{Outcome::bit_exact};
  for (auto& [weights, distinct] : distinct_) {
    const Verification one = distinct.verifier.verify(kernel, instrument);
    if (!may_be_timed(one.outcome)) return one;
    if (one.outcome == Outcome::deviation_as_declared) worst = one;
  }
  const Verification copies = verify_copies(kernel);
  return copies.outcome == worst.outcome ? worst : copies;
}

Verification Replay::verify_copies(const VariantInfo& kernel) {
  bool deviates = false;
  for (const Resident& resident : resident_) {
    auto& same_size = distinct_.at(resident.shape.weights());
    // A deviation is declared only for matrix 0.
    if (resident.matrix != 0 && !same_size.verifier.compares_all(kernel)) continue;
    profiling::check(cudaMemsetAsync(dequantized_.data(), poison_byte,
                                     with_shape(format_, resident.shape).bytes_written(), stream_),
                     "poisoning an output");
    Verification one = run_or_fail(kernel, comparisons_.state, [&] {
      dequantize(kernel, resident);
      profiling::check(cudaDeviceSynchronize(), kernel.name);
    });
    if (!one.is_bad()) {
      one = same_size.verifier.judge(kernel, resident.matrix, dequantized_.data());
    }
    if (one.is_bad()) {
      one.reason = fmt::format("{}.{}: {}", model_.id, resident.shape.name, one.reason);
      return one;
    }
    deviates = deviates || one.outcome == Outcome::deviation_as_declared;
  }
  require_untouched(kernel);
  return {deviates ? Outcome::deviation_as_declared : Outcome::bit_exact};
}

Sampled Replay::pass(const VariantInfo& kernel, int batch, profiling::Instrument& instrument) {
  const profiling::NvtxRange range(experiment_, kernel.name,
                                   fmt::format("{}.batch{}", model_.id, batch));
  std::set<std::int64_t> compared;
  const bool compares_all = std::ranges::all_of(
      distinct_, [&](const auto& entry) { return entry.second.verifier.compares_all(kernel); });
  while (compares_all &&
         std::ssize(compared) < std::min<std::int64_t>(spot_checks, model_.launches())) {
    compared.insert(static_cast<std::int64_t>(random_() % model_.launches()));
  }
  Sampled sampled;
  sampled.written = run_or_fail(kernel, comparisons_.state, [&] {
    sampled.sample = instrument.measure(
        {.name = kernel.name,
         .calls = static_cast<int>(model_.launches()),
         .enqueue =
             [&](cudaStream_t, const profiling::Call& call) {
               for (std::int64_t launch = 0; launch < model_.launches(); ++launch) {
                 const Resident& resident = resident_at(launch);
                 call(kernel_time, [&] { dequantize(kernel, resident); });
                 if (compared.contains(launch)) {
                   const auto& same_size = distinct_.at(resident.shape.weights());
                   call(of_the_harness, [&] {
                     same_size.verifier.enqueue_comparison(resident.matrix, dequantized_.data());
                   });
                 }
                 if (!Product::why_not().empty()) continue;
                 call(product_time, [&] {
                   product_.multiply(dequantized_.data(), resident.shape.rows,
                                     resident.shape.columns, batch);
                 });
               }
             }},
        stream_);
  });
  const auto comparison = comparisons_.in_order.collect();
  require_untouched(kernel);
  if (sampled.written.is_bad()) return sampled;
  // verify()'s verdict applies to the pass, unless an output of the pass itself is wrong.
  if (!comparison.equal()) {
    sampled.written = {Outcome::mismatch,
                       fmt::format("{} weights differ in the {} outputs that were compared",
                                   comparison.mismatches, compared.size()),
                       comparison};
  }
  sampled.written = with_records(sampled.written, sampled.sample);
  return sampled;
}

nlohmann::ordered_json Replay::check_instruments(const VariantInfo& kernel,
                                                 profiling::Instrument& instrument) {
  const std::int64_t launches =
      std::min<std::int64_t>(model_.launches(), profiling::max_blocked_launches);
  const auto sample = instrument.measure(
      {.name = kernel.name,
       .calls = static_cast<int>(launches),
       .enqueue =
           [&](cudaStream_t, const profiling::Call& call) {
             for (std::int64_t launch = 0; launch < launches; ++launch) {
               call(kernel_time, [&] { dequantize(kernel, resident_at(launch)); });
             }
           },
       .held = true},
      stream_);
  if (!sample.lost.empty()) throw NotMeasured(sample.lost);
  return {{"name", fmt::format("{}/{}: events against activity", model_.id, kernel.name)},
          {"keys", nlohmann::ordered_json::array()},
          {"first", sample.held->us},
          {"second", sample.span_us},
          {"unit", "us"},
          {"allowed_percent", instrument_tolerance_percent}};
}

}  // namespace reprolab::nf4
