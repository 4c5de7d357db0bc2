// Forms that move the bytes of a transposition: equally many read and written, at different places.
// Every number of threads and elements with the cache hints that are fast for copies or for a
// dequantization's bytes; and tiles, for buffers that are in flight as a whole.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

template <int Threads, int Elements, class Reads, class Stores, class Layout = Line>
void add_even() {
  add_mixture<Even, Threads, Elements, uint4, 1, Reads, Stores, Layout>();
}

[[maybe_unused]] const bool registered = [] {
  for_each_shape([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_even<Threads, Elements, StreamingAccess, StreamingAccess>();
    add_even<Threads, Elements, KeepReads, PlainAccess>();
    add_even<Threads, Elements, KeepReads, StreamingAccess>();
  });
  Shapes<Shape<64, 4>, Shape<64, 8>, Shape<128, 2>, Shape<128, 4>, Shape<128, 8>, Shape<256, 4>>::
      for_each_tile([]<int Threads, int Elements, class Layout>(Shape<Threads, Elements>, Layout) {
        add_even<Threads, Elements, StreamingAccess, StreamingAccess, Layout>();
      });
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
