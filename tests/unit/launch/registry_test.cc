// The table of fabrics, which is the same in every build but for what can be had.
#include "backends/registry.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "core/base/strings.h"

namespace twofold {
namespace registry_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <class Property>
std::vector<std::string> Which(Property property) {
  std::vector<std::string> names;
  for (const Backend& b : Backends()) {
    if (property(b)) names.emplace_back(b.name);
  }
  return names;
}

TEST(Registry, HasTheSameRowsInEveryBuild) {
  EXPECT_THAT(Which([](const Backend&) { return true; }), ElementsAre("in_memory", "mpi", "gloo", "nccl", "simulated"));
  EXPECT_THAT(Which([](const Backend& b) { return RanksAreProcesses(b); }), ElementsAre("mpi", "gloo", "nccl"));
  EXPECT_THAT(Which([](const Backend& b) { return b.by_variables; }), ElementsAre("gloo", "nccl"));
  EXPECT_THAT(Which([](const Backend& b) { return b.canonical_reductions; }), ElementsAre("in_memory", "simulated"));
}

TEST(Registry, SaysWhyAFabricCannotBeHad) {
  EXPECT_EQ(FindBackend("in_memory")->why_not(), "");
  for (const Backend& b : Backends()) {
    if (b.why_not().empty()) continue;
    spec::Spec spec;
    if (b.name == "mpi") spec.mutable_fabric()->mutable_mpi();
    if (b.name == "gloo") spec.mutable_fabric()->mutable_gloo();
    if (b.name == "nccl") spec.mutable_fabric()->mutable_nccl();
    if (b.name == "simulated") spec.mutable_fabric()->mutable_simulated();
    const auto made = MakeFabric(spec);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(made.status().message()),
                AllOf(HasSubstr(StrCat("fabric.", std::string(b.name), " is not available: ", b.why_not())),
                      HasSubstr("available fabrics: in_memory")));
  }
}

std::vector<std::string> Variables() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) variables.emplace_back(*variable);
  return variables;
}

// In a process where nobody has asked before.
TEST(RegistryDeathTest, AskingWhyNotSetsNoVariable) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ask = [] {
    const std::vector<std::string> before = Variables();
    for (const Backend& b : Backends()) (void)b.why_not();
    _exit(Variables() == before ? 0 : 1);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(0), "");
}

}  // namespace registry_test
}  // namespace twofold
