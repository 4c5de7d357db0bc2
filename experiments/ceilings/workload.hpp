// A copy, or the bytes of another kernel, as a workload of the harness. Inputs and expected outputs
// are made on the device.
#pragma once

#include "experiments/ceilings/traffic.hpp"
#include "harness/family.hpp"
#include "profiling/cuda_check.hpp"

namespace reprolab::ceilings {

/// The problem of one size, named as "448MiB".
template <class Problem>
PlannedProblem plan(std::uint64_t write_bytes);

extern template PlannedProblem plan<Copy>(std::uint64_t write_bytes);
extern template PlannedProblem plan<Mixed>(std::uint64_t write_bytes);
extern template PlannedProblem plan<Even>(std::uint64_t write_bytes);

}  // namespace reprolab::ceilings
