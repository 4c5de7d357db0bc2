// kernel_on_cpu KERNEL LIBRARY...: checks a kernel's bits on the CPU. The libraries are CUDA files,
// translated and compiled (check.py). Exits with 0 if all are right, with 1 if one is wrong, and
// with 2 if the kernel cannot be checked here.
#include <dlfcn.h>

#include <cstdio>

#include "kernels/nf4/problem.hpp"
#include "kernels/transpose/problem.hpp"
#include "tests/kernels/on_cpu/checks.hpp"

namespace reprolab::on_cpu {
namespace {

constexpr int right = 0, wrong = 1, not_checked = 2;

template <class Problem>
const Kernel<Problem>* registered(const std::string& name) {
  const auto& kernels = Registry<Problem>::instance().kernels();
  const auto entry = kernels.find(name);
  return entry == kernels.end() ? nullptr : &entry->second;
}

Tally checked(const std::string& kernel, std::string& outcome) {
  if (const auto* nf4 = registered<nf4::Problem>(kernel)) {
    outcome = is_bit_exact(*nf4) ? "bit_exact" : "deviation_as_declared";
    return check_nf4(kernel);
  }
  outcome = "bit_exact";
  const auto* transpose = registered<transpose::Problem>(kernel);
  if (transpose != nullptr && is_bit_exact(*transpose)) return check_transpose(kernel);
  throw ::on_cpu::NotEmulated("only nf4 and bit-exact transpose kernels have a check");
}

int report(const std::string& kernel) {
  const char* name = kernel.c_str();
  try {
    reference::self_test_comparison();
    std::string outcome;
    const Tally tally = checked(kernel, outcome);
    if (tally.problems == 0) throw ::on_cpu::NotEmulated(tally.reason);
    std::printf("%s: %s: %lld outputs of %lld problems", name, outcome.c_str(),
                static_cast<long long>(tally.outputs), static_cast<long long>(tally.problems));
    if (tally.unsupported > 0) {
      std::printf(" (%lld more not supported, such as: %s)",
                  static_cast<long long>(tally.unsupported), tally.reason.c_str());
    }
    std::puts("");
    return right;
  } catch (const ::on_cpu::NotEmulated& error) {
    std::fprintf(stderr, "%s: cannot be checked on the CPU: %s\n", name, error.what());
    return not_checked;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: wrong on the CPU: %s\n", name, error.what());
    return wrong;
  }
}

}  // namespace
}  // namespace reprolab::on_cpu

int main(int count, char** arguments) {
  for (int i = 2; i < count; ++i) {
    if (dlopen(arguments[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      std::fprintf(stderr, "%s: cannot be checked on the CPU: %s\n", arguments[1], dlerror());
      return 2;
    }
  }
  return count < 3 ? 2 : reprolab::on_cpu::report(arguments[1]);
}
