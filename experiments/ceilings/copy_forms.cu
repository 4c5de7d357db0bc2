// Ways to copy. Every number of threads and elements with the reads that an earlier sweep found
// fastest; every request to the caches on the shapes that it found fastest, reading ahead too; and
// bulk copies.
#include "experiments/ceilings/forms.cuh"

namespace reprolab::ceilings {
namespace {

template <int Threads, int Elements, class Reads, class Stores, int AheadMiB = 0>
void add_copy() {
  add<Copy>("copy_" + std::to_string(Threads) + "x" + std::to_string(Elements) +
                requests_in_name<Reads, Stores, AheadMiB>(),
            "CopyForm<" + std::to_string(Threads) + ", " + std::to_string(Elements) + ", " +
                requests_in_code<Reads, Stores, AheadMiB>(),
            launch_copying<CopyForm<Threads, Elements, Reads, Stores, AheadMiB << 20>>);
}

template <int Threads, int Elements>
void add_shape() {
  add_copy<Threads, Elements, PlainAccess, PlainAccess>();
  add_copy<Threads, Elements, KeepReads, PlainAccess>();
}

template <int... Threads>
void add_shapes() {
  (add_shape<Threads, 1>(), ...);
  (add_shape<Threads, 2>(), ...);
  (add_shape<Threads, 4>(), ...);
  (add_shape<Threads, 8>(), ...);
}

template <int Threads, int Elements>
void add_policies() {
  for_each_policy([]<class Reads, class Stores>(Policies<Reads, Stores>) {
    add_copy<Threads, Elements, Reads, Stores>();
  });
}

template <int Threads, int Elements>
void add_reading_ahead() {
  add_copy<Threads, Elements, PlainAccess, StreamingAccess, 2>();
  add_copy<Threads, Elements, PlainAccess, StreamingAccess, 4>();
  add_copy<Threads, Elements, KeepReads, StreamingAccess, 2>();
  add_copy<Threads, Elements, KeepReads, StreamingAccess, 4>();
}

Support supports_bulk_copies(const Copy&) {
  int device = 0, major = 0;
  const bool found =
      cudaGetDevice(&device) == cudaSuccess &&
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess;
  cudaFuncAttributes compiled{};
  if (found && major >= 9 &&
      cudaFuncGetAttributes(&compiled, bulk_copying<BulkForm<4096, false, false>>) == cudaSuccess &&
      compiled.ptxVersion >= 90) {
    return Support::yes();
  }
  cudaGetLastError();
  return Support::no("needs bulk copies: compute capability 9.0 or newer, and a build for it");
}

template <int Bytes, bool Keep, bool Drop>
void add_bulk() {
  add<Copy>("bulk_" + std::to_string(Bytes / 1024) + "k_" + (Keep ? "evict_last" : "plain") + "_" +
                (Drop ? "evict_first" : "plain"),
            "BulkForm<" + std::to_string(Bytes) + ", " + (Keep ? "true" : "false") + ", " +
                (Drop ? "true" : "false") + ">",
            launch_bulk_copying<BulkForm<Bytes, Keep, Drop>>, supports_bulk_copies);
}

template <int... KiB>
void add_bulks() {
  (add_bulk<1024 * KiB, false, false>(), ...);
  (add_bulk<1024 * KiB, true, false>(), ...);
  (add_bulk<1024 * KiB, false, true>(), ...);
  (add_bulk<1024 * KiB, true, true>(), ...);
}

[[maybe_unused]] const bool registered = [] {
  add_shapes<64, 128, 256, 512, 1024>();
  add_policies<128, 1>();
  add_policies<256, 1>();
  add_policies<512, 1>();
  add_policies<256, 2>();
  add_reading_ahead<128, 1>();
  add_reading_ahead<256, 1>();
  add_reading_ahead<512, 1>();
  add_reading_ahead<1024, 1>();
  add_reading_ahead<256, 2>();
  add_reading_ahead<1024, 2>();
  add_bulks<2, 4, 8, 16, 32>();
  return true;
}();

}  // namespace
}  // namespace reprolab::ceilings
