// Forms of a copy: every number of threads and elements with the cache hints that were fastest in
// an earlier sweep; every cache hint, also with prefetches, on the shapes that were fastest in it;
// tiles, for buffers that are in flight as a whole; and bulk copies.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

using Launch = cudaError_t (*)(const Traffic&, cudaStream_t);

void add_copy(int threads, int elements, const Rest& rest, Launch launch) {
  const std::string threads_text = std::to_string(threads),
                    elements_text = std::to_string(elements);
  add<Copy>("copy_" + threads_text + "x" + elements_text + name_of(rest),
            "CopyForm<" + threads_text + ", " + elements_text + ", " + code_of(rest), launch);
}

template <int Threads, int Elements, class Reads, class Stores, class Layout = Line,
          int AheadMiB = 0>
void add_copy() {
  add_copy(Threads, Elements, rest_of<Reads, Stores, Layout, AheadMiB>(),
           launch_copying<CopyForm<Threads, Elements, Reads, Stores, Layout, AheadMiB << 20>>);
}

Support supports_bulk_copies(const Copy&) {
  int device = 0, major = 0;
  const bool known =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  cudaFuncAttributes compiled{};
  if (known && major >= 9 &&
      cudaFuncGetAttributes(&compiled, bulk_copying<BulkForm<4096, false, false>>) == cudaSuccess &&
      compiled.ptxVersion >= 90) {
    return Support::yes();
  }
  cudaGetLastError();
  return Support::no("needs bulk copies: compute capability 9.0 or newer, and a build for it");
}

void add_bulk(int bytes, bool keep, bool drop, Launch launch) {
  add<Copy>("bulk_" + std::to_string(bytes / 1024) + "k_" + (keep ? "evict_last" : "plain") + "_" +
                (drop ? "evict_first" : "plain"),
            "BulkForm<" + std::to_string(bytes) + ", " + (keep ? "true" : "false") + ", " +
                (drop ? "true" : "false") + ">",
            launch, supports_bulk_copies);
}

template <int Bytes, bool Keep, bool Drop>
void add_bulk() {
  add_bulk(Bytes, Keep, Drop, launch_bulk_copying<BulkForm<Bytes, Keep, Drop>>);
}

template <int... KiB>
void add_bulks() {
  (add_bulk<1024 * KiB, false, false>(), ...);
  (add_bulk<1024 * KiB, true, false>(), ...);
  (add_bulk<1024 * KiB, false, true>(), ...);
  (add_bulk<1024 * KiB, true, true>(), ...);
}

[[maybe_unused]] const bool registered = [] {
  for_each_shape([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_copy<Threads, Elements, PlainAccess, PlainAccess>();
    add_copy<Threads, Elements, KeepReads, PlainAccess>();
    add_copy<Threads, Elements, StreamingAccess, StreamingAccess>();
  });
  Shapes<Shape<128, 1>, Shape<256, 1>, Shape<512, 1>, Shape<256, 2>>::for_each(
      []<int Threads, int Elements>(Shape<Threads, Elements>) {
        for_each_policy([]<class Reads, class Stores>(Policies<Reads, Stores>) {
          add_copy<Threads, Elements, Reads, Stores>();
        });
      });
  Shapes<Shape<128, 1>, Shape<256, 1>, Shape<512, 1>, Shape<1024, 1>, Shape<256, 2>,
         Shape<1024, 2>>::for_each([]<int Threads, int Elements>(Shape<Threads, Elements>) {
    add_copy<Threads, Elements, PlainAccess, StreamingAccess, Line, 2>();
    add_copy<Threads, Elements, PlainAccess, StreamingAccess, Line, 4>();
    add_copy<Threads, Elements, KeepReads, StreamingAccess, Line, 2>();
    add_copy<Threads, Elements, KeepReads, StreamingAccess, Line, 4>();
  });
  Shapes<Shape<64, 4>, Shape<64, 8>, Shape<128, 4>, Shape<128, 8>, Shape<256, 4>>::for_each_tile(
      []<int Threads, int Elements, class Layout>(Shape<Threads, Elements>, Layout) {
        add_copy<Threads, Elements, StreamingAccess, StreamingAccess, Layout>();
      });
  add_bulks<2, 4, 8, 16, 32>();
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
