// Groups: who is a member, in which order, groups of groups, and what a group counts.
#include <algorithm>
#include <vector>

#include "core/comm/device_mesh.h"
#include "tests/conformance/cases.h"

namespace twofold::conformance {
namespace {

// What the ranks of `group` sum up to when each brings its world rank + 1.
int32_t SumOfRanks(const ProcessGroup& group) {
  int32_t sum = 0;
  for (int r : group.ranks()) sum += r + 1;
  return sum;
}
void ExpectSum(Rig& rig, ProcessGroup& group) {
  Tensor t = rig.Put({rig.rank() + 1, 2 * (rig.rank() + 1)});
  group.AllReduce(t).Wait();
  rig.ExpectEqual(t, {SumOfRanks(group), 2 * SumOfRanks(group)}, StrCat("sum over ", group.name()));
}

void SplitByColorOrdersByKeyThenRank(Rig& rig) {
  const int color = rig.rank() % 2;
  auto group = rig.world().Split(color, -rig.rank(), "parity");
  std::vector<int> expected;
  for (int r = rig.size() - 1; r >= 0; --r) {
    if (r % 2 == color) expected.push_back(r);
  }
  rig.Expect(group->ranks() == expected && group->name() == "parity", "members, highest first");
  rig.Expect(expected[static_cast<size_t>(group->rank())] == rig.rank(), "rank in the group");
  ExpectSum(rig, *group);
  auto tied = rig.world().Split(0, 5, "tied");
  rig.Expect(tied->rank() == rig.rank(), "equal keys stay in rank order");
  ExpectSum(rig, *tied);
}

void NegativeColorIsInNoGroup(Rig& rig) {
  auto group = rig.world().Split(rig.rank() == 0 ? -1 : 3, 0, "others");
  rig.Expect((group == nullptr) == (rig.rank() == 0), "rank 0 alone is left out");
  if (group != nullptr) ExpectSum(rig, *group);
  ExpectSum(rig, rig.world());
}

void ListedRanksInTheirOrder(Rig& rig) {
  std::vector<int> list;
  for (int r = rig.size() - 1; r >= 0; r -= 2) list.push_back(r);
  auto group = rig.world().NewGroup(list, "listed");
  const auto place = std::find(list.begin(), list.end(), rig.rank());
  rig.Expect((group != nullptr) == (place != list.end()), "members and others");
  if (group == nullptr) return;
  rig.Expect(group->rank() == place - list.begin() && group->ranks() == list, "order of the list");
  ExpectSum(rig, *group);
}

void GroupsOfGroups(Rig& rig) {
  auto half = rig.world().Split(rig.rank() % 2, rig.rank(), "half");
  auto quarter = half->Split(half->rank() % 2, half->rank(), "quarter");
  for (int r : quarter->ranks()) rig.Expect(r % 4 == rig.rank() % 4, "ranks are world ranks");
  ExpectSum(rig, *quarter);
  ExpectSum(rig, *half);
}

// Groups come and go, work of the older ones in flight.
void ManyGroupsInSuccession(Rig& rig) {
  for (int round = 0; round < 20; ++round) {
    Tensor t = rig.Put({rig.rank() + 1});
    Work w = rig.world().AllReduce(t);
    auto group = rig.world().Split((rig.rank() + round) % 2, round % 3 == 0 ? -rig.rank() : rig.rank(), "passing");
    ExpectSum(rig, *group);
    w.Wait();
    rig.ExpectEqual(t, {SumOfRanks(rig.world())}, "sum over the world");
  }
}

// Nobody passes a barrier before everybody has reached it. One rank is late: it comes when all others are in the
// barrier and have since heard from it.
void NobodyPassesABarrierAlone(Rig& rig) {
  auto side = rig.world().Split(0, rig.rank(), "side");
  Tensor token = rig.Put({rig.rank()});
  for (int late = 0; late < rig.size(); ++late) {
    if (rig.rank() == late) {
      for (int r = 0; r < rig.size(); ++r) {
        if (r == late) continue;
        side->Recv(token, r).Wait();
        side->Send(token, r).Wait();
        side->Recv(token, r).Wait();
      }
      rig.world().Barrier().Wait();
    } else {
      Work barrier = rig.world().Barrier();
      side->Send(token, late).Wait();
      side->Recv(token, late).Wait();
      rig.Expect(!barrier.Test(), StrCat("passed a barrier that rank ", late, " has not reached"));
      side->Send(token, late).Wait();
      barrier.Wait();
    }
  }
}

void CountsWhatWasCommunicated(Rig& rig) {
  Tensor t = rig.Put(std::vector<int32_t>(100));
  for (int i = 0; i < 3; ++i) rig.world().AllReduce(t).Wait();
  const auto& entries = rig.context().communication().entries();
  if (rig.size() == 1) return rig.Expect(entries.empty(), "a group of one communicates nothing");
  const auto found = entries.find({"world", Communication::kAllReduce});
  rig.Expect(found != entries.end(), "all_reduce of world is counted");
  if (found == entries.end()) return;
  rig.Expect(found->second.count == 3 && found->second.bytes == Bytes(1200), "calls and payload");
  rig.Expect(found->second.seconds > 0, "time");
}

void EvenGroupsAreConsecutiveOrStrided(Rig& rig) {
  using Pattern = ProcessGroup::Pattern;
  const int n = rig.size();
  for (int size = 1; size <= n; ++size) {
    if (n % size != 0) continue;
    const int count = n / size;
    for (Pattern pattern : {Pattern::kConsecutive, Pattern::kStrided}) {
      auto group = rig.world().SplitEvenly(size, pattern, "even");
      std::vector<int> expected;
      for (int r = 0; r < n; ++r) {
        const bool together =
            pattern == Pattern::kConsecutive ? r / size == rig.rank() / size : r % count == rig.rank() % count;
        if (together) expected.push_back(r);
      }
      rig.Expect(group->ranks() == expected && group->name() == "even", StrCat("members of groups of ", size));
      rig.Expect(expected[static_cast<size_t>(group->rank())] == rig.rank(), "rank in the group");
      ExpectSum(rig, *group);
    }
  }
}

// Two groups of all ranks are two streams: what is issued to one does not wait for what was issued to the other.
void AGroupAgainIsAnotherStream(Rig& rig) {
  auto gather = rig.world().SplitEvenly(rig.size(), ProcessGroup::Pattern::kConsecutive, "gather");
  auto reduce = gather->SplitEvenly(rig.size(), ProcessGroup::Pattern::kStrided, "reduce");
  rig.Expect(reduce->ranks() == rig.world().ranks() && reduce->rank() == rig.rank(), "the same ranks");
  for (int round = 0; round < 10; ++round) {
    Tensor one = rig.Put({rig.rank() + 1}), other = rig.Put({rig.rank() + 1});
    std::vector<Work> works;
    for (int k = 0; k < 2; ++k) {  // in an order that differs between ranks, and so between streams
      ProcessGroup& group = (rig.rank() + k) % 2 == 0 ? *gather : *reduce;
      works.push_back(group.AllReduce(&group == gather.get() ? one : other));
    }
    for (Work& w : works) w.Wait();
    rig.ExpectEqual(one, {SumOfRanks(rig.world())}, "sum on the first stream");
    rig.ExpectEqual(other, {SumOfRanks(rig.world())}, "sum on the second stream");
  }
}

void MeshSlicesTheWorld(Rig& rig) {
  const int n = rig.size();
  const MeshShape shape = n == 4 ? MeshShape{.dp = 2, .tp = 2} : n == 7 ? MeshShape{.pp = 7} : MeshShape{.dp = n};
  DeviceMesh mesh(rig.world(), shape);
  int index = 0;
  for (const Axis axis : shape.order) {
    ProcessGroup& group = mesh.Group(static_cast<MeshGroup>(axis));
    rig.Expect(group.size() == shape.extent(axis), "extent");
    rig.Expect(group.rank() == mesh.Coordinate(axis), "coordinate");
    index = index * shape.extent(axis) + mesh.Coordinate(axis);
    ExpectSum(rig, group);
  }
  for (const MeshGroup along : {MeshGroup::kReplicas, MeshGroup::kExpertReplicas, MeshGroup::kModel, MeshGroup::kEp})
    ExpectSum(rig, mesh.Group(along));
  rig.Expect(index == rig.rank(), "coordinates name the rank, tp innermost");
}

}  // namespace

std::vector<Case> GroupCases() {
  const std::vector<int> all = {1, 2, 3, 4, 7};
  return {
      {"SplitByColorOrdersByKeyThenRank", all, SplitByColorOrdersByKeyThenRank},
      {"NegativeColorIsInNoGroup", all, NegativeColorIsInNoGroup},
      {"ListedRanksInTheirOrder", all, ListedRanksInTheirOrder},
      {"GroupsOfGroups", all, GroupsOfGroups},
      {"ManyGroupsInSuccession", all, ManyGroupsInSuccession},
      {"NobodyPassesABarrierAlone", all, NobodyPassesABarrierAlone},
      {"CountsWhatWasCommunicated", all, CountsWhatWasCommunicated},
      {"EvenGroupsAreConsecutiveOrStrided", all, EvenGroupsAreConsecutiveOrStrided},
      {"AGroupAgainIsAnotherStream", all, AGroupAgainIsAnotherStream},
      {"MeshSlicesTheWorld", all, MeshSlicesTheWorld},
  };
}

}  // namespace twofold::conformance
