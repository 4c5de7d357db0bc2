// A loop over [0, count) in chunks of `grain`, on all hardware threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace reprolab::reference {

/// Calls `body(begin, end)` once for each chunk. The bounds of the chunks depend only on `count`
/// and `grain`, never on the number of threads, so a body that writes only its own chunk gives the
/// same result on any machine. The first exception of a body is rethrown here.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body body) {
  const std::int64_t chunks = (count + grain - 1) / grain;
  std::atomic<std::int64_t> next_chunk{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&] {
    for (std::int64_t chunk; (chunk = next_chunk.fetch_add(1)) < chunks;) {
      try {
        body(chunk * grain, std::min(count, (chunk + 1) * grain));
      } catch (...) {
        next_chunk.store(chunks);  // the others stop at their next chunk
        const std::scoped_lock lock(failure_mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  {
    const std::int64_t threads = std::thread::hardware_concurrency();  // 0 if not known
    const auto helpers = std::min(threads, chunks) - 1;
    std::vector<std::jthread> team;
    for (std::int64_t i = 0; i < helpers; ++i) team.emplace_back(work);
    work();
  }  // joins the threads
  if (failure) std::rethrow_exception(failure);
}

}  // namespace reprolab::reference
