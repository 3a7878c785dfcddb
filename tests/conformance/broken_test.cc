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
namespace broken_test {

constexpr int kRanks = 3;

const Row& RowNamed(std::string_view name) {
  return *std::find_if(Rows().begin(), Rows().end(), [&](const Row& r) { return r.name == name; });
}

std::unique_ptr<Fabric> Make(const Row& row, double timeout_s) {
  spec::Spec spec = row.spec;
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  auto fabric = row.make(spec);
  TWOFOLD_CHECK(fabric.ok(), std::string(fabric.status().message()));
  return *std::move(fabric);
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What each case says of the fault, without the cases that are content. Of `cases`, or with none of them of all.
std::map<std::string, std::string> Complaints(const Row& row, Fault fault, double timeout_s,
                                              const std::vector<std::string>& cases = {}) {
  const std::unique_ptr<Fabric> fabric = Make(row, timeout_s);
  std::map<std::string, std::string> complaints;
  for (const Case& c : AllCases()) {
    if (std::find(c.worlds.begin(), c.worlds.end(), kRanks) == c.worlds.end()) continue;
    if (!cases.empty() && !Contains(cases, c.name)) continue;
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
  for (const auto& [name, text] : Complaints(RowNamed("in_memory"), Fault::kNone, /*timeout_s=*/60))
    ADD_FAILURE() << name << ": " << text;
}

struct Expectation {
  Fault fault;
  std::vector<std::string> cases;  // which have to find it, at least
};

void PrintTo(const Expectation& e, std::ostream* out) { *out << FaultName(e.fault); }

class BrokenBy : public testing::TestWithParam<Expectation> {};

void ExpectFound(const Expectation& e, const std::map<std::string, std::string>& complaints) {
  std::vector<std::string> found;
  for (const auto& [name, text] : complaints) found.push_back(name);
  std::cout << FaultName(e.fault) << " is found by " << found.size() << " cases: " << absl::StrJoin(found, ", ")
            << "\n";
  for (const std::string& name : e.cases) {
    const auto complaint = complaints.find(name);
    if (complaint == complaints.end())
      ADD_FAILURE() << name << " does not notice " << FaultName(e.fault);
    else
      std::cout << name << ": " << complaint->second.substr(0, complaint->second.find('\n')) << "\n";
  }
}

TEST_P(BrokenBy, IsFound) {
  ExpectFound(GetParam(), Complaints(RowNamed("in_memory"), GetParam().fault, /*timeout_s=*/5));
}

// There the cases whose task it is, alone: emulated, all would take minutes.
TEST_P(BrokenBy, IsFoundOnAGpu) {
  const Row& row = RowNamed("in_memory_cuda");
  if (!row.why_not.empty()) GTEST_SKIP() << row.why_not;
  ExpectFound(GetParam(), Complaints(row, GetParam().fault, /*timeout_s=*/5, GetParam().cases));
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
      {Fault::kLateCompletion,
       with(all, {"ALineOfRanksPassesData", "WaitInReverse", "WaitAnyOfMany", "TestUntilDone"})},
      {Fault::kMissingRank, {"AllReduce", "AllReduceInSubGroups", "Reduce", "ReduceScatter"}},
      {Fault::kWrongSource, {"ALineOfRanksPassesData", "AnySource"}},
      {Fault::kOpenBarrier, {"NobodyPassesABarrierAlone"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Faults, BrokenBy, testing::ValuesIn(Expectations()),
                         [](const testing::TestParamInfo<Expectation>& info) {
                           std::string name(FaultName(info.param.fault));
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace broken_test
}  // namespace twofold::conformance
