// The threads of a block as fibers. A fiber runs until it waits for others or ends; then the next
// one runs.
#include <cuda_runtime_api.h>
#include <ucontext.h>

#include <cstring>
#include <deque>
#include <exception>
#include <set>
#include <utility>
#include <vector>

namespace on_cpu {
namespace {

constexpr unsigned warp_lanes = 32, max_threads = 1024, max_blocks = (1u << 31) - 1;
constexpr std::size_t stack_bytes = 128 << 10;
constexpr int poison_byte = 0xff;  // a NaN in every type

struct Thread {
  enum class State { ready, at_block_barrier, at_warp_barrier, ended };

  ucontext_t context{};
  std::vector<std::byte> stack = std::vector<std::byte>(stack_bytes);
  uint3 index{};
  State state = State::ready;
  unsigned lanes = 0;       ///< Lanes that wait together at a warp's barrier.
  std::uint64_t given = 0;  ///< The value for other lanes of an exchange.
};
using State = Thread::State;

bool descending = false;
cudaError_t last_error = cudaSuccess;

std::deque<Thread> threads;  ///< The first `count` are the block's. A context may not move.
unsigned count = 0, current = 0;
ucontext_t scheduler;
const std::function<void()>* kernel = nullptr;
std::exception_ptr failure;
std::set<const void*> poisoned;

void wait(State reason) {
  Thread& own = threads[current];
  own.state = reason;
  swapcontext(&own.context, &scheduler);
}

/// A fiber runs one thread of each block. After an exception no fiber can be resumed.
void run_threads() {
  for (;;) {
    try {
      (*kernel)();
    } catch (...) {
      failure = std::current_exception();
    }
    wait(State::ended);
  }
}

void add_fiber() {
  Thread& thread = threads.emplace_back();
  getcontext(&thread.context);
  thread.context.uc_stack.ss_sp = thread.stack.data();
  thread.context.uc_stack.ss_size = thread.stack.size();
  makecontext(&thread.context, run_threads, 0);
}

void start(const dim3& block) {
  while (threads.size() < count) add_fiber();
  for (unsigned i = 0; i < count; ++i) {
    threads[i].index = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    threads[i].state = State::ready;
  }
}

/// Runs every thread that is ready until it waits or ends.
bool run_ready() {
  bool ran = false;
  for (unsigned i = 0; i < count; ++i) {
    current = descending ? count - 1 - i : i;
    if (threads[current].state != State::ready) continue;
    threadIdx = threads[current].index;
    swapcontext(&scheduler, &threads[current].context);
    if (failure) std::rethrow_exception(std::exchange(failure, nullptr));
    ran = true;
  }
  return ran;
}

/// Whether all lanes of the thread's barrier wait at it or have ended.
bool is_complete(unsigned thread) {
  const unsigned first = thread / warp_lanes * warp_lanes;
  for (unsigned i = first; i < count && i < first + warp_lanes; ++i) {
    if ((threads[thread].lanes >> (i - first) & 1) == 0 || threads[i].state == State::ended)
      continue;
    if (threads[i].state != State::at_warp_barrier || threads[i].lanes != threads[thread].lanes) {
      return false;
    }
  }
  return true;
}

/// Resumes the threads whose barrier is complete. Returns whether all threads have ended.
bool release() {
  std::vector<unsigned> released;
  unsigned ended = 0, at_block_barrier = 0;
  for (unsigned i = 0; i < count; ++i) {
    ended += threads[i].state == State::ended;
    at_block_barrier += threads[i].state == State::at_block_barrier;
    if (threads[i].state == State::at_warp_barrier && is_complete(i)) released.push_back(i);
  }
  if (ended == count) return true;
  if (ended + at_block_barrier == count) {
    for (unsigned i = 0; i < count; ++i) {
      if (threads[i].state != State::ended) released.push_back(i);
    }
  }
  if (released.empty()) {
    throw std::runtime_error("the threads of a block wait at different barriers");
  }
  for (const unsigned i : released) threads[i].state = State::ready;
  return false;
}

}  // namespace

void run(const dim3& grid, const dim3& block, const std::function<void()>& body) {
  const std::uint64_t size = std::uint64_t{block.x} * block.y * block.z;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  if (size == 0 || size > max_threads || blocks == 0 || grid.x > max_blocks || grid.y > 65535 ||
      grid.z > 65535) {
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  count = static_cast<unsigned>(size);
  kernel = &body;
  gridDim = grid;
  blockDim = block;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    blockIdx = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                static_cast<unsigned>(i / grid.x / grid.y)};
    poisoned.clear();
    start(block);
    do {
      while (run_ready()) {
      }
    } while (!release());
  }
}

void set_descending(bool is_descending) { descending = is_descending; }

void wait_for_block() { wait(State::at_block_barrier); }

void wait_for_warp(unsigned lanes) {
  threads[current].lanes = lanes;
  wait(State::at_warp_barrier);
}

unsigned lane() { return current % warp_lanes; }

std::uint64_t exchange(unsigned lanes, std::uint64_t own, unsigned from) {
  threads[current].given = own;
  wait_for_warp(lanes);
  const unsigned source = current / warp_lanes * warp_lanes + from;
  const bool takes_part =
      source < count && (lanes >> from & 1) != 0 && threads[source].state != State::ended;
  const std::uint64_t taken = takes_part ? threads[source].given : ~std::uint64_t{0};
  wait_for_warp(lanes);  // until all have taken theirs
  return taken;
}

void poison(void* shared, std::size_t bytes) {
  if (poisoned.insert(shared).second) std::memset(shared, poison_byte, bytes);
}

}  // namespace on_cpu

cudaError_t cudaGetLastError() { return std::exchange(on_cpu::last_error, cudaSuccess); }
