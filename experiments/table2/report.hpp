// What table2 prints while it runs and at its end.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"
#include "experiments/nf4/layers.hpp"
#include "profiling/machine.hpp"

namespace reprolab::table2 {

/// `--dry-run`: models, memory, launches and about how long.
void print_plan(const std::vector<nf4::Model>& models, int kernels, int passes,
                const std::optional<profiling::Gpu>& gpu, const std::string& why_no_gpu);

/// One line a row of one model and batch, with the speed-up over the baseline.
void print_rows(const std::vector<Record>& rows);

void print_check(const InstrumentCheck& check);

}  // namespace reprolab::table2
