// Command-line options that the NF4 programs share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/compiled_kernels.hpp"
#include "harness/facts.hpp"
#include "harness/nf4/tensor.hpp"
#include "kernels/nf4/loaded_kernels.hpp"

namespace CLI {
class App;
}

namespace reprolab::nf4 {

/// The kernels compiled by `make mojo` and `make triton`.
extern const CompiledFamily<Problem> compiled_kernels;

/// The lists that the format options give; every combination is measured.
struct Formats {
  std::vector<int> block_sizes{64};
  std::vector<reference::WeightType> outputs{reference::WeightType::fp16};
  std::vector<int> offsets{0};
  bool nested = false;

  /// Specs without shapes and data; block sizes change slowest and offsets fastest.
  std::vector<TensorSpec> combinations() const;
};

/// Adds --peer, repeatable.
void add_peer_option(CLI::App& app, std::vector<std::string>& libraries);

/// The matrices that the command line selects, for all families of NF4 matrices.
struct MatrixOptions {
  std::vector<std::string> models{}, shapes{}, peers{};
  Formats formats{};

  struct Matrix {
    TensorSpec spec;
    std::vector<std::string> used_by;  ///< The layers that have its shape.
  };

  /// The matrices of `shapes`, or else the distinct ones of the models, each in every format.
  /// Throws UsageError.
  std::vector<Matrix> wanted() const;
};

/// The options that add_matrix_options() fills from the command line.
MatrixOptions& matrix_options();

/// Adds --models, --shape, --peer, --block-size, --output-type and --nested to `app`, unless
/// another family has.
void add_matrix_options(CLI::App& app);

using AddPeer = std::function<void(const std::string& library)>;

/// Calls `add`, which registers a family's kernels of a library, for each library (a path or
/// NAME=path). Throws UsageError.
void load_peers(const std::vector<std::string>& libraries,
                const AddPeer& add = add_bitsandbytes_peer);

/// Selects by `pattern` among the family's own kernels, the kernels compiled from other languages,
/// and those of `peers`. Throws UsageError.
std::vector<VariantInfo> load_kernels(const std::string& pattern,
                                      const std::vector<std::string>& peers);

}  // namespace reprolab::nf4
