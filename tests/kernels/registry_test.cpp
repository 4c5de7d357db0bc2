#include "kernels/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace reprolab {
namespace {

/// A kernel family only for this test.
struct Toy {
  int n = 0;
};

Kernel<Toy> toy(const std::string& name) {
  return {.name = name,
          .lineage = "a test",
          .source_file = "tests/kernels/registry_test.cpp",
          .contract = BitExact{},
          .supports = [](const Toy&) { return Support::yes(); },
          .launch = [](const Toy&, cudaStream_t) { return cudaSuccess; }};
}

TEST(Registry, ListsByNameWhateverTheOrderOfRegistration) {
  Registry<Toy> registry;
  for (const char* name : {"b", "c", "a"}) registry.add(toy(name));
  std::vector<std::string> names;
  for (const auto& [name, kernel] : registry.kernels()) {
    names.push_back(name);
    EXPECT_EQ(kernel.name, name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Registry, ARegistrarAddsToTheFamilysOwnRegistry) {
  const auto before = Registry<Toy>::instance().kernels().size();
  const Register<Toy> registered(toy("registered"));
  EXPECT_EQ(Registry<Toy>::instance().kernels().size(), before + 1);
  EXPECT_TRUE(Registry<Toy>::instance().kernels().contains("registered"));
}

TEST(RegistryDeathTest, ASecondKernelOfTheSameNameAborts) {
  Registry<Toy> registry;
  registry.add(toy("twice"));
  EXPECT_EXIT(registry.add(toy("twice")), testing::KilledBySignal(SIGABRT),
              "^reprolab: two kernels register the name 'twice'; rename one\n$");
}

TEST(RegistryDeathTest, AKernelThatCannotBeAskedOrLaunchedAborts) {
  Registry<Toy> registry;
  Kernel<Toy> mute = toy("mute"), lame = toy("lame");
  mute.supports = nullptr;
  lame.launch = nullptr;
  EXPECT_EXIT(registry.add(mute), testing::KilledBySignal(SIGABRT),
              "^reprolab: kernel 'mute' needs .supports and .launch\n$");
  EXPECT_EXIT(registry.add(lame), testing::KilledBySignal(SIGABRT),
              "^reprolab: kernel 'lame' needs .supports and .launch\n$");
}

}  // namespace
}  // namespace reprolab
