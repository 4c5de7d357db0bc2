#include "experiments/harness/family.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace reprolab {
namespace {

std::vector<Family*>& registered() {
  static std::vector<Family*> all;
  return all;
}

}  // namespace

std::vector<Family*> families() {
  auto sorted = registered();
  std::ranges::sort(sorted, {}, [](const Family* family) { return family->name(); });
  return sorted;
}

RegisterFamily::RegisterFamily(Family& family) { registered().push_back(&family); }

void print_refusals(const std::vector<VariantInfo>& kernels,
                    const std::function<Support(const std::string& kernel)>& supports) {
  std::map<std::string, std::string> refusing;  // by reason
  for (const auto& kernel : kernels) {
    const Support support = supports(kernel.name);
    if (support.ok) continue;
    std::string& names = refusing[support.reason];
    names += (names.empty() ? "" : ", ") + kernel.name;
  }
  for (const auto& [reason, names] : refusing) fmt::print("  refused by {}: {}\n", names, reason);
}

}  // namespace reprolab
