// Forms that move the bytes of a dequantization: every number of threads and elements with every
// width of loads, from one stream and from two, with the cache hints that were fastest in an
// earlier sweep; every cache hint, also with prefetches, on the shapes that were fastest in it; and
// tiles, for buffers that are in flight as a whole.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

template <int Threads, int Elements, class Unit, int Streams, class Reads, class Stores,
          class Layout = Line, int AheadMiB = 0>
void add_mixed() {
  add_mixture<Mixed, Threads, Elements, Unit, Streams, Reads, Stores, Layout, AheadMiB>();
}

template <class Unit>
void add_shapes() {
  for_each_shape([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_mixed<Threads, Elements, Unit, 1, KeepReads, StreamingAccess>();
    add_mixed<Threads, Elements, Unit, 2, KeepReads, StreamingAccess>();
    if constexpr (Elements >= 4) {
      // Also for small buffers, whose time depends less on L2's policy than on how soon a thread
      // starts to load.
      add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess>();
      add_mixed<Threads, Elements, Unit, 2, StreamingAccess, StreamingAccess>();
    }
  });
}

template <int Threads, int Elements, class Unit, int Streams>
void add_policies() {
  for_each_policy([]<class Reads, class Stores>(Policies<Reads, Stores>) {
    add_mixed<Threads, Elements, Unit, Streams, Reads, Stores>();
  });
}

template <class Unit, class SomeShapes>
void add_tiles(SomeShapes) {
  SomeShapes::for_each_tile(
      []<int Threads, int Elements, class Layout>(Shape<Threads, Elements>, Layout) {
        add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess, Layout>();
      });
}

template <class Unit>
void add_reading_ahead() {
  Shapes<Shape<512, 1>, Shape<1024, 1>, Shape<512, 2>, Shape<1024, 2>, Shape<256, 4>,
         Shape<128, 8>>::for_each([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_mixed<Threads, Elements, Unit, 1, StreamingAccess, StreamingAccess, Line, 2>();
    add_mixed<Threads, Elements, Unit, 2, StreamingAccess, StreamingAccess, Line, 2>();
    add_mixed<Threads, Elements, Unit, 1, KeepReads, StreamingAccess, Line, 2>();
    add_mixed<Threads, Elements, Unit, 2, KeepReads, StreamingAccess, Line, 2>();
  });
}

[[maybe_unused]] const bool registered = [] {
  add_shapes<std::uint32_t>();
  add_shapes<uint2>();
  add_shapes<uint4>();
  add_policies<256, 2, std::uint32_t, 2>();
  add_policies<512, 2, std::uint32_t, 2>();
  add_policies<512, 2, uint4, 1>();
  add_policies<256, 1, uint4, 1>();
  add_tiles<uint2>(
      Shapes<Shape<64, 4>, Shape<64, 8>, Shape<128, 4>, Shape<128, 8>, Shape<256, 4>>());
  add_tiles<uint4>(Shapes<Shape<64, 8>, Shape<128, 8>>());
  add_reading_ahead<std::uint32_t>();
  add_reading_ahead<uint2>();
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
