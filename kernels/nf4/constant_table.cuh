// The table in constant memory: where the paper's kernels take it from.
#pragma once

#include "kernels/nf4/format.hpp"

namespace reprolab::nf4 {

/// One copy a translation unit (internal linkage), as in bitsandbytes.
static __constant__ Table constant_table = standard_table();

}  // namespace reprolab::nf4
