#include "harness/family.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "harness/errors.hpp"

namespace reprolab {
namespace {

using nlohmann::ordered_json;

/// In the order of Contract::Kind.
constexpr const char* contract_names[] = {"bit_exact", "declared_deviation", "within_bound"};

std::vector<Family*>& registered() {
  static std::vector<Family*> all;
  return all;
}

ordered_json describe(const FamilyFacts& facts) {
  ordered_json types = ordered_json::array(), parts = ordered_json::array();
  for (const auto& [name, bytes] : facts.types) types.push_back({{"name", name}, {"bytes", bytes}});
  for (const auto& [name, rows, columns] : facts.parts) {
    parts.push_back({{"name", name}, {"rows", rows}, {"columns", columns}});
  }
  return {{"name", facts.name},
          {"element", facts.element},
          {"types", types},
          {"moves", facts.moves},
          {"baseline", facts.baseline},
          {"size_option", facts.size_option},
          {"profiled_size", facts.profiled_size},
          {"measured_code", facts.measured_code},
          {"parts", parts},
          {"kernels", ordered_json::array()}};
}

ordered_json describe(const VariantInfo& kernel) {
  return {{"name", kernel.name},
          {"language", kernel.language},
          {"counterpart", kernel.counterpart},
          {"lineage", kernel.lineage},
          {"source_file", kernel.source_file},
          {"contract", contract_names[static_cast<std::size_t>(kernel.contract.kind)]},
          {"contract_text", kernel.contract.text}};
}

}  // namespace

std::vector<Family*> families() {
  std::vector<Family*> all = registered();
  std::ranges::sort(all, {}, [](const Family* family) { return family->name(); });
  return all;
}

Family::Family(FamilyFacts facts) : facts_(std::move(facts)) { registered().push_back(this); }

ordered_json describe_families(const std::vector<Record>* records) {
  std::set<std::string> names, kernels;  // that have rows
  for (const Record& record : records ? *records : std::vector<Record>{}) {
    if (record.problem.contains("family")) names.insert(record.problem.at("family"));
    kernels.insert(record.variant.name);
  }
  ordered_json all = ordered_json::array();
  for (const Family* family : families()) {
    ordered_json described = describe(family->facts());
    for (const VariantInfo& kernel : family->kernels()) {
      if (!records || kernels.contains(kernel.name)) {
        described["kernels"].push_back(describe(kernel));
      }
    }
    const bool has_rows = names.contains(family->name()) || !described["kernels"].empty();
    if (!records || has_rows) all.push_back(std::move(described));
  }
  return all;
}

int print_description() {
  const ordered_json all = {{"schema", "reprolab-families/1"}, {"families", describe_families()}};
  fmt::print("{}\n", all.dump(1));
  return exit_verified;
}

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
