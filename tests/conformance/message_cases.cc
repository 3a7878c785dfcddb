// Messages between two ranks: order, tags, any source. (Batches of them are an operation, too.)
#include <memory>
#include <vector>

#include "tests/conformance/cases.h"
#include "tests/conformance/operations.h"

namespace twofold::conformance {
namespace {

Series From(int rank, int message = 0) { return {.rank = rank, .salt = static_cast<uint32_t>(message)}; }

// Every type and count, from rank 0 to the last.
void ALineOfRanksPassesData(Rig& rig) {
  int message = 0;
  for (const DType dtype : kTypes) {
    for (const int64_t count : kCounts) {
      const Series sent = From(0, message++);
      Tensor t = rig.rank() == 0 ? rig.Put(dtype, count, sent) : rig.Blank(dtype, count);
      if (rig.rank() > 0) {
        Work w = rig.world().Recv(t, rig.rank() - 1);
        w.Wait();
        rig.Expect(w.source() == rig.rank() - 1, StrCat("source of a receive is ", w.source()));
        rig.ExpectSeries(t, sent, 0, "passed along");
      }
      if (rig.rank() + 1 < rig.size()) {
        rig.world().Send(t, rig.rank() + 1).Wait();
        rig.ExpectSeries(t, sent, 0, "sent");
      }
    }
  }
}

// Messages take a group's ranks, not the world's.
void MessagesInSubGroups(Rig& rig) {
  auto group = rig.world().Split(rig.rank() % 2, -rig.rank(), "parity");
  const int n = group->size(), me = group->rank();
  if (n == 1) return;
  for (const DType dtype : kTypes) {
    Tensor out = rig.Put(dtype, 1009, From(rig.rank()));
    Tensor in = rig.Blank(dtype, 1009);
    const P2p around[] = {{P2p::kSend, out, (me + 1) % n}, {P2p::kRecv, in, (me + n - 1) % n}};
    group->Batch(around).Wait();
    rig.ExpectSeries(in, From(group->ranks()[static_cast<size_t>((me + n - 1) % n)]), 0,
                     "from the one before in the group");
    if (me == 1) group->Send(out, 0, 3).Wait();
    if (me != 0) continue;
    Tensor again = rig.Blank(dtype, 1009);
    Work w = group->Recv(again, kAnySource, 3);
    w.Wait();
    rig.Expect(w.source() == 1, StrCat("source in the group is ", w.source()));
    rig.ExpectSeries(again, From(group->ranks()[1]), 0, "from any source in the group");
  }
}

void MessagesStayInOrderWithinATag(Rig& rig) {
  constexpr int kMessages = 20;
  if (rig.rank() == 0) {
    std::vector<Work> sent;
    for (int i = 0; i < kMessages; ++i) {
      sent.push_back(rig.world().Send(rig.Put(DType::kI32, 50, From(0, i)), 1, i % 2));
    }
    for (Work& w : sent) w.Wait();
  } else if (rig.rank() == 1) {
    for (int i = 0; i < kMessages; ++i) {
      Tensor t = rig.Blank(DType::kI32, 50);
      rig.world().Recv(t, 0, i % 2).Wait();
      rig.ExpectSeries(t, From(0, i), 0, StrCat("message ", i));
    }
  }
}

// Both sides list the messages of a batch in different orders; tags tell them apart.
void TagsAreMatched(Rig& rig) {
  if (rig.rank() > 1) return;
  constexpr Tag kTags[] = {0, 1, 100, kMaxTag};
  std::vector<P2p> batch;
  for (int i = 0; i < 4; ++i) {
    const int which = rig.rank() == 0 ? i : 3 - i;
    Tensor t = rig.rank() == 0 ? rig.Put(DType::kF32, 100, From(0, which)) : rig.Blank(DType::kF32, 100);
    batch.push_back({rig.rank() == 0 ? P2p::kSend : P2p::kRecv, t, 1 - rig.rank(), kTags[which]});
  }
  rig.world().Batch(batch).Wait();
  for (int i = 0; i < 4; ++i) {
    const int which = rig.rank() == 0 ? i : 3 - i;
    rig.ExpectSeries(batch[static_cast<size_t>(i)].tensor, From(0, which), 0, StrCat("tag ", kTags[which]));
  }
}

void AnySource(Rig& rig) {
  constexpr int kRounds = 5;
  constexpr int64_t kCount = 1000;
  if (rig.rank() != 0) {
    for (int i = 0; i < kRounds; ++i) rig.world().Send(rig.Put(DType::kF32, kCount, From(rig.rank(), i)), 0, 7).Wait();
    return;
  }
  std::vector<int> received(static_cast<size_t>(rig.size()));
  for (int i = 0; i < kRounds * (rig.size() - 1); ++i) {
    Tensor t = rig.Blank(DType::kF32, kCount);
    Work w = rig.world().Recv(t, kAnySource, 7);
    w.Wait();
    if (w.source() <= 0 || w.source() >= rig.size()) return rig.Expect(false, StrCat("source is ", w.source()));
    const int round = received[static_cast<size_t>(w.source())]++;
    rig.ExpectSeries(t, From(w.source(), round), 0, StrCat("message ", round, " of ", w.source(), ", from any source"));
  }
  for (int r = 1; r < rig.size(); ++r) rig.Expect(received[static_cast<size_t>(r)] == kRounds, "every message came");
}

// A receive from any source takes the message with its tag, whoever else has one.
void AnySourceTakesItsTag(Rig& rig) {
  constexpr int64_t kCount = 100;
  if (rig.rank() > 0) return rig.world().Send(rig.Put(DType::kF32, kCount, From(rig.rank())), 0, rig.rank()).Wait();
  for (int r = rig.size() - 1; r > 0; --r) {
    Tensor t = rig.Blank(DType::kF32, kCount);
    Work w = rig.world().Recv(t, kAnySource, r);
    w.Wait();
    rig.Expect(w.source() == r, StrCat("source of the message with tag ", r, " is ", w.source()));
    rig.ExpectSeries(t, From(r), 0, StrCat("message of ", r));
  }
}

// What a receive that names its source has taken is there no more for one from any source.
void AnySourceBesideNamedOnes(Rig& rig) {
  constexpr int64_t kCount = 100;
  auto receive = [&](int from, int source, int message) {
    Tensor t = rig.Blank(DType::kF32, kCount);
    Work w = rig.world().Recv(t, from);
    w.Wait();
    rig.Expect(w.source() == source, StrCat("source is ", w.source(), ", not ", source));
    rig.ExpectSeries(t, From(source, message), 0, StrCat("message ", message, " of ", source));
  };
  for (int round = 0; round < 3; ++round) {
    if (rig.rank() == 1) {
      for (int i = 0; i < 2; ++i) rig.world().Send(rig.Put(DType::kF32, kCount, From(1, 2 * round + i)), 0).Wait();
    } else if (rig.rank() == 2) {
      Tensor go = rig.Blank(DType::kU8, 1);
      rig.world().Recv(go, 0).Wait();
      rig.world().Send(rig.Put(DType::kF32, kCount, From(2, round)), 0).Wait();
    } else if (rig.rank() == 0) {
      receive(kAnySource, 1, 2 * round);
      receive(1, 1, 2 * round + 1);
      rig.world().Send(rig.Put(DType::kU8, 1, From(0)), 2).Wait();
      receive(kAnySource, 2, round);
    }
    rig.world().Barrier().Wait();
  }
}

// A receive from any source takes no message of a collective.
void AnySourceBesideCollectives(Rig& rig) {
  for (int round = 0; round < 10; ++round) {
    const Series sent = From(rig.size() - 1, round);
    Tensor t = rig.rank() == rig.size() - 1 ? rig.Put(DType::kI32, 1, sent) : rig.Blank(DType::kI32, 1);
    if (rig.rank() == 0) rig.world().Recv(t, kAnySource).Wait();
    if (rig.rank() == rig.size() - 1) rig.world().Send(t, 0).Wait();
    Tensor sum = rig.Put(std::vector<int32_t>{1});
    rig.world().AllReduce(sum).Wait();
    rig.ExpectEqual(sum, {rig.size()}, "sum after a receive");
    if (rig.rank() == 0) rig.ExpectSeries(t, sent, 0, "received");
  }
}

void WaitAnyGivesOneThatIsDone(Rig& rig) {
  constexpr int64_t kCount = 10;
  std::unique_ptr<ProcessGroup> other = rig.world().Split(0, rig.rank(), "other");
  if (rig.rank() == 0) {
    Tensor early = rig.Blank(DType::kF32, kCount), late = rig.Blank(DType::kF32, kCount);
    std::vector<Work> works = {rig.world().Recv(late, 1), other->Recv(early, 1)};
    rig.Expect(Work::WaitAny(works) == 1, "the one that can be done");
    rig.Expect(!works[0].Test() && works[1].Test(), "one is done, the other is not");
    works[1].Wait();
    rig.ExpectSeries(early, From(1, 0), 0, "early message");
    other->Send(early, 1).Wait();  // now the other side sends the late one
    rig.Expect(Work::WaitAny(std::span(works).first(1)) == 0, "the late one");
    works[0].Wait();
    rig.ExpectSeries(late, From(1, 1), 0, "late message");
  } else if (rig.rank() == 1) {
    Tensor t = rig.Put(DType::kF32, kCount, From(1, 0));
    other->Send(t, 0).Wait();
    other->Recv(t, 0).Wait();
    rig.world().Send(rig.Put(DType::kF32, kCount, From(1, 1)), 0).Wait();
  }
}

}  // namespace

std::vector<Case> MessageCases() {
  const std::vector<int> all = {2, 3, 4, 7};
  return {
      {"ALineOfRanksPassesData", all, ALineOfRanksPassesData},
      {"MessagesInSubGroups", all, MessagesInSubGroups},
      {"MessagesStayInOrderWithinATag", all, MessagesStayInOrderWithinATag},
      {"TagsAreMatched", all, TagsAreMatched},
      {"AnySource", all, AnySource},
      {"AnySourceTakesItsTag", all, AnySourceTakesItsTag},
      {"AnySourceBesideNamedOnes", {3, 4}, AnySourceBesideNamedOnes},
      {"AnySourceBesideCollectives", all, AnySourceBesideCollectives},
      {"WaitAnyGivesOneThatIsDone", all, WaitAnyGivesOneThatIsDone},
  };
}

}  // namespace twofold::conformance
