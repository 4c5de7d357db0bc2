// Ways to move the bytes of a transposition: as much read as written, elsewhere. Every number of
// threads and elements with the requests to the caches that are fast for copies or for a
// dequantization's bytes; and tiles, for buffers that the blocks hold whole at one time.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

template <int Threads, int Elements, class Reads, class Stores, class Layout = Line>
void add_even() {
  add_mixture<Even, Threads, Elements, uint4, 1, Reads, Stores, Layout>();
}

template <int Threads, int Elements>
void add_tiles() {
  for_each_tile([]<class Layout>(Layout) {
    add_even<Threads, Elements, StreamingAccess, StreamingAccess, Layout>();
  });
}

[[maybe_unused]] const bool registered = [] {
  for_each_shape([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_even<Threads, Elements, StreamingAccess, StreamingAccess>();
    add_even<Threads, Elements, KeepReads, PlainAccess>();
    add_even<Threads, Elements, KeepReads, StreamingAccess>();
  });
  add_tiles<64, 4>();
  add_tiles<64, 8>();
  add_tiles<128, 2>();
  add_tiles<128, 4>();
  add_tiles<128, 8>();
  add_tiles<256, 4>();
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
