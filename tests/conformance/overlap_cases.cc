// Many operations in flight: on one group and on several, independent and not, waited for in every way.
#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/operations.h"

namespace twofold::conformance {
namespace {

constexpr int64_t kInFlight = 20'011;  // elements: long enough to be in flight while others are issued

// Starts every operation on `group`, each with another type, and none of them waited for.
std::vector<Started> StartAll(Rig& rig, ProcessGroup& group, uint32_t salt) {
  std::vector<Started> started;
  for (const Operation& o : Operations()) {
    const size_t i = started.size();
    const DType dtype = kTypes[(i + salt) % std::size(kTypes)];
    const int64_t count = i % 3 == 1 ? 7 : kInFlight;
    const int root = o.rooted ? static_cast<int>((i + salt) % static_cast<size_t>(group.size())) : 0;
    const auto data = static_cast<uint32_t>(100 * salt + i);
    started.push_back(o.start(rig, group, {.dtype = dtype, .count = count, .salt = data, .root = root}));
  }
  return started;
}

void CheckAll(const std::vector<Started>& started) {
  for (const Started& s : started) s.check();
}

// Each of them as soon as it is reported, before Wait is called on it.
void TakeAsTheyFinish(std::vector<Started> started) {
  while (!started.empty()) {
    std::vector<Work> works;
    for (const Started& s : started) works.push_back(s.work);
    const auto done = started.begin() + static_cast<std::ptrdiff_t>(Work::WaitAny(works));
    done->check();
    done->work.Wait();
    started.erase(done);
  }
}

void TakeByTest(std::vector<Started> started) {
  while (!started.empty()) {
    const auto done = std::find_if(started.begin(), started.end(), [](const Started& s) { return s.work.Test(); });
    if (done == started.end()) {
      std::this_thread::yield();
      continue;
    }
    done->check();
    done->work.Wait();
    started.erase(done);
  }
}

void WaitInReverse(Rig& rig) {
  std::vector<Started> started = StartAll(rig, rig.world(), 0);
  for (auto s = started.rbegin(); s != started.rend(); ++s) {
    s->work.Wait();
    s->check();
  }
}

// A group's work runs in order: the last is done when all are.
void WaitForTheLast(Rig& rig) {
  std::vector<Started> started = StartAll(rig, rig.world(), 1);
  started.back().work.WaitOn(rig.device().compute());
  CheckAll(started);
}

void WaitAnyOfMany(Rig& rig) { TakeAsTheyFinish(StartAll(rig, rig.world(), 2)); }
void TestUntilDone(Rig& rig) { TakeByTest(StartAll(rig, rig.world(), 3)); }

// Ranks issue to several groups in different orders, and take what comes first: groups do not wait for each other.
void SeveralGroupsInDifferentOrders(Rig& rig) {
  std::vector<int> rotated;
  for (int r = 0; r < rig.size(); ++r) rotated.push_back((r + 1) % rig.size());
  const std::unique_ptr<ProcessGroup> own[] = {rig.world().Split(0, -rig.rank(), "reversed"),
                                               rig.world().NewGroup(rotated, "rotated"),
                                               rig.world().Split(rig.rank() % 2, rig.rank(), "parity")};
  struct {
    ProcessGroup* group;
    uint32_t salt;  // no group's data is another's
  } order[] = {{&rig.world(), 10}, {own[0].get(), 20}, {own[1].get(), 30}, {own[2].get(), 40}};
  for (uint32_t round = 0; round < 3; ++round) {
    std::rotate(std::begin(order), std::begin(order) + (rig.rank() % 3 + 1), std::end(order));
    std::vector<Started> started;
    for (const auto& [group, salt] : order) {
      for (Started& s : StartAll(rig, *group, salt + round)) started.push_back(std::move(s));
    }
    if (round == 0)
      TakeByTest(std::move(started));
    else if (round == 1)
      TakeAsTheyFinish(std::move(started));
    else {
      for (Started& s : started) s.work.Wait();
      CheckAll(started);
    }
  }
}

// Operation by operation, two groups take turns at being first.
void TwoGroupsAlternate(Rig& rig) {
  auto a = rig.world().Split(0, rig.rank(), "a");
  auto b = rig.world().Split(0, -rig.rank(), "b");
  for (uint32_t round = 0; round < 20; ++round) {
    ProcessGroup* order[] = {a.get(), b.get()};
    if ((static_cast<uint32_t>(rig.rank()) + round) % 2 != 0) std::swap(order[0], order[1]);
    const Operation& o = Operations()[round % Operations().size()];
    Started first = o.start(rig, *order[0], {.count = 1000, .salt = round});
    Started second = o.start(rig, *order[1], {.count = 1000, .salt = round});
    Started* waits[] = {&first, &second};
    if (round % 4 < 2) std::swap(waits[0], waits[1]);
    for (Started* s : waits) {
      s->work.Wait();
      s->check();
    }
  }
}

std::vector<int32_t> Ramp(int64_t factor, int64_t count) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<int32_t>(factor * (i % 97 + 1)));
  return values;
}
// What the ranks of the world sum up to when each brings its rank + 1.
int64_t SumOfRanks(const Rig& rig) { return int64_t{rig.size()} * (rig.size() + 1) / 2; }

