#include "harness/workload.hpp"

#include <stdexcept>

namespace reprolab {

Bounds Workload::bounds(int, const std::string&) const {
  throw std::logic_error(facts().name + ": proves no bound");
}

void Workload::write_expected(int, void*, cudaStream_t) const {
  throw std::logic_error(facts().name + ": has bounds alone");
}

void Workload::write_declared(const std::string& kernel, std::span<std::byte>) const {
  throw std::logic_error(facts().name + ": has no declared output of " + kernel);
}

}  // namespace reprolab
