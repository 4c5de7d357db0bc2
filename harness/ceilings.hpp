// The ceilings as rows: the memory's speed for the bytes of a problem, measured together with the
// problem's kernels.
#pragma once

#include "harness/workload.hpp"

namespace reprolab {

/// One ceiling, which is launched on the memory of a workload's buffer set.
struct Ceiling {
  const char* name;
  const char* what;
  std::uint64_t (*bytes_read)(const ProblemFacts& facts);
  std::uint64_t (*bytes_written)(const ProblemFacts& facts);
  void (*launch)(const Workload& workload, int buffer_set, cudaStream_t stream);
};

/// Each ceiling as a row.
std::vector<VariantInfo> ceiling_variants();

/// The ceiling of that name, which must exist.
const Ceiling& ceiling_named(std::string_view name);

/// Whether that ceiling bounds the kernels of such a problem.
Support ceiling_supports(std::string_view name, const ProblemFacts& facts);

/// Throws UsageError if a kernel has the name of a ceiling: their rows would have the same keys.
void refuse_names_of_ceilings(const std::vector<VariantInfo>& kernels);

}  // namespace reprolab
