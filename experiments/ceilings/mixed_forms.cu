// Ways to read and to write other places. Of the bytes of a dequantization: every number of threads
// and elements with every width of loads, from one stream and from two, with the requests to the
// caches that an earlier sweep found fastest; every request on the shapes that it found fastest,
// reading ahead too; and tiles, for buffers that the blocks hold whole at one time. Of as many
// bytes read as written: what is fast there or where they are copied.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

template <class Problem, int Threads, int Elements, class Unit, int Streams, class Reads,
          class Stores, class Layout = Line, int AheadMiB = 0>
void add_mixture() {
  constexpr unsigned width = sizeof(Unit);
  // At once, so that there is nothing left to load: of a dequantization 9 bytes for two elements, 8
  // of them codes.
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

template <int Threads, int Elements, class Unit, int Streams, class Reads, class Stores,
          class Layout = Line, int AheadMiB = 0>
void add_mixed() {
  add_mixture<Mixed, Threads, Elements, Unit, Streams, Reads, Stores, Layout, AheadMiB>();
}

template <int Threads, int Elements, class Unit>
void add_shape() {
  add_mixed<Threads, Elements, Unit, 1, KeepReads, StreamingAccess>();
  add_mixed<Threads, Elements, Unit, 2, KeepReads, StreamingAccess>();
}

/// For small buffers, too, where what L2 keeps matters less than how soon a thread begins to load.
template <int Threads, int Elements, class Unit>
void add_large_shape() {
  add_shape<Threads, Elements, Unit>();
  add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess>();
  add_mixed<Threads, Elements, Unit, 2, StreamingAccess, StreamingAccess>();
}

template <class Unit, int... Threads>
void add_shapes() {
  (add_shape<Threads, 1, Unit>(), ...);
  (add_shape<Threads, 2, Unit>(), ...);
  (add_large_shape<Threads, 4, Unit>(), ...);
  (add_large_shape<Threads, 8, Unit>(), ...);
}

template <int Threads, int Elements, class Unit, int Streams>
void add_policies() {
  for_each_policy([]<class Reads, class Stores>(Policies<Reads, Stores>) {
    add_mixed<Threads, Elements, Unit, Streams, Reads, Stores>();
  });
}

template <int Threads, int Elements, class Unit>
void add_tiles() {
  for_each_tile([]<class Layout>(Layout) {
    add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess, Layout>();
  });
}

template <int Threads, int Elements, class Unit>
void add_reading_ahead() {
  add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess, Line, 2>();
  add_mixed<Threads, Elements, Unit, 2, StreamingAccess, StreamingAccess, Line, 2>();
  add_mixed<Threads, Elements, Unit, 1, KeepReads, StreamingAccess, Line, 2>();
  add_mixed<Threads, Elements, Unit, 2, KeepReads, StreamingAccess, Line, 2>();
}

template <class Unit>
void add_all_reading_ahead() {
  add_reading_ahead<512, 1, Unit>();
  add_reading_ahead<1024, 1, Unit>();
  add_reading_ahead<512, 2, Unit>();
  add_reading_ahead<1024, 2, Unit>();
  add_reading_ahead<256, 4, Unit>();
  add_reading_ahead<128, 8, Unit>();
}

template <int Threads, int Elements, class Reads, class Stores, class Layout = Line>
void add_even() {
  add_mixture<Even, Threads, Elements, uint4, 1, Reads, Stores, Layout>();
}

template <int... Threads>
void add_even_shapes() {
  const auto each = []<int Elements>(std::integral_constant<int, Elements>) {
    (add_even<Threads, Elements, StreamingAccess, StreamingAccess>(), ...);
    (add_even<Threads, Elements, KeepReads, PlainAccess>(), ...);
    (add_even<Threads, Elements, KeepReads, StreamingAccess>(), ...);
  };
  each(std::integral_constant<int, 1>());
  each(std::integral_constant<int, 2>());
  each(std::integral_constant<int, 4>());
  each(std::integral_constant<int, 8>());
}

template <int Threads, int Elements>
void add_even_tiles() {
  for_each_tile([]<class Layout>(Layout) {
    add_even<Threads, Elements, StreamingAccess, StreamingAccess, Layout>();
  });
}

[[maybe_unused]] const bool registered = [] {
  add_shapes<std::uint32_t, 64, 128, 256, 512, 1024>();
  add_shapes<uint2, 64, 128, 256, 512, 1024>();
  add_shapes<uint4, 64, 128, 256, 512, 1024>();
  add_policies<256, 2, std::uint32_t, 2>();
  add_policies<512, 2, std::uint32_t, 2>();
  add_policies<512, 2, uint4, 1>();
  add_policies<256, 1, uint4, 1>();
  add_tiles<64, 4, uint2>();
  add_tiles<64, 8, uint2>();
  add_tiles<128, 4, uint2>();
  add_tiles<128, 8, uint2>();
  add_tiles<256, 4, uint2>();
  add_tiles<64, 8, uint4>();
  add_tiles<128, 8, uint4>();
  add_all_reading_ahead<std::uint32_t>();
  add_all_reading_ahead<uint2>();
  add_even_shapes<64, 128, 256, 512, 1024>();
  add_even_tiles<64, 4>();
  add_even_tiles<64, 8>();
  add_even_tiles<128, 2>();
  add_even_tiles<128, 4>();
  add_even_tiles<128, 8>();
  add_even_tiles<256, 4>();
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
