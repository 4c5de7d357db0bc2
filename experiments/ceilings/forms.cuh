// Registers a form of the sweep as a kernel whose name contains its template arguments.
#pragma once

#include <string>
#include <type_traits>

#include "experiments/ceilings/traffic.hpp"
#include "kernels/registry.hpp"
#include "profiling/ceiling_kernels.cuh"

namespace reprolab::ceilings {

using namespace profiling::ceilings;

/// A policy of the caches: in a form's name, and in the code.
template <class Policy>
struct Named;
template <>
struct Named<PlainAccess> {
  static constexpr const char *name = "plain", *code = "PlainAccess";
};
template <>
struct Named<StreamingAccess> {
  static constexpr const char *name = "cs", *code = "StreamingAccess";
};
template <>
struct Named<PassL1> {
  static constexpr const char *name = "no_allocate", *code = "PassL1";
};
template <>
struct Named<HintedReads<L2Priority::evict_first>> {
  static constexpr const char *name = "evict_first", *code = "HintedReads<L2Priority::evict_first>";
};
template <>
struct Named<KeepReads> {
  static constexpr const char *name = "evict_last", *code = "KeepReads";
};
template <>
struct Named<EvictFirstStores> {
  static constexpr const char *name = "evict_first", *code = "EvictFirstStores";
};

/// The layout of a block: at the end of a form's name, and in the code.
struct LayoutText {
  std::string name, code;
};
inline LayoutText text_of(Line) { return {"", "Line"}; }
template <unsigned Width, unsigned Stride>
LayoutText text_of(Tile<Width, Stride>) {
  const auto width = std::to_string(Width), stride = std::to_string(Stride);
  return {"_tile" + width + "of" + stride, "Tile<" + width + ", " + stride + ">"};
}

/// The rest of a form after its shape: the cache hints, prefetches `AheadMiB` ahead, and the layout
/// of a block.
template <class Reads, class Stores, class Layout, int AheadMiB>
std::string rest_of_name() {
  return std::string("_") + Named<Reads>::name + "_" + Named<Stores>::name +
         (AheadMiB > 0 ? "_ahead" + std::to_string(AheadMiB) : "") + text_of(Layout()).name;
}

template <class Reads, class Stores, class Layout, int AheadMiB>
std::string rest_of_code() {
  const std::string ahead = AheadMiB > 0 ? ", " + std::to_string(AheadMiB) + " << 20" : "";
  const bool is_default = std::is_same_v<Layout, Line> && AheadMiB == 0;
  return std::string(Named<Reads>::code) + ", " + Named<Stores>::code +
         (is_default ? "" : ", " + text_of(Layout()).code + ahead) + ">";
}

template <int Threads, int Elements>
struct Shape {};

template <class... Each>
struct Shapes {
  /// Calls `use(shape)` for each.
  template <class Use>
  static void for_each(Use use) {
    (use(Each{}), ...);
  }

  /// Calls `use(shape, tile)` for each shape with each tile of the sweep.
  template <class Use>
  static void for_each_tile(Use use) {
    for_each([&](auto shape) {
      use(shape, Tile<64, 2048>());
      use(shape, Tile<64, 4096>());
      use(shape, Tile<128, 2048>());
      use(shape, Tile<128, 4096>());
    });
  }
};

/// Shapes with `Threads` threads and each number of elements.
template <int Threads>
using OfThreads =
    Shapes<Shape<Threads, 1>, Shape<Threads, 2>, Shape<Threads, 4>, Shape<Threads, 8>>;

/// Calls `use(Shape<Threads, Elements>{})` for each number of threads with each of elements.
template <class Use>
void for_each_shape(Use use) {
  OfThreads<64>::for_each(use);
  OfThreads<128>::for_each(use);
  OfThreads<256>::for_each(use);
  OfThreads<512>::for_each(use);
  OfThreads<1024>::for_each(use);
}

template <class Reads, class Stores>
struct Policies {};

/// Calls `use(Policies<Reads, Stores>{})` for each way to read with each way to store.
template <class Use>
void for_each_policy(Use use) {
  const auto with = [&]<class Reads>(Named<Reads>) {
    use(Policies<Reads, PlainAccess>{});
    use(Policies<Reads, StreamingAccess>{});
    use(Policies<Reads, EvictFirstStores>{});
  };
  with(Named<PlainAccess>{});
  with(Named<StreamingAccess>{});
  with(Named<PassL1>{});
  with(Named<HintedReads<L2Priority::evict_first>>{});
  with(Named<KeepReads>{});
}

/// Registers a form once: `code` is its type as written in profiling/ceilings.cu.
template <class Problem>
void add(
    const std::string& name, const std::string& code,
    cudaError_t (*launch)(const Traffic&, cudaStream_t),
    Support (*supports)(const Problem&) = [](const Problem&) { return Support::yes(); }) {
  auto& registry = Registry<Problem>::instance();
  if (registry.kernels().contains(name)) return;
  registry.add({.name = name,
                .lineage = code,
                .source_file = "profiling/ceiling_kernels.cuh",
                .contract = BitExact{},
                .supports = supports,
                .launch = launch,
                .code_files = [](int) -> std::vector<std::string> {
                  return {"experiments/ceilings/" + std::string(Problem::family) + "_forms.cu"};
                }});
}

/// Registers a form of the kernel that reads and writes different bytes.
template <class Problem, int Threads, int Elements, class Unit, int Streams, class Reads,
          class Stores, class Layout = Line, int AheadMiB = 0>
void add_mixture() {
  constexpr unsigned width = sizeof(Unit);
  // Loads everything at once: for a dequantization 9 bytes for two elements, 8 of them codes.
  constexpr int loads =
      static_cast<int>(ceil_div((Streams == 1 ? Problem::read_of_32 : 8) * Elements, 2 * width));
  constexpr const char* unit = width == 4 ? "std::uint32_t" : width == 8 ? "uint2" : "uint4";
  const auto text = [](int number) { return std::to_string(number); };
  add<Problem>(std::string(Problem::family) + "_" + text(Threads) + "x" + text(Elements) + "_load" +
                   text(width) + (Streams == 2 ? "_two_streams" : "") +
                   rest_of_name<Reads, Stores, Layout, AheadMiB>(),
               "MixedForm<" + text(Threads) + ", " + text(Elements) + ", " + unit + ", " +
                   text(loads) + ", " + text(Streams) + ", " +
                   rest_of_code<Reads, Stores, Layout, AheadMiB>(),
               launch_mixing<MixedForm<Threads, Elements, Unit, loads, Streams, Reads, Stores,
                                       Layout, AheadMiB << 20>>);
}

}  // namespace reprolab::ceilings
