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

/// The hints, layout and prefetch distance of a form, for its name. They are data, because a
/// template that makes the text for each form compiles longer than all kernels.
struct Rest {
  const char *reads, *stores, *reads_code, *stores_code;
  unsigned width, stride;  ///< Of the layout Tile; 0: Line.
  int ahead_mib;           ///< Prefetches so far ahead; 0: none.
};

constexpr Rest with_layout(Rest rest, Line) { return rest; }
template <unsigned Width, unsigned Stride>
constexpr Rest with_layout(Rest rest, Tile<Width, Stride>) {
  rest.width = Width, rest.stride = Stride;
  return rest;
}

template <class Reads, class Stores, class Layout, int AheadMiB>
constexpr Rest rest_of() {
  return with_layout({Named<Reads>::name, Named<Stores>::name, Named<Reads>::code,
                      Named<Stores>::code, 0, 0, AheadMiB},
                     Layout());
}

inline std::string name_of(const Rest& rest) {
  std::string text = std::string("_") + rest.reads + "_" + rest.stores;
  if (rest.ahead_mib > 0) text += "_ahead" + std::to_string(rest.ahead_mib);
  if (rest.width == 0) return text;
  return text + "_tile" + std::to_string(rest.width) + "of" + std::to_string(rest.stride);
}

inline std::string code_of(const Rest& rest) {
  std::string text = std::string(rest.reads_code) + ", " + rest.stores_code;
  if (rest.width > 0) {
    text += ", Tile<" + std::to_string(rest.width) + ", " + std::to_string(rest.stride) + ">";
  } else if (rest.ahead_mib > 0) {
    text += ", Line, " + std::to_string(rest.ahead_mib) + " << 20";
  }
  return text + ">";
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
template <class Problem>
void add_mixture(int threads, int elements, unsigned width, int loads, int streams,
                 const Rest& rest, cudaError_t (*launch)(const Traffic&, cudaStream_t)) {
  const char* unit = width == 4 ? "std::uint32_t" : width == 8 ? "uint2" : "uint4";
  const auto text = [](auto number) { return std::to_string(number); };
  add<Problem>(std::string(Problem::family) + "_" + text(threads) + "x" + text(elements) + "_load" +
                   text(width) + (streams == 2 ? "_two_streams" : "") + name_of(rest),
               "MixedForm<" + text(threads) + ", " + text(elements) + ", " + unit + ", " +
                   text(loads) + ", " + text(streams) + ", " + code_of(rest),
               launch);
}

template <class Problem, int Threads, int Elements, class Unit, int Streams, class Reads,
          class Stores, class Layout = Line, int AheadMiB = 0>
void add_mixture() {
  constexpr unsigned width = sizeof(Unit);
  // Loads everything at once: for a dequantization 9 bytes for two elements, 8 of them codes.
  constexpr int loads =
      static_cast<int>(ceil_div((Streams == 1 ? Problem::read_of_32 : 8) * Elements, 2 * width));
  add_mixture<Problem>(Threads, Elements, width, loads, Streams,
                       rest_of<Reads, Stores, Layout, AheadMiB>(),
                       launch_mixing<MixedForm<Threads, Elements, Unit, loads, Streams, Reads,
                                               Stores, Layout, AheadMiB << 20>>);
}

}  // namespace reprolab::ceilings
