// Groups within groups, several at once, and work that overlaps.
#include "core/comm/device_mesh.h"
#include "tests/conformance/fabrics.h"

namespace twofold::conformance {
namespace {

// What the ranks of `group` sum up to when each brings its world rank + 1.
int32_t SumOfRanks(const ProcessGroup& group) {
  int32_t sum = 0;
  for (int r : group.ranks()) sum += r + 1;
  return sum;
}
void ExpectSum(Rig& rig, ProcessGroup& group) {
  Tensor t = rig.Put(std::vector<int32_t>{rig.rank() + 1, 2 * (rig.rank() + 1)});
  group.AllReduce(t).Wait();
  rig.ExpectEqual(t, std::vector<int32_t>{SumOfRanks(group), 2 * SumOfRanks(group)}, StrCat("sum over ", group.name()));
}

class Groups : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Groups, testing::ValuesIn(Parameters({1, 2, 3, 4, 7})), ParameterName);

TEST_P(Groups, SplitByColorOrdersByKeyThenRank) {
  OnEveryRank([](Rig& rig) {
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
  });
}

TEST_P(Groups, NegativeColorIsInNoGroup) {
  OnEveryRank([](Rig& rig) {
    auto group = rig.world().Split(rig.rank() == 0 ? -1 : 3, 0, "others");
    rig.Expect((group == nullptr) == (rig.rank() == 0), "rank 0 alone is left out");
    if (group != nullptr) ExpectSum(rig, *group);
    ExpectSum(rig, rig.world());
  });
}

TEST_P(Groups, ListedRanksInTheirOrder) {
  OnEveryRank([](Rig& rig) {
    std::vector<int> list;
    for (int r = rig.size() - 1; r >= 0; r -= 2) list.push_back(r);
    auto group = rig.world().NewGroup(list, "listed");
    const auto place = std::find(list.begin(), list.end(), rig.rank());
    rig.Expect((group != nullptr) == (place != list.end()), "members and others");
    if (group == nullptr) return;
    rig.Expect(group->rank() == place - list.begin() && group->ranks() == list, "order of the list");
    ExpectSum(rig, *group);
    Tensor t = rig.Put(Values<float>(rig.rank(), 33));
    group->Broadcast(t, group->size() - 1).Wait();
    rig.ExpectEqual(t, Values<float>(list.back(), 33), "broadcast by rank in the group");
  });
}

TEST_P(Groups, GroupsOfGroups) {
  OnEveryRank([](Rig& rig) {
    auto half = rig.world().Split(rig.rank() % 2, rig.rank(), "half");
    auto quarter = half->Split(half->rank() % 2, half->rank(), "quarter");
    for (int r : quarter->ranks()) rig.Expect(r % 4 == rig.rank() % 4, "ranks are world ranks");
    ExpectSum(rig, *quarter);
    ExpectSum(rig, *half);
  });
}

// Ranks issue to two groups in different orders: groups do not wait for each other.
TEST_P(Groups, IssuedInDifferentOrders) {
  OnEveryRank([](Rig& rig) {
    auto a = rig.world().Split(0, rig.rank(), "a");
    auto b = rig.world().Split(0, -rig.rank(), "b");
    for (int round = 0; round < 20; ++round) {
      Tensor x = rig.Put(std::vector<int32_t>(1000, rig.rank() + 1)), y = rig.Put(std::vector<int32_t>(10, rig.rank() + 1));
      Work wx, wy;
      if (rig.rank() % 2 == 0) {
        wx = a->AllReduce(x);
        wy = b->AllReduce(y);
      } else {
        wy = b->AllReduce(y);
        wx = a->AllReduce(x);
      }
      (round % 2 == 0 ? wx : wy).Wait();
      (round % 2 == 0 ? wy : wx).Wait();
      rig.ExpectEqual(x, std::vector<int32_t>(1000, SumOfRanks(*a)), "group a");
      rig.ExpectEqual(y, std::vector<int32_t>(10, SumOfRanks(*b)), "group b");
    }
  });
}

TEST_P(Groups, ManyInFlightWaitForTheLast) {
  OnEveryRank([](Rig& rig) {
    std::vector<Tensor> tensors;
    Work last;
    for (int i = 0; i < 16; ++i) {
      tensors.push_back(rig.Put(std::vector<int32_t>(5000, (rig.rank() + 1) * i)));
      last = rig.world().AllReduce(tensors.back());
    }
    last.WaitOn(rig.context().device().compute());
    for (int i = 0; i < 16; ++i) {
      rig.ExpectEqual(tensors[static_cast<size_t>(i)], std::vector<int32_t>(5000, SumOfRanks(rig.world()) * i), "in flight");
    }
  });
}

TEST_P(Groups, OperandsStayAliveUntilWaitedFor) {
  OnEveryRank([](Rig& rig) {
    Tensor out = rig.Put(std::vector<int32_t>(static_cast<size_t>(rig.size())));
    const Bytes before = rig.context().memory().live;
    Work w;
    {
      const Tensor shard = rig.Put(std::vector<int32_t>{rig.rank()});
      w = rig.world().AllGather(out, shard);
    }
    if (rig.size() > 1) rig.Expect(rig.context().memory().live > before, "the operand is held");
    w.Wait();
    rig.Expect(rig.context().memory().live == before, "and let go by the wait");
    std::vector<int32_t> expected;
    for (int r = 0; r < rig.size(); ++r) expected.push_back(r);
    rig.ExpectEqual(out, expected, "gathered ranks");
  });
}

// Nobody passes a barrier before everybody has reached it.
TEST_P(Groups, Barrier) {
  OnEveryRank([](Rig& rig) {
    for (int round = 0; round < 20; ++round) rig.world().Barrier().Wait();
    ExpectSum(rig, rig.world());
  });
}

TEST_P(Groups, CountsWhatWasCommunicated) {
  OnEveryRank([](Rig& rig) {
    Tensor t = rig.Put(std::vector<float>(100));
    for (int i = 0; i < 3; ++i) rig.world().AllReduce(t).Wait();
    const auto& entries = rig.context().communication().entries();
    if (rig.size() == 1) return rig.Expect(entries.empty(), "a group of one communicates nothing");
    const auto found = entries.find({"world", Communication::kAllReduce});
    rig.Expect(found != entries.end(), "all_reduce of world is counted");
    if (found == entries.end()) return;
    rig.Expect(found->second.count == 3 && found->second.bytes == Bytes(1200), "calls and payload");
    rig.Expect(found->second.seconds > 0, "time");
  });
}

TEST_P(Groups, MeshSlicesTheWorld) {
  const int n = GetParam().ranks;
  const MeshShape shape = n == 4 ? MeshShape{.dp = 2, .tp = 2} : n == 7 ? MeshShape{.pp = 7} : MeshShape{.dp = n};
  OnEveryRank([shape](Rig& rig) {
    DeviceMesh mesh(rig.world(), shape);
    int index = 0;
    for (int a = 0; a < kAxes; ++a) {
      const Axis axis = static_cast<Axis>(a);
      ProcessGroup& group = mesh.Group(axis);
      rig.Expect(group.size() == shape.extent(axis), "extent");
      rig.Expect(group.rank() == mesh.Coordinate(axis), "coordinate");
      index = index * shape.extent(axis) + mesh.Coordinate(axis);
      ExpectSum(rig, group);
    }
    rig.Expect(index == rig.rank(), "coordinates name the rank, tp innermost");
  });
}

}  // namespace
}  // namespace twofold::conformance
