// The rows that a program measured on a GPU, and their expected outcomes.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "tests/on_gpu.hpp"
#include "tests/programs/program.hpp"

namespace reprolab {

using nlohmann::json;

/// The expected end of a row: the outcome, and a regular expression for a part of the reason.
struct Ending {
  std::string outcome, reason;
};

class MeasuredRows : public NeedsGpu<Programs> {
 protected:
  /// By problem and kernel.
  using Rows = std::map<std::pair<std::string, std::string>, json>;

  /// The rows of a run, which must end with this status.
  Rows rows_of(const std::string& program, const std::string& arguments, int status) const {
    const Finished finished = run(program, arguments + " --output results.json");
    EXPECT_EQ(finished.status, status) << finished.err;
    Rows rows;
    const json file = read_json(folder_.path() / "results.json");
    for (const json& row : file.at("records")) {
      rows[{row["problem"]["name"], row["kernel"]}] = row;
    }
    return rows;
  }

  static void expect_ending(const json& row, const Ending& ending) {
    EXPECT_EQ(row["outcome"], ending.outcome) << row["key"] << ": " << row["reason"];
    EXPECT_TRUE(has_match(row["reason"], ending.reason)) << row["key"];
    EXPECT_TRUE(row["metrics"].empty()) << row["key"];
  }
};

}  // namespace reprolab
