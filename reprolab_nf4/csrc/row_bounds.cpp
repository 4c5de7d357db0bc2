// The error bounds of the drop-in library: checks arguments and calls the reference.
#include "reprolab_nf4/csrc/row_bounds.hpp"

#include "reprolab_nf4/csrc/calls.hpp"
#include "reprolab_nf4/csrc/reprolab_nf4.h"

namespace reprolab::dropin {
namespace {

int row_bounds(const char* function, reference::WeightType type, const std::int64_t* nonzero,
               const double* magnitude, float offset, std::int64_t m, std::int64_t k,
               double* relative, double* absolute, double* limit) {
  const Call call(function);
  std::string fault = first_of({fault_of_count("m", m), fault_of_count("k", k)});
  if (!fault.empty()) return call.refuse(fault);
  if (m == 0) return succeed();
  fault = fault_of({{"nonzero", nonzero, 8},
                    {"magnitude", magnitude, 8},
                    {"relative", relative, 8},
                    {"absolute", absolute, 8},
                    {"limit", limit, 8}});
  if (!fault.empty()) return call.refuse(fault);
  write_row_bounds(type, {nonzero, static_cast<std::size_t>(m)}, magnitude, offset, k, relative,
                   absolute, limit);
  return succeed();
}

}  // namespace
}  // namespace reprolab::dropin

#define REPROLAB_ROW_BOUNDS(name, type)                                                           \
  int name(const std::int64_t* nonzero, const double* magnitude, float offset, std::int64_t m,    \
           std::int64_t k, double* relative, double* absolute, double* limit) {                   \
    return reprolab::dropin::row_bounds(__func__, reprolab::reference::WeightType::type, nonzero, \
                                        magnitude, offset, m, k, relative, absolute, limit);      \
  }
REPROLAB_ROW_BOUNDS(reprolab_nf4_row_bounds_fp16, fp16)
REPROLAB_ROW_BOUNDS(reprolab_nf4_row_bounds_bf16, bf16)
