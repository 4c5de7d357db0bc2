// A family of kernels as the measuring programs see it: its kernels, its problems, its options.
// It states in its family.cpp, once, what others need to know of it (FamilyFacts):
// describe_families() exports that for Python.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/workload.hpp"

namespace CLI {
class App;
}

namespace reprolab {

/// A problem that can be prepared; cheap to hold, nothing is allocated yet.
struct PlannedProblem {
  ProblemFacts facts;
  std::uint64_t buffer_set_device_bytes = 0;  ///< Inputs and output of one buffer set.
  /// Bytes of these that only some kernels read: they do not keep a problem out of the cache.
  std::uint64_t seldom_read_bytes = 0;
  /// Device memory of all buffer sets together, such as workspaces; empty: none. May ask the GPU,
  /// so it is called in workers only, and where none will be started.
  std::function<std::uint64_t()> shared_device_bytes{};
  /// Host memory of the inputs and expected outputs; 0 if the host holds neither.
  std::uint64_t host_bytes = 0;
  bool timed = true;  ///< If false, its outputs are only verified.
  bool warm = false;  ///< If true, it is launched in one buffer set again and again: kept_warm().
  /// Whether a kernel can run it on the current GPU.
  std::function<Support(const std::string& kernel)> supports;
  /// Makes the data from `seed`, computes the reference and fills `buffer_sets` buffer sets.
  std::function<std::unique_ptr<Workload>(int buffer_sets, std::uint64_t seed)> prepare;
};

/// Facts on a family, besides its kernels, that tables, figures and claims need.
struct FamilyFacts {
  struct ElementType {
    std::string name;
    int bytes = 0;
  };
  /// A part of a problem that has metrics of its own: "kernel_time.2048x8192".
  struct Part {
    std::string name;
    std::int64_t rows = 0, columns = 0;
  };

  std::string name;
  std::string element;             ///< Name of one element of an output: "weight".
  std::vector<ElementType> types;  ///< That elements may have, the measured code's first.
  std::string moves{};             ///< Name of the bytes of a row; empty: nothing is moved.
  std::string baseline{};  ///< The kernel that counters of others are compared with; empty: none.
  /// The option for a problem's ROWSxCOLUMNS, and those that are profiled where none are given;
  /// empty: it has none.
  std::string size_option{}, profiled_size{};
  /// Parts of a function's template arguments that lead to the code which is measured, of all that
  /// a kernel's file is compiled to: each narrows the choice where any function has it.
  std::vector<std::string> measured_code{};
  std::vector<Part> parts{};
};

struct FreeMemory {
  std::uint64_t device_bytes = 0, host_bytes = 0;
};

/// Families live as long as the program. One of rows whose kernels are another family's, or no
/// family's, has facts alone.
class Family {
 public:
  /// Registers it, before main(), so that no program lists families.
  explicit Family(FamilyFacts facts);
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  const FamilyFacts& facts() const { return facts_; }
  const std::string& name() const { return facts_.name; }
  /// Adds the options that select the family's problems; called before the command line is read.
  virtual void add_options(CLI::App&) {}
  /// Called once after the command line is read. Throws UsageError.
  virtual void configure() {}
  /// Whether the command line selects problems of this family by the family's own options. If it
  /// does so for any family, only such families run, unless --family is given.
  virtual bool is_asked_for() const { return false; }
  virtual std::vector<VariantInfo> kernels() const { return {}; }
  /// One line for each group of kernels that could be here and is not: why, and what to do.
  virtual std::vector<std::string> absent() const { return {}; }
  /// Names of the data that its problems can be filled with; without --data, it is the first.
  virtual std::vector<std::string> data() const { return {}; }
  /// The selected problems, each with each of `data`. If the command line allows it, those that do
  /// not fit are made smaller.
  virtual std::vector<PlannedProblem> problems(const FreeMemory&,
                                               const std::vector<std::string>&) const {
    return {};
  }

 private:
  FamilyFacts facts_;
};

/// All families of this program, sorted by name.
std::vector<Family*> families();

/// All families of this program with all kernels, or what has rows among `records`: "families" of
/// data/families.schema.json.
nlohmann::ordered_json describe_families(const std::vector<Record>* records = nullptr);

/// `--describe`: prints all. Returns an exit status.
int print_description();

/// Prints which kernels refuse a problem, each reason once: "  refused by NAME, NAME: REASON".
void print_refusals(const std::vector<VariantInfo>& kernels,
                    const std::function<Support(const std::string& kernel)>& supports);

}  // namespace reprolab
