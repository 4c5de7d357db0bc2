#include "harness/ceilings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "harness/errors.hpp"
#include "profiling/ceilings.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab {
namespace {

std::uint64_t nothing(const ProblemFacts&) { return 0; }
std::uint64_t read(const ProblemFacts& facts) { return facts.bytes_read; }
std::uint64_t written(const ProblemFacts& facts) { return facts.bytes_written; }
/// Bytes of the larger of input and output.
std::uint64_t larger(const ProblemFacts& facts) { return std::max(read(facts), written(facts)); }
/// A copy reads and writes as many bytes in total as a launch, limited by the size of one output.
/// It is rounded down by less than 1 %, to eight binary digits: cudaMemcpy loses up to a quarter of
/// its speed if only small powers of two divide the count (10552320 bytes on an H200).
std::uint64_t copied(const ProblemFacts& facts) {
  const auto bytes = std::min((facts.bytes_read + facts.bytes_written) / 2, facts.bytes_written);
  return bytes - bytes % std::max(std::bit_floor(bytes) >> 7, std::uint64_t{1});
}

/// A buffer set's output from an aligned address on, if a problem has an offset; the memory there
/// belongs to the buffer set. At other multiples of 16 bytes a ceiling is slower (at 1024 x 4096
/// weights by 6 % on an H200).
void* output(const Workload& workload, int buffer_set) {
  auto* const start = static_cast<std::byte*>(workload.output(buffer_set));
  return start - reinterpret_cast<std::uintptr_t>(start) % profiling::DeviceBuffer::alignment;
}

/// Copies from a buffer set written a full rotation ago to the buffer set before it, which was just
/// read.
template <void copy(void*, const void*, std::uint64_t, cudaStream_t)>
void launch_copy(const Workload& workload, int buffer_set, cudaStream_t stream) {
  const int before = (buffer_set + workload.buffer_sets() - 1) % workload.buffer_sets();
  copy(output(workload, before), output(workload, buffer_set), copied(workload.facts()), stream);
}

void launch_read(const Workload& workload, int buffer_set, cudaStream_t stream) {
  const ProblemFacts& facts = workload.facts();
  const void* const from = facts.bytes_read > facts.bytes_written
                               ? workload.input(buffer_set).data()
                               : output(workload, buffer_set);
  profiling::ceilings::read_only(from, larger(facts), stream);
}

void launch_same_bytes(const Workload& workload, int buffer_set, cudaStream_t stream) {
  profiling::ceilings::same_bytes(workload.input(buffer_set).data(), workload.facts().bytes_read,
                                  output(workload, buffer_set), workload.facts().bytes_written,
                                  stream);
}

void launch_write(const Workload& workload, int buffer_set, cudaStream_t stream) {
  profiling::ceilings::write_only(output(workload, buffer_set), workload.facts().bytes_written,
                                  stream);
}

constexpr Ceiling all[] = {
    {"copy", "cudaMemcpy, device to device", copied, copied,
     launch_copy<profiling::ceilings::copy>},
    {"copy_kernel", "the same copy by a kernel, in the fastest form known", copied, copied,
     launch_copy<profiling::ceilings::copy_kernel>},
    {"read_only", "loads, no stores", larger, nothing, launch_read},
    {"same_bytes", "the same bytes, nothing computed, in the fastest form known", read, written,
     launch_same_bytes},
    {"write_only", "stores, no loads", nothing, written, launch_write},
};

}  // namespace

std::vector<VariantInfo> ceiling_variants() {
  std::vector<VariantInfo> variants;
  for (const Ceiling& ceiling : all) {
    VariantInfo& variant = variants.emplace_back();
    variant.name = ceiling.name;
    variant.origin.kind = Origin::Kind::ceiling;
    variant.lineage = ceiling.what;
    variant.source_file = "profiling/ceilings.cu";
  }
  return variants;
}

const Ceiling& ceiling_named(std::string_view name) {
  for (const Ceiling& ceiling : all) {
    if (ceiling.name == name) return ceiling;
  }
  throw std::logic_error(fmt::format("no ceiling '{}'", name));
}

Support ceiling_supports(std::string_view name, const ProblemFacts& facts) {
  if (name == "read_only" || facts.bytes_read / 16 <= facts.bytes_written) return Support::yes();
  return Support::no("outputs are small beside inputs: read_only is this problem's ceiling");
}

void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels) {
  for (const Ceiling& ceiling : all) {
    if (std::ranges::find(kernels, ceiling.name, &VariantInfo::name) != kernels.end()) {
      throw UsageError(
          fmt::format("kernel '{}' has the name of a ceiling; rename it", ceiling.name));
    }
  }
}

}  // namespace reprolab
