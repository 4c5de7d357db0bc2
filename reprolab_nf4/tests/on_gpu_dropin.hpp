#pragma once

// Shared by the tests of the drop-in library on a GPU.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "profiling/graph.hpp"
#include "reprolab_nf4/csrc/reprolab_nf4.h"
#include "tests/kernels/nf4/testing.hpp"

namespace reprolab {

using profiling::check;
using profiling::Stream;

/// Runs all calls at once, each in its own thread.
inline void run_at_once(const std::vector<std::function<void()>>& calls) {
  std::vector<std::thread> threads;
  for (const auto& call : calls) threads.emplace_back(call);
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<std::uint16_t> read(const void* output, std::size_t count, cudaStream_t stream) {
  std::vector<std::uint16_t> values(count);
  check(cudaMemcpyAsync(values.data(), output, 2 * count, cudaMemcpyDeviceToHost, stream),
        "reading");
  check(cudaStreamSynchronize(stream), "reading");
  return values;
}

inline void overwrite(void* output, std::size_t count) {
  check(cudaMemset(output, 0xff, 2 * count), "overwriting");
  check(cudaDeviceSynchronize(), "overwriting");
}

/// Resets the library's choice of a kernel, which is the process's, after each test.
class OnGpuDropin : public OnGpuTest {
 protected:
  void TearDown() override { reprolab_nf4_use(nullptr); }

  /// Runs `test` with each device as the current one; device 0 last.
  void on_each_device(const std::function<void(cudaStream_t)>& test) const {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "counting");
    if (devices < 2) GTEST_SKIP() << "NOT TESTED, one device";
    for (const int device : {1, 0}) {
      SCOPED_TRACE(device);
      check(cudaSetDevice(device), "changing");
      const Stream stream;
      test(stream.get());
    }
  }

  cudaStream_t stream() const {
    static const Stream stream(cudaStreamNonBlocking);
    return stream.get();
  }
};

}  // namespace reprolab
