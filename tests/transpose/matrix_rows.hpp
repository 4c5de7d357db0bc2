// Rows of the big matrix made by hand: what the verdicts are drawn from.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiments/harness/result_file.hpp"
#include "experiments/transpose/protocol.hpp"
#include "experiments/transpose/verdicts.hpp"

namespace reprolab::transpose {

using nlohmann::json;

inline constexpr double theoretical_gb_s = 3300;  // the post's own
inline constexpr double matrix_bytes = 32768.0 * 32768.0 * 4;
inline const std::string wrong = "7 of 8 elements differ; first at row 4, column 0 of the output";

inline json published() { return read_json(project_root() / "data/published/published.json"); }

inline double mojo_gb_s(const char* kernel) {
  return published()["transpose_blog"]["mojo_gb_s"][kernel];
}
inline double cuda_gb_s(const char* kernel) {
  return published()["transpose_blog"]["cuda_gb_s"][kernel];
}

inline double us_at(double gb_s) { return 2 * matrix_bytes / gb_s * 1e-3; }

inline Record make_row(const std::string& kernel, Outcome outcome, std::vector<double> samples_us,
                       const std::string& data = "random") {
  const std::string problem = data == "random" ? "32768x32768" : "32768x32768/" + data;
  Record row;
  row.key = problem + "/" + kernel;
  row.variant.name = kernel;
  row.problem = {{"name", problem},
                 {"family", "transpose"},
                 {"data", data},
                 {"rows", 32768},
                 {"n", 1073741824}};
  row.outcome = outcome;
  row.bytes_read = row.bytes_written = static_cast<std::uint64_t>(matrix_bytes);
  row.samples_us = std::move(samples_us);
  return row;
}

/// At `gb_s` on random data, and on constant data as it is run: untimed.
inline void add_rows(std::vector<Record>& rows, std::string_view kernel, double gb_s) {
  const double us = us_at(gb_s);
  rows.push_back(make_row(std::string(kernel), Outcome::bit_exact, {}, "constant"));
  rows.push_back(make_row(std::string(kernel), Outcome::bit_exact, {us * 0.999, us, us * 1.001}));
}

/// Rows in which every kernel is as fast as the post says, and the batched one of its Mojo as wrong
/// as it is. The constant ones first, so that no row is found by its kernel alone.
inline std::vector<Record> rows_as_published() {
  std::vector<Record> rows;
  add_rows(rows, naive, mojo_gb_s("tma_naive"));
  add_rows(rows, swizzle, mojo_gb_s("tma_swizzle"));
  add_rows(rows, batched, cuda_gb_s("tma_swizzle_batched"));
  add_rows(rows, published_batched, mojo_gb_s("tma_swizzle_batched"));
  rows.back().outcome = Outcome::deviation_as_declared;
  rows.back().reason = wrong;
  rows.back().mismatches = 939524096;
  rows.push_back(make_row("copy", Outcome::not_verified, {us_at(4000)}));
  rows.back().variant.role = Role::ceiling;
  return rows;
}

inline Record& row_of(std::vector<Record>& rows, std::string_view kernel,
                      const std::string& data = "random") {
  const auto found = std::ranges::find_if(rows, [&](const Record& row) {
    return row.variant.name == kernel && row.problem["data"] == data;
  });
  if (found == rows.end()) throw std::out_of_range("no such row");
  return *found;
}

inline void set_speed(std::vector<Record>& rows, std::string_view kernel, double gb_s) {
  row_of(rows, kernel).samples_us = {us_at(gb_s)};
}

inline void set_failed(Record& row, Outcome outcome, const std::string& reason) {
  row.outcome = outcome;
  row.reason = reason;
  row.samples_us.clear();
}

inline std::vector<Record> rows_without(std::string_view kernel,
                                        const std::string& data = "random") {
  auto rows = rows_as_published();
  std::erase_if(rows, [&](const Record& row) {
    return row.variant.name == kernel && row.problem["data"] == data;
  });
  return rows;
}

inline VerdictRecord only(const std::string& claim, const std::vector<Record>& rows,
                          std::optional<double> theoretical = theoretical_gb_s) {
  const auto verdicts = decide(rows, theoretical, published());
  EXPECT_EQ(std::ranges::count(verdicts, claim, &VerdictRecord::claim), 1);
  return *std::ranges::find(verdicts, claim, &VerdictRecord::claim);
}

inline void expect_not_testable(const VerdictRecord& verdict, const std::string& reason) {
  EXPECT_EQ(name(verdict.verdict), "not_testable") << verdict.claim;
  EXPECT_EQ(verdict.reason, reason) << verdict.claim;
  EXPECT_FALSE(verdict.our_value || verdict.our_interval) << verdict.claim;
}

}  // namespace reprolab::transpose
