// A family of kernels as the measuring programs see it: its kernels, its problems, its options.
// Its family.cpp states the facts that other code needs (FamilyFacts); describe_families() exports
// them for Python. Last, the copies of a problem's memory that a measurement rotates over.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/workload.hpp"

namespace CLI {
class App;
}

namespace reprolab {

struct Record;

/// A problem that can be prepared; cheap, because nothing is allocated yet.
struct PlannedProblem {
  ProblemFacts facts;
  std::uint64_t buffer_set_device_bytes = 0;  ///< Inputs and output of one buffer set.
  /// The part of these bytes that only some kernels read, which does not count for a cold cache.
  std::uint64_t seldom_read_bytes = 0;
  /// Device memory of all buffer sets together, such as workspaces; empty: none. May query the GPU,
  /// so it is called only in workers, or if none will be started.
  std::function<std::uint64_t()> shared_device_bytes{};
  /// Host memory of the inputs and expected outputs; 0 if the host has neither.
  std::uint64_t host_bytes = 0;
  bool timed = true;  ///< If false, its outputs are only verified.
  bool warm = false;  ///< If true, all launches use one buffer set: kept_warm().
  /// Whether a kernel can run it on the current GPU.
  std::function<Support(const std::string& kernel)> supports;
  /// Makes the data from `seed`, computes the reference and fills `buffer_sets` buffer sets.
  std::function<std::unique_ptr<Workload>(int buffer_sets, std::uint64_t seed)> prepare;
};

/// Facts about a family, besides its kernels, that tables, figures and claims need.
struct FamilyFacts {
  /// A part of a problem that has metrics of its own: "kernel_time.2048x8192".
  struct Part {
    std::string name;
    std::int64_t rows = 0, columns = 0;
  };

  std::string name;
  /// The option for a problem's ROWSxCOLUMNS, and the problems that are profiled by default; empty:
  /// none.
  std::string size_option{}, profiled_size{};
  std::vector<Part> parts{};
};

struct FreeMemory {
  std::uint64_t device_bytes = 0, host_bytes = 0;
};

/// Families live as long as the program. A family whose rows run kernels of another family, or of
/// none, has only facts.
class Family {
 public:
  /// Registers the family before main(), so that no program lists families.
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
  /// Whether the command line selects problems by this family's own options. If it does for any
  /// family, only such families run, unless --family is given.
  virtual bool is_selected() const { return false; }
  virtual std::vector<VariantInfo> kernels() const { return {}; }
  /// One line for each group of kernels that is missing: the reason and the remedy.
  virtual std::vector<std::string> absent() const { return {}; }
  /// Names of the data for its problems; the first is the default of --data.
  virtual std::vector<std::string> data() const { return {}; }
  /// The selected problems, each with each of `data`. If the command line allows it, problems that
  /// do not fit are made smaller.
  virtual std::vector<PlannedProblem> problems(const FreeMemory&,
                                               const std::vector<std::string>&) const {
    return {};
  }
  /// Problems of every kind (data, sizes that no tile divides, all code of a kernel), so small that
  /// tests run every kernel on them under compute-sanitizer: `bench --small`.
  virtual std::vector<PlannedProblem> small() const { return {}; }

 private:
  FamilyFacts facts_;
};

/// All families of this program, sorted by name.
std::vector<Family*> families();

/// All families of this program with all kernels, or only those with rows in `records`: "families"
/// of data/families.schema.json.
nlohmann::ordered_json describe_families(const std::vector<Record>* records = nullptr);

/// `--describe`: prints all. Returns an exit status.
int print_description();

/// Prints which kernels refuse a problem, each reason once: "  refused by NAME, NAME: REASON".
void print_refusals(const std::vector<VariantInfo>& kernels,
                    const std::function<Support(const std::string& kernel)>& supports);

/// The fewest buffer sets for timing: the copy ceiling copies from buffer set to buffer set, and
/// must not read what it has just written.
inline constexpr int min_buffer_sets = 3;

/// The sizes that determine the number of buffer sets.
struct Rotation {
  std::uint64_t l2_bytes = 0;     ///< Of the cache that buffer sets must evict each other from.
  std::uint64_t batch_bytes = 0;  ///< Maximum bytes that a batch may read and write.
};

/// The buffer sets of a warm problem: the one that all launches use, and the one that the copy
/// ceiling copies to. Launches use the one that contains matrix 0 after inputs have been exchanged,
/// because declared outputs exist only for matrix 0.
inline constexpr int warm_buffer_sets = 2, warm_buffer_set = 1;

/// The same problem with a warm cache; its name and its records say so.
PlannedProblem kept_warm(PlannedProblem planned);

/// Number of buffer sets that a problem needs. A warm problem needs `warm_buffer_sets`. A cold one
/// needs enough that inputs and outputs have left the cache before they are used again (3 x its
/// size in addition to the buffer set in use), and that no launch of a batch writes an output
/// twice; `min_buffer_sets` to 4096, because a problem that would need more is so small that a
/// launch determines its time, cold or not.
int wanted_buffer_sets(const PlannedProblem& planned, const Rotation& rotation);

/// Maximum launches per batch without reusing an output; for a warm problem, the launches that move
/// the batch's bytes.
int max_launches(const PlannedProblem& planned, const Rotation& rotation, int buffer_sets);

/// Memory of a problem, including the verifier's: on the device the expected output of each
/// distinct matrix and the declared output of one deviating kernel, on the host an output that was
/// copied back and a declared output.
std::uint64_t device_bytes(const PlannedProblem& planned, int buffer_sets);
std::uint64_t host_bytes(const PlannedProblem& planned);

/// The free memory of the current device and the host (on the host within the limit of the
/// process's control group). Throws if there is no device.
FreeMemory free_memory();

struct BufferSets {
  int count = 0;      ///< 0: the problem does not fit.
  bool cold = false;  ///< Whether the buffer sets keep the problem out of the cache.
  std::string why_none{};
};

/// As many buffer sets as fit in `free`, at most `wanted`; none if fewer than `fewest` fit, or
/// fewer than `warm_buffer_sets` for a warm problem if that is less.
BufferSets buffer_sets_for(const PlannedProblem& planned, const Rotation& rotation,
                           const FreeMemory& free, int fewest = min_buffer_sets);

}  // namespace reprolab
