// One model's forward pass, replayed: its layers in order, the weights of the whole model resident,
// each dequantization followed by the matrix product that uses it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "experiments/harness/verifier.hpp"
#include "experiments/nf4/layers.hpp"
#include "experiments/nf4/workload.hpp"
#include "experiments/table2/product.hpp"
#include "profiling/activity.hpp"
#include "profiling/event_timer.hpp"
#include "profiling/sm_clock_probe.hpp"

namespace reprolab::table2 {

/// Bytes of device memory that the replay of a model needs beside its resident layers.
std::uint64_t working_bytes(const nf4::Model& model, int largest_batch);
/// Bytes of one layer's quantized weights.
std::uint64_t layer_bytes(const nf4::Model& model);
/// Layers that fit, at most all: fewer are walked round and round.
std::int64_t layers_that_fit(const nf4::Model& model, int largest_batch, std::uint64_t free_bytes);

/// Time of one forward pass, in microseconds of kernels.
struct PassTime {
  double dequantize_us = 0;
  double product_us = 0;
  double sm_mhz = 0;  ///< Right after the pass; 0 when the probe gave up.
};

class Replay {
 public:
  Replay(const nf4::Model& model, int largest_batch, std::uint64_t seed,
         const DeviceComparison& comparison, cudaStream_t stream);

  std::int64_t layers_resident() const { return layers_resident_; }
  std::int64_t weights_resident() const;

  /// Each distinct matrix on the host, then every resident copy on the device.
  Verification verify(const VariantInfo& kernel);
  /// Every resident copy on the device, once more.
  Verification verify_copies(const VariantInfo& kernel);

  /// One forward pass; with a recorder, the time of its kernels, else zeros.
  PassTime pass(const VariantInfo& kernel, int batch, profiling::ActivityRecorder* recorder);

  /// A pass of dequantizations alone by two instruments: one span of events, and CUPTI's kernels
  /// and gaps from the first start to the last end.
  InstrumentCheck check_instruments(const VariantInfo& kernel,
                                    profiling::ActivityRecorder& recorder);

 private:
  /// A distinct matrix: its data, and its proof on the host.
  struct Distinct {
    std::unique_ptr<nf4::Nf4Workload> workload;
    std::unique_ptr<Verifier> verifier;
  };
  /// One resident matrix and the shape it has.
  struct Resident {
    nf4::LayerMatrix matrix;
    nf4::DeviceTensor weights;
  };

  void make_distinct(std::uint64_t seed, const DeviceComparison& comparison);
  void make_resident();
  /// Throws when CUPTI's records do not account for every launch of a pass. A library may take
  /// several kernels for one launch; ours take one.
  void require_all_launches(const std::string& name, bool is_library, std::size_t kernels) const;
  void dequantize(const VariantInfo& kernel, const Resident& resident);
  template <class Body>
  void for_each_launch(Body body);

  const nf4::Model& model_;
  cudaStream_t stream_;
  std::int64_t layers_resident_ = 0;
  std::map<std::int64_t, Distinct> distinct_;  ///< By number of weights.
  std::vector<Resident> resident_;             ///< Layer by layer, in the order of use.
  profiling::DeviceBuffer dequantized_;        ///< Where every matrix is dequantized to, in turn.
  Product product_;
  profiling::EventTimer timer_;
  profiling::SmClockProbe probe_{1};
};

}  // namespace reprolab::table2
