#include "experiments/nf4/options.hpp"

#include <fmt/format.h>

#include <chrono>

#include "experiments/harness/errors.hpp"
#include "experiments/harness/worker.hpp"
#include "kernels/nf4/bitsandbytes_peer.hpp"

namespace reprolab::nf4 {

void add_format_options(CLI::App& app, TensorSpec& spec) {
  app.add_option_function<int>(
         "--block-size",
         [&spec](int size) {
           if (!reference::is_block_size(size)) {
             throw UsageError(
                 fmt::format("--block-size: expected a power of two from {} to {}; got {}",
                             reference::min_block_size, reference::max_block_size, size));
           }
           spec.block_size = size;
         },
         "Weights that share a scale")
      ->default_str("64");
  app.add_option_function<std::string>(
         "--output-type",
         [&spec](const std::string& name) {
           spec.output = name == "fp16" ? reference::WeightType::fp16 : reference::WeightType::bf16;
         },
         "fp16 or bf16")
      ->check(CLI::IsMember({"fp16", "bf16"}))
      ->default_str("fp16");
  app.add_flag("--nested", spec.nested, "Double quantization");
}

void add_peer_option(CLI::App& app, std::vector<std::string>& libraries) {
  app.add_option("--peer", libraries, "Also run this libbitsandbytes_cuda*.so (or NAME=path)")
      ->allow_extra_args(false);
}

void load_peers(const std::vector<std::string>& libraries) {
  for (const auto& library : libraries) {
    Worker trial(
        [&](const Worker::Json&, const Turn& turn) -> Worker::Json {
          turn.begin(library);
          try {
            return add_bitsandbytes_peer(library);
          } catch (const std::runtime_error& error) {
            throw UsageError(error.what());
          }
        },
        std::chrono::seconds(60));
    const auto answer = trial.ask({{"name", "a trial"}}, {library});
    for (const auto& [name, reason] : answer.fallen) {
      throw UsageError(
          fmt::format("peer {}: when it was loaded, it {}; leave it out", name, reason));
    }
    add_bitsandbytes_peer(library);
  }
}

}  // namespace reprolab::nf4
