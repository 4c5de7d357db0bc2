#include "harness/workload.hpp"

namespace reprolab {

void Workload::add_output(std::uint64_t offset_bytes) {
  output_offset_bytes_ = offset_bytes;
  outputs_.emplace_back(facts_.output_bytes() + guard_bytes + offset_bytes);
}

std::vector<std::span<std::byte>> Workload::guards() const {
  std::vector<std::span<std::byte>> found;
  for (int buffer_set = 0; buffer_set < buffer_sets(); ++buffer_set) {
    auto* const begin = static_cast<std::byte*>(output(buffer_set));
    found.push_back({begin + facts_.output_bytes(), guard_bytes});
  }
  return found;
}

void Workload::write_expected(int matrix, void* to, cudaStream_t stream) const {
  profiling::check(cudaMemcpyAsync(to, bounds(matrix, "").low.data(), facts_.output_bytes(),
                                   cudaMemcpyHostToDevice, stream),
                   "copying the reference's output to the GPU");
}

}  // namespace reprolab
