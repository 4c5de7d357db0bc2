// Counts the outcomes of each subject (the reference, the quantizer, each kernel), and how each
// tensor was checked.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/outcome.hpp"
#include "reference/checkpoint/bnb_checkpoint.hpp"

namespace reprolab::verify {

inline constexpr std::string_view reference_subject = "reference", quantizer_subject = "quantizer";

/// The result of one comparison of a tensor; its subject: the reference (with the stored output),
/// the quantizer (with the stored codes) or a kernel (with the reference).
struct Note {
  std::string subject;
  Outcome outcome;
  std::string reason;  ///< One line; empty when bit_exact.
};

class Summary {
 public:
  /// Everything about one tensor.
  void add_tensor(const std::vector<Note>& notes);

  /// One line per subject, in the order of first appearance: counts per outcome, and the first
  /// reason of every outcome that is not a failure.
  std::string outcomes() const;

  /// The numbers of tensors that were compared, by what they were compared with, and of those that
  /// were not, by kind. `others`: the checkpoint's tensors besides those that were added.
  std::string coverage(const std::vector<reference::TensorKind>& others) const;

  /// Whether nothing was compared with anything.
  bool proves_nothing() const { return compared_ == 0; }

  /// The program's exit status.
  ExitStatus status() const {
    return proves_nothing() && status_ == exit_verified ? exit_not_measured : status_;
  }

 private:
  struct Count {
    int tensors = 0;
    std::string first_reason;
  };
  std::vector<std::string> order_;
  std::map<std::string, std::map<Outcome, Count>> counts_;
  ExitStatus status_ = exit_verified;
  std::size_t tensors_ = 0;
  std::size_t compared_ = 0;                    ///< Tensors with at least one comparison.
  std::array<std::size_t, 3> compared_with_{};  ///< Stored outputs, what was quantized, kernels.
};

}  // namespace reprolab::verify
