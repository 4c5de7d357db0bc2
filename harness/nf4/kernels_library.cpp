// libreprolab_kernels.so: runs the kernels of this build on a weight, for reprolab/verify.py.
// Answers are JSON; the weight is in memory that the worker process shares with Python.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/provenance.hpp"
#include "harness/selection.hpp"
#include "harness/verifier.hpp"
#include "harness/worker.hpp"
#include "reference/c_weight.hpp"

namespace reprolab::nf4 {
namespace {

using Json = Worker::Json;

constexpr std::chrono::milliseconds turn_limit{20'000};  // of a kernel, on one weight

/// One weight on the GPU, in the worker.
struct Held {
  Held(int number, const std::string& name, const reference::SharedWeight& shared)
      : number(number),
        tensor(tensor_of(name, shared)),
        workload({.name = name,
                  .description = {},
                  .elements = tensor.quantized.n,
                  .element_bytes = 2,
                  .bytes_read = tensor.quantized.codes.size() +
                                sizeof(float) * tensor.quantized.absmax.size(),
                  .bytes_written = 2 * tensor.expected.size()},
                 {tensor}, 1),
        verifier(workload, comparisons, stream.get(), "verify") {}

  static Tensor tensor_of(const std::string& name, const reference::SharedWeight& shared) {
    Tensor tensor{.quantized = shared.weight.tensor(),
                  .expected = shared.expected.vector<std::uint16_t>()};
    tensor.quantized.name = name;
    return tensor;
  }

  int number;
  Tensor tensor;
  profiling::Stream stream;
  Comparisons comparisons{stream.get()};
  Nf4Workload workload;
  Verifier verifier;
};

struct Kernels {
  std::vector<VariantInfo> kernels;
  const reference::SharedWeight* shared;
  std::unique_ptr<Held> held{};  ///< In the worker.
  Worker worker{[this](const Json& request, const Watchdog& dog) { return serve(request, dog); },
                turn_limit};

  /// Runs in the worker: one kernel on one weight.
  Json serve(const Json& request, const Watchdog& watchdog) {
    if (request.at("kernels").empty()) return Json::object();  // it has crashed
    if (!held || held->number != request.at("number")) {
      held.reset();
      held = std::make_unique<Held>(request.at("number"), request.at("name"), *shared);
    }
    const std::string name = request.at("kernels").at(0);
    const auto& kernel = *std::ranges::find(kernels, name, &VariantInfo::name);
    const auto instrument = profiling::make_instrument(profiling::InstrumentKind::none);
    const Verification verdict =
        watchdog.turn(name, [&] { return held->verifier.verify(kernel, *instrument); });
    const bool differs = verdict.outcome == Outcome::mismatch && !verdict.comparison.equal();
    if (differs) {
      std::ranges::copy(held->verifier.actual(), shared->actual.of<std::byte>().data());
    }
    return {{"outcome", reprolab::name(verdict.outcome)},
            {"reason", verdict.reason},
            {"differs", differs}};
  }

  Json verify(const Json& request, const std::string& kernel) {
    const auto answer = worker.ask(request, {kernel});
    if (answer.crashed.empty()) return answer.json;
    const auto& crash = answer.crashed.front();
    return {
        {"outcome", reprolab::name(crash.outcome)}, {"reason", crash.reason}, {"differs", false}};
  }
};

std::optional<Kernels>& opened() {
  static std::optional<Kernels> kernels;
  return kernels;
}

/// The answer of `body`, or {"usage": the line}; valid until the next call.
template <class Body>
const char* answer_of(Body body) {
  static std::string text;
  Json answer;
  try {
    answer = body();
  } catch (const std::exception& error) {
    answer = {{"usage", error.what()}};
  }
  text = answer.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.c_str();
}

}  // namespace
}  // namespace reprolab::nf4

using reprolab::nf4::Json;

/// {"pattern", "peers"} -> {"names": those that a pattern selects, "unavailable": why none can
/// run}. `shared`: where each weight will be.
extern "C" const char* reprolab_kernels_open(const char* request,
                                             const reprolab::reference::SharedWeight* shared) {
  return reprolab::nf4::answer_of([&]() -> Json {
    const auto given = Json::parse(request);
    const std::string pattern = given.at("pattern");
    const std::vector<std::string> peers = given.at("peers");
    auto kernels = reprolab::nf4::load_kernels(pattern, peers);
    if (std::string why; !reprolab::find_machine(&why)) {
      if (pattern.empty() && peers.empty()) return {{"names", Json::array()}, {"unavailable", why}};
      throw reprolab::UsageError("--kernel and --peer need a GPU: " + why);
    }
    const auto names = reprolab::names_of(kernels);
    reprolab::nf4::opened().emplace(std::move(kernels), shared);
    return {{"names", names}, {"unavailable", ""}};
  });
}

/// Runs a kernel on the weight that is in the shared memory -> {"outcome", "reason", "differs":
/// whether the wrong output is there}. `number`: another one for each weight.
extern "C" const char* reprolab_kernels_verify(const char* name, int number, const char* kernel) {
  return reprolab::nf4::answer_of([&] {
    return reprolab::nf4::opened()->verify({{"name", name}, {"number", number}}, kernel);
  });
}
