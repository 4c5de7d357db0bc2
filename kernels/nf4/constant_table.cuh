// The table in constant memory, from which the paper's kernels read it. Apart, because it is in the
// code of each file that includes it.
#pragma once

#include "kernels/nf4/format.hpp"

namespace reprolab::nf4 {

/// One copy per translation unit (internal linkage), as in bitsandbytes.
static __constant__ Table constant_table = standard_table();

}  // namespace reprolab::nf4
