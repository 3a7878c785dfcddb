// The suite finds what is wrong: each deliberate fault fails the cases that are there to find it.
#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/conformance/broken.h"
#include "tests/conformance/operations.h"
#include "tests/conformance/rows.h"

namespace twofold::conformance {
namespace {

constexpr int kRanks = 3;

std::unique_ptr<Fabric> InMemory(double timeout_s) {
  const Row& row = *std::find_if(Rows().begin(), Rows().end(), [](const Row& r) { return r.name == "in_memory"; });
  spec::Spec spec = row.spec;
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  auto fabric = row.make(spec);
  TWOFOLD_CHECK(fabric.ok(), std::string(fabric.status().message()));
  return *std::move(fabric);
}

// What each case says of the fault, without the cases that are content.
std::map<std::string, std::string> Complaints(Fault fault, double timeout_s) {
  const std::unique_ptr<Fabric> fabric = InMemory(timeout_s);
  std::map<std::string, std::string> complaints;
  for (const Case& c : AllCases()) {
    if (std::find(c.worlds.begin(), c.worlds.end(), kRanks) == c.worlds.end()) continue;
    const Outcome outcome = RunCase(*fabric, c, kRanks, /*exact_reductions=*/true,
                                    [fault](RankContext& context) { return BreakWorld(context, fault); });
    std::string text = outcome.status.ok() ? "" : outcome.status.ToString();
    for (const std::string& report : outcome.reports) {
      if (report != kFine) text += report;
    }
    if (!text.empty()) complaints[c.name] = text;
  }
  return complaints;
}

TEST(Broken, ForwardingAloneIsNoFault) {
  for (const auto& [name, text] : Complaints(Fault::kNone, /*timeout_s=*/60)) ADD_FAILURE() << name << ": " << text;
}

struct Expectation {
  Fault fault;
  std::vector<std::string> cases;  // which have to find it, at least
};

void PrintTo(const Expectation& e, std::ostream* out) { *out << FaultName(e.fault); }

class BrokenBy : public testing::TestWithParam<Expectation> {};

TEST_P(BrokenBy, IsFound) {
  const auto complaints = Complaints(GetParam().fault, /*timeout_s=*/5);
  std::vector<std::string> found;
  for (const auto& [name, text] : complaints) found.push_back(name);
  std::cout << FaultName(GetParam().fault) << " is found by " << found.size() << " cases: " << absl::StrJoin(found, ", ") << "\n";
  for (const std::string& name : GetParam().cases) {
    const auto complaint = complaints.find(name);
    if (complaint == complaints.end()) ADD_FAILURE() << name << " does not notice " << FaultName(GetParam().fault);
    else std::cout << name << ": " << complaint->second.substr(0, complaint->second.find('\n')) << "\n";
  }
}

std::vector<Expectation> Expectations() {
  std::vector<std::string> all, again;  // of each operation
  for (const Operation& o : Operations()) {
    all.emplace_back(o.name);
    again.push_back(StrCat(o.name, "Again"));
  }
  const auto with = [](std::vector<std::string> names, std::vector<std::string> more) {
    names.insert(names.end(), more.begin(), more.end());
    return names;
  };
  return {
      {Fault::kSwappedOrder, {"EachReadsWhatTheLastWrote", "EachOverwritesWhatTheLastRead"}},
      {Fault::kSwappedBlocks, {"AllGather", "AllGatherInSubGroups", "Gather", "AllToAll"}},
      {Fault::kDroppedTail, with(all, {"ALineOfRanksPassesData"})},
      {Fault::kStaleResult, with(again, {"ALineOfRanksPassesData", "MessagesStayInOrderWithinATag"})},
      {Fault::kLateCompletion, with(all, {"ALineOfRanksPassesData", "WaitInReverse", "WaitAnyOfMany", "TestUntilDone"})},
      {Fault::kMissingRank, {"AllReduce", "AllReduceInSubGroups", "Reduce", "ReduceScatter"}},
      {Fault::kWrongSource, {"ALineOfRanksPassesData", "AnySource"}},
      {Fault::kOpenBarrier, {"NobodyPassesABarrierAlone"}},
  };
}

INSTANTIATE_TEST_SUITE_P(
    Faults, BrokenBy, testing::ValuesIn(Expectations()),
    [](const testing::TestParamInfo<Expectation>& info) {
      std::string name(FaultName(info.param.fault));
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

}  // namespace
}  // namespace twofold::conformance
