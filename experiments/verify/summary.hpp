// Counts the outcomes of each subject (the reference, the quantizer, each kernel).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/harness/outcome.hpp"

namespace reprolab::verify {

class Summary {
 public:
  void add(const std::string& subject, Outcome outcome, const std::string& reason);

  /// One line per subject, in the order of their first appearance: counts per outcome, and the
  /// first reason of every outcome that has one and is not a failure.
  std::string text() const;

  bool any_failure() const { return any_failure_; }

  /// Whether anything at all was compared.
  bool any_comparison() const { return any_comparison_; }

 private:
  struct Count {
    int tensors = 0;
    std::string first_reason;
  };
  std::vector<std::string> order_;
  std::map<std::string, std::map<Outcome, Count>> counts_;
  bool any_failure_ = false;
  bool any_comparison_ = false;
};

}  // namespace reprolab::verify
