// The sweep's families: ways to copy, and ways to move the bytes of a dequantization and of a
// transposition.
#include "harness/family.hpp"

#include "experiments/ceilings/workload.hpp"

namespace reprolab::ceilings {
namespace {

template <class Problem>
class TrafficFamily : public Family {
 public:
  const FamilyFacts& facts() const override {
    static const FamilyFacts of_problem{.name = Problem::family,
                                        .element = "word",
                                        .types = {{"uint32", 4}},
                                        .moves = Problem::moves,
                                        .baseline = Problem::ceiling};
    return of_problem;
  }
  void add_options(CLI::App&) override {}
  void configure() override {}
  std::vector<VariantInfo> kernels() const override { return registered_variants<Problem>(); }
  std::vector<std::string> data() const override { return {"pattern"}; }
  std::vector<PlannedProblem> problems(const FreeMemory&,
                                       const std::vector<std::string>&) const override {
    std::vector<PlannedProblem> planned;
    for (const std::uint64_t mib : sizes_mib) planned.push_back(plan<Problem>(mib << 20));
    return planned;
  }
};

TrafficFamily<Copy> copies;
TrafficFamily<Mixed> mixtures;
TrafficFamily<Even> evens;
const RegisterFamily registered[] = {RegisterFamily(copies), RegisterFamily(mixtures),
                                     RegisterFamily(evens)};

}  // namespace
}  // namespace reprolab::ceilings