// Each reads what the one before it writes. The shares are multiples of the ramp's period: every block is a ramp.
void EachReadsWhatTheLastWrote(Rig& rig) {
  ProcessGroup& world = rig.world();
  const int n = rig.size();
  constexpr int64_t kShare = 97 * 200;
  for (int round = 1; round <= 3; ++round) {
    Tensor x = rig.Put(Ramp(round * (rig.rank() + 1), kShare));
    Tensor y = rig.Blank(DType::kI32, kShare * n), z = rig.Blank(DType::kI32, kShare * n);
    world.AllReduce(x);
    world.AllGather(y, x);
    world.AllToAll(z, y);
    world.ReduceScatter(x, z);
    world.Reduce(x, ReduceOp::kSum, 0);
    world.Broadcast(x, 0).Wait();
    const int64_t sum = round * SumOfRanks(rig);
    rig.ExpectEqual(y, Ramp(sum, kShare * n), "all_gather of what all_reduce gave");
    rig.ExpectEqual(z, Ramp(sum, kShare * n), "all_to_all of what all_gather gave");
    rig.ExpectEqual(x, Ramp(sum * n * n, kShare), "broadcast of what reduce gave of what reduce_scatter gave");
  }
}

// Each overwrites what the one before it reads.
void EachOverwritesWhatTheLastRead(Rig& rig) {
  const int root = rig.size() - 1;
  for (int round = 1; round <= 3; ++round) {
    const auto brings = [&](int r) { return Ramp(round * (r + 1), kInFlight); };
    Tensor x = rig.Put(brings(rig.rank())), y = rig.Blank(DType::kI32, kInFlight * rig.size());
    rig.world().AllGather(y, x);
    rig.world().Broadcast(x, root);
    Work last = rig.world().AllReduce(x, ReduceOp::kSum);
    last.Wait();
    for (int r = 0; r < rig.size(); ++r) {
      rig.ExpectEqual(y.Slice(r * kInFlight, kInFlight), brings(r), "all_gather before the broadcast");
    }
    rig.ExpectEqual(x, Ramp(int64_t{round} * (root + 1) * rig.size(), kInFlight), "sum of what was broadcast");
  }
}

// The device's compute stream and the group's: launched before, communicated, launched after, and the host waits for
// none.
void OrderedWithTheComputeStream(Rig& rig) {
  Device& device = rig.device();
  for (int round = 1; round <= 10; ++round) {
    const Tensor in = rig.Put(Ramp(round * (rig.rank() + 1), kInFlight));
    Tensor t = rig.Blank(DType::kI32, kInFlight), out = rig.Blank(DType::kI32, kInFlight);
    device.Launch(device.compute(), ops::Cast{.in = in, .out = t});
    rig.world().AllReduce(t).WaitOn(device.compute());
    device.Launch(device.compute(), ops::Cast{.in = t, .out = out});
    rig.ExpectEqual(out, Ramp(round * SumOfRanks(rig), kInFlight), "launched after all_reduce");
  }
}

// What is issued is kept alive by its work until the program waits, and no longer.
void OperandsStayAliveUntilWaitedFor(Rig& rig) {
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
}

}  // namespace

std::vector<Case> OverlapCases() {
  const std::vector<int> all = {1, 2, 3, 4, 7};
  return {
      {"WaitInReverse", all, WaitInReverse},
      {"WaitForTheLast", all, WaitForTheLast},
      {"WaitAnyOfMany", all, WaitAnyOfMany},
      {"TestUntilDone", all, TestUntilDone},
      {"SeveralGroupsInDifferentOrders", all, SeveralGroupsInDifferentOrders},
      {"TwoGroupsAlternate", all, TwoGroupsAlternate},
      {"EachReadsWhatTheLastWrote", all, EachReadsWhatTheLastWrote},
      {"EachOverwritesWhatTheLastRead", all, EachOverwritesWhatTheLastRead},
      {"OrderedWithTheComputeStream", all, OrderedWithTheComputeStream},
      {"OperandsStayAliveUntilWaitedFor", all, OperandsStayAliveUntilWaitedFor},
  };
}

}  // namespace twofold::conformance
