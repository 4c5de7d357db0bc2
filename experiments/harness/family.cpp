#include "experiments/harness/family.hpp"

#include <algorithm>

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

}  // namespace reprolab
