// Each operation by itself: types x counts x reduce operations x in place or not, in the world and in sub-groups; and
// repeated.
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/operations.h"

namespace twofold::conformance {
namespace {

void RunAll(Rig& rig, ProcessGroup& group, const Operation& operation, std::span<const int64_t> counts) {
  for (const Call& call : Calls(operation, group.size(), counts)) {
    Started started = operation.start(rig, group, call);
    started.work.Wait();
    started.check();
  }
}

// Two groups whose members differ in number and order from the world's. Large tensors are left out: what membership can
// change shows in small ones.
void RunInSubGroups(Rig& rig, const Operation& operation) {
  constexpr int64_t kFew[] = {0, 1, 10, 1009};
  auto parity = rig.world().Split(rig.rank() % 2, -rig.rank(), "parity");
  RunAll(rig, *parity, operation, kFew);
  std::vector<int> list;  // all but rank 0, from the last
  for (int r = rig.size() - 1; r > 0; --r) list.push_back(r);
  if (list.empty()) list.push_back(0);
  auto listed = rig.world().NewGroup(list, "listed");
  if (listed != nullptr) RunAll(rig, *listed, operation, kFew);
}

// The same call with other data, time and again: none delivers what an earlier one has left behind.
void RunAgain(Rig& rig, const Operation& operation) {
  for (uint32_t round = 0; round < 5; ++round) {
    Started started = operation.start(rig, rig.world(), {.dtype = DType::kF32, .count = 5003, .salt = round});
    started.work.Wait();
    started.check();
  }
}

}  // namespace

std::vector<Case> OperationCases() {
  std::vector<Case> cases;
  for (const Operation& o : Operations()) {
    cases.push_back({std::string(o.name), {1, 2, 3, 4, 7}, [&o](Rig& rig) { RunAll(rig, rig.world(), o, kCounts); }});
    cases.push_back({StrCat(o.name, "InSubGroups"), {1, 2, 3, 4, 7}, [&o](Rig& rig) { RunInSubGroups(rig, o); }});
    cases.push_back({StrCat(o.name, "Again"), {1, 2, 3, 4, 7}, [&o](Rig& rig) { RunAgain(rig, o); }});
  }
  return cases;
}

}  // namespace twofold::conformance
