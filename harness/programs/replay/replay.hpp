// One model's forward pass, replayed: its layers in order, the weights of the whole model resident
// (or of as many layers as fit), each dequantization followed by the matrix product that uses it.
#pragma once

#include <library_types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "harness/nf4/tensor.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/sampling.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/machine.hpp"

namespace reprolab::nf4 {

/// Facts about a row of a replay: all dequantizations of a model's pass at one batch size, with the
/// number of resident layers if known. `format` has no rows and columns.
ProblemFacts pass_facts(const Model& model, const TensorSpec& format, int batch,
                        std::optional<std::int64_t> layers_resident = {});

/// Minimum time in microseconds of a pass's dequantizations: the bytes that each reads, which are
/// in no cache, and the bytes that it writes beyond L2's size, over the GPU's theoretical
/// bandwidth. 0 if the bandwidth is unknown.
double min_pass_us(const Model& model, const TensorSpec& format, const profiling::Gpu& gpu);

/// Bytes of device memory that the replay of a model needs in addition to its resident layers.
std::uint64_t working_bytes(const Model& model, const TensorSpec& format, int largest_batch);
/// Bytes of one layer's quantized weights.
std::uint64_t layer_bytes(const Model& model, const TensorSpec& format);
/// Number of layers that fit, at most all; zero with the reason in `why_none`. If not all fit, the
/// resident layers are reused cyclically.
std::int64_t layers_that_fit(const Model& model, const TensorSpec& format, int largest_batch,
                             std::uint64_t free_bytes, std::string& why_none);

/// Whether a kernel supports each of a model's matrices.
Support supports_all(const Model& model, const TensorSpec& format, const std::string& kernel);

/// The matrix product that follows a dequantization: activations times transposed weights, by
/// cuBLAS.
class Product {
 public:
  /// Allocates activations of `batch` rows and up to `longest` features in and out. Loads cuBLAS.
  Product(int batch, std::int64_t longest, reference::WeightType type, cudaStream_t stream);

  /// Why products cannot be computed here; passes then contain none. Empty if they can.
  static std::string why_not();

  /// [batch, rows] = [batch, columns] x transposed [rows, columns]; in the type of the weights,
  /// sums in fp32, as torch.nn.functional.linear does it. `weights` is row-major in device memory.
  /// Throws std::runtime_error with cuBLAS's name of the error.
  void multiply(const void* weights, std::int64_t rows, std::int64_t columns, int batch) const;

 private:
  cudaDataType type_;
  profiling::DeviceBuffer input_, output_;
};

class Replay {
 public:
  /// Makes `layers` layers of the model resident on the device.
  Replay(const Model& model, const TensorSpec& format, std::int64_t layers, int largest_batch,
         std::uint64_t seed, const std::string& experiment, const Comparisons& comparisons,
         cudaStream_t stream);

  /// Verifies each distinct matrix on the host, then every resident copy on the device.
  Verification verify(const VariantInfo& kernel, profiling::Instrument& instrument);
  /// Verifies every resident copy on the device again.
  Verification verify_copies(const VariantInfo& kernel);

  /// Copies the other matrix of its size to every layer, so that a kernel that has cached its
  /// result for a pointer is wrong from then on. Must be called after all calls of verify().
  void exchange_matrices();

  /// One forward pass, which is one sample of a row. If the contract is bit-exact, the outputs of
  /// some launches are compared with the reference. A kernel cannot detect which: before each, the
  /// output contains what the previous launch left there.
  Sampled pass(const VariantInfo& kernel, int batch, profiling::Instrument& instrument);

  /// Runs only dequantizations, as many as a held stream's queue takes, and times them with two
  /// instruments: the span between two events, and CUPTI's kernels and gaps from the first start to
  /// the last end. Only for the instrument `activity`. Returns one of the result file's `checks`,
  /// without keys.
  nlohmann::ordered_json check_instruments(const VariantInfo& kernel,
                                           profiling::Instrument& instrument);

  std::optional<double> sm_mhz() { return probe_.mhz(stream_); }

 private:
  /// One resident matrix: its shape, the index of its contents among the matrices of its size, and
  /// its copy.
  struct Resident {
    LayerMatrix shape;
    int matrix = 0;
    DeviceTensor weights;
  };

  void protect_memory();
  const Resident& resident_at(std::int64_t launch) const;
  /// Throws KernelCrashed if memory that no kernel may write has changed.
  void require_untouched(const VariantInfo& kernel) const;
  void dequantize(const VariantInfo& kernel, const Resident& resident);

  const Model& model_;
  TensorSpec format_;
  std::string experiment_;
  const Comparisons& comparisons_;
  cudaStream_t stream_;
  std::map<std::int64_t, VerifiedMatrices> distinct_;  ///< Keyed by number of weights.
  std::vector<Resident> resident_;                     ///< Layer by layer, in the order of use.
  std::optional<ProtectedMemory> protected_;
  profiling::DeviceBuffer dequantized_;  ///< Overwritten by every dequantization.
  Product product_;
  std::mt19937_64 random_;  ///< Chooses which launches are compared; no seed predicts it.
  profiling::SmClockProbe probe_;
};

}  // namespace reprolab::nf4
