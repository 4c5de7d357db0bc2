// libreprolab_kernels.so: runs the kernels of this build on a weight, for reprolab/verify.py.
// Requests and answers are JSON; arrays are in memory that the worker process shares with Python.
#include <algorithm>
#include <bit>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/nf4/options.hpp"
#include "harness/nf4/workload.hpp"
#include "harness/provenance.hpp"
#include "harness/selection.hpp"
#include "harness/verifier.hpp"
#include "harness/worker.hpp"

namespace reprolab::nf4 {
namespace {

using Json = Worker::Json;

constexpr std::chrono::milliseconds turn_limit{20'000};  // of a kernel, on one weight

/// One weight on the GPU, in the worker.
struct Held {
  Held(const Json& request, std::byte* memory)
      : number(request.at("number")),
        tensor(tensor_of(request, memory)),
        workload({.name = tensor.quantized.name,
                  .description = {},
                  .elements = tensor.quantized.n,
                  .element_bytes = 2,
                  .bytes_read = tensor.quantized.codes.size() +
                                sizeof(float) * tensor.quantized.absmax.size(),
                  .bytes_written = 2 * tensor.expected.size()},
                 {tensor}, 1),
        verifier(workload, comparisons, stream.get(), "verify") {}

  /// The array of this name, in the shared memory.
  template <class T>
  static std::span<T> array(const Json& request, std::byte* memory, const char* name) {
    const auto& place = request.at("places").at(name);
    return {reinterpret_cast<T*>(memory + place.at(0).get<std::size_t>()), place.at(1)};
  }

  static Tensor tensor_of(const Json& request, std::byte* memory) {
    const auto copied = [&]<class T>(const char* name, T) {
      const auto values = array<T>(request, memory, name);
      return std::vector<T>(values.begin(), values.end());
    };
    const auto& numbers = request.at("numbers");
    Tensor tensor{.quantized = {.name = request.at("name"),
                                .shape = copied("shape", std::int64_t{}),
                                .block_size = numbers.at("block_size"),
                                .type = reference::WeightType{numbers.at("type").get<int>()},
                                .codes = copied("codes", std::uint8_t{})},
                  .expected = copied("expected", std::uint16_t{})};
    auto& quantized = tensor.quantized;
    quantized.n = static_cast<std::int64_t>(tensor.expected.size());
    if (const auto second = copied("absmax2", float{}); second.empty()) {
      quantized.absmax = copied("absmax", float{});
    } else {
      auto& nested = quantized.nested.emplace();
      nested.codes = copied("absmax", std::uint8_t{});
      std::ranges::copy(copied("map", float{}), nested.map.begin());
      nested.absmax = second;
      nested.offset = std::bit_cast<float>(numbers.at("offset").get<std::uint32_t>());
      nested.block_size = numbers.at("block_size2");
      quantized.absmax.resize(nested.codes.size());
      dequantize_scales(nested, quantized.absmax);
    }
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
  std::byte* memory;
  std::unique_ptr<Held> held{};  ///< In the worker.
  Worker worker{[this](const Json& request, const Watchdog& dog) { return serve(request, dog); },
                turn_limit};

  /// Runs in the worker: one kernel on one weight.
  Json serve(const Json& request, const Watchdog& watchdog) {
    if (request.at("kernels").empty()) return Json::object();  // it has crashed
    if (!held || held->number != request.at("number")) {
      held.reset();
      held = std::make_unique<Held>(request, memory);
    }
    const std::string name = request.at("kernels").at(0);
    const auto& kernel = *std::ranges::find(kernels, name, &VariantInfo::name);
    const auto instrument = profiling::make_instrument(profiling::InstrumentKind::none);
    const Verification verdict =
        watchdog.turn(name, [&] { return held->verifier.verify(kernel, *instrument); });
    const bool differs = verdict.outcome == Outcome::mismatch && !verdict.comparison.equal();
    if (differs) {
      const auto place = request.at("places").at("actual").at(0).get<std::size_t>();
      std::ranges::copy(held->verifier.actual(), memory + place);
    }
    return {
        {"outcome", name_of(verdict.outcome)}, {"reason", verdict.reason}, {"differs", differs}};
  }

  static std::string name_of(Outcome outcome) { return std::string(name(outcome)); }

  Json verify(const Json& request, const std::string& kernel) {
    const auto answer = worker.ask(request, {kernel});
    if (answer.crashed.empty()) return answer.json;
    const auto& crash = answer.crashed.front();
    return {{"outcome", name_of(crash.outcome)}, {"reason", crash.reason}, {"differs", false}};
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

struct Memory {
  std::byte* values;
  std::int64_t bytes;
};

/// {"pattern", "peers"} -> {"names": those that a pattern selects, "unavailable": why none can
/// run}.
extern "C" const char* reprolab_kernels_open(const char* request, Memory memory) {
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
    reprolab::nf4::opened().emplace(std::move(kernels), memory.values);
    return {{"names", names}, {"unavailable", ""}};
  });
}

/// A weight as reprolab/verify.py places it -> {"outcome", "reason", "differs": whether the wrong
/// output is in the memory}.
extern "C" const char* reprolab_kernels_verify(const char* request, const char* kernel) {
  return reprolab::nf4::answer_of(
      [&] { return reprolab::nf4::opened()->verify(Json::parse(request), kernel); });
}
