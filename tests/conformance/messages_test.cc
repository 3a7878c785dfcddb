// Messages between two ranks: order, tags, any source, batches.
#include "tests/conformance/fabrics.h"

namespace twofold::conformance {
namespace {

class Messages : public ConformanceTest {};
INSTANTIATE_TEST_SUITE_P(Fabrics, Messages, testing::ValuesIn(Parameters({2, 3, 4, 7})), ParameterName);

TEST_P(Messages, ALineOfRanksPassesData) {
  OnEveryRank([](Rig& rig) {
    ForEachType([&]<class T>() {
      for (int64_t count : kCounts) {
        Tensor t = rig.Put(Values<T>(rig.rank(), count));
        if (rig.rank() > 0) {
          Work w = rig.world().Recv(t, rig.rank() - 1);
          w.Wait();
          rig.Expect(w.source() == rig.rank() - 1, "source of a receive");
        }
        if (rig.rank() + 1 < rig.size()) rig.world().Send(t, rig.rank() + 1).Wait();
        rig.ExpectEqual(t, Values<T>(0, count), "passed along");
      }
    });
  });
}

TEST_P(Messages, StayInOrderWithinATag) {
  OnEveryRank([](Rig& rig) {
    constexpr int kMessages = 20;
    if (rig.rank() == 0) {
      std::vector<Work> sent;
      for (int i = 0; i < kMessages; ++i) sent.push_back(rig.world().Send(rig.Put(Values<int32_t>(0, 50, i)), 1, i % 2));
      for (Work& w : sent) w.Wait();
    } else if (rig.rank() == 1) {
      for (int i = 0; i < kMessages; ++i) {
        Tensor t = rig.Put(std::vector<int32_t>(50));
        rig.world().Recv(t, 0, i % 2).Wait();
        rig.ExpectEqual(t, Values<int32_t>(0, 50, static_cast<uint64_t>(i)), StrCat("message ", i));
      }
    }
  });
}

// Both sides list the messages of a batch in different orders; tags tell them apart.
TEST_P(Messages, TagsAreMatched) {
  OnEveryRank([](Rig& rig) {
    if (rig.rank() > 1) return;
    std::vector<P2p> batch;
    std::vector<Tensor> tensors;
    for (int i = 0; i < 4; ++i) {
      const int tag = rig.rank() == 0 ? i : 3 - i;
      tensors.push_back(rig.Put(rig.rank() == 0 ? Values<float>(0, 100, static_cast<uint64_t>(tag)) : std::vector<float>(100)));
      batch.push_back({rig.rank() == 0 ? P2p::kSend : P2p::kRecv, tensors.back(), 1 - rig.rank(), tag});
    }
    rig.world().Batch(batch).Wait();
    for (int i = 0; i < 4; ++i) {
      const int tag = rig.rank() == 0 ? i : 3 - i;
      rig.ExpectEqual(tensors[static_cast<size_t>(i)], Values<float>(0, 100, static_cast<uint64_t>(tag)), StrCat("tag ", tag));
    }
  });
}

TEST_P(Messages, AnySource) {
  OnEveryRank([](Rig& rig) {
    constexpr int kRounds = 5;
    if (rig.rank() != 0) {
      for (int i = 0; i < kRounds; ++i) rig.world().Send(rig.Put(Values<float>(rig.rank(), 1000, i)), 0, 7).Wait();
      return;
    }
    std::vector<int> received(static_cast<size_t>(rig.size()));
    for (int i = 0; i < kRounds * (rig.size() - 1); ++i) {
      Tensor t = rig.Put(std::vector<float>(1000));
      Work w = rig.world().Recv(t, kAnySource, 7);
      w.Wait();
      rig.Expect(w.source() > 0 && w.source() < rig.size(), "source");
      const int round = received[static_cast<size_t>(w.source())]++;
      rig.ExpectEqual(t, Values<float>(w.source(), 1000, static_cast<uint64_t>(round)), "from any source, in its order");
    }
    for (int r = 1; r < rig.size(); ++r) rig.Expect(received[static_cast<size_t>(r)] == kRounds, "every message came");
  });
}

// A receive from any source takes no message of a collective.
TEST_P(Messages, AnySourceBesideCollectives) {
  OnEveryRank([](Rig& rig) {
    for (int round = 0; round < 10; ++round) {
      Tensor t = rig.Put(Values<int32_t>(rig.rank(), 1));
      if (rig.rank() == 0) rig.world().Recv(t, kAnySource).Wait();
      if (rig.rank() == rig.size() - 1) rig.world().Send(t, 0).Wait();
      Tensor sum = rig.Put(std::vector<int32_t>{1});
      rig.world().AllReduce(sum).Wait();
      rig.ExpectEqual(sum, std::vector<int32_t>{rig.size()}, "sum after a receive");
      if (rig.rank() == 0) rig.ExpectEqual(t, Values<int32_t>(rig.size() - 1, 1), "received");
    }
  });
}

// Everyone sends to everyone at once: nothing but progress of all parts together gets through.
TEST_P(Messages, BatchExchangesWithAll) {
  OnEveryRank([](Rig& rig) {
    for (int64_t count : kCounts) {
      std::vector<P2p> batch;
      std::vector<Tensor> received(static_cast<size_t>(rig.size()));
      for (int r = 0; r < rig.size(); ++r) {
        if (r == rig.rank()) continue;
        batch.push_back({P2p::kSend, rig.Put(Values<double>(rig.rank(), count, static_cast<uint64_t>(r))), r});
        received[static_cast<size_t>(r)] = rig.Put(std::vector<double>(static_cast<size_t>(count)));
        batch.push_back({P2p::kRecv, received[static_cast<size_t>(r)], r});
      }
      rig.world().Batch(batch).Wait();
      for (int r = 0; r < rig.size(); ++r) {
        if (r == rig.rank()) continue;
        rig.ExpectEqual(received[static_cast<size_t>(r)], Values<double>(r, count, static_cast<uint64_t>(rig.rank())), "batch");
      }
    }
  });
}

TEST_P(Messages, WaitAnyGivesOneThatIsDone) {
  OnEveryRank([](Rig& rig) {
    std::unique_ptr<ProcessGroup> other = rig.world().Split(0, rig.rank(), "other");
    if (rig.rank() == 0) {
      Tensor early = rig.Put(std::vector<float>(10)), late = rig.Put(std::vector<float>(10));
      std::vector<Work> works = {rig.world().Recv(late, 1), other->Recv(early, 1)};
      const size_t first = Work::WaitAny(works);
      rig.Expect(first == 1, "the one that can be done");
      rig.Expect(works[1].Test(), "is done");
      works[1].Wait();
      rig.ExpectEqual(early, Values<float>(1, 10), "early message");
      other->Send(early, 1).Wait();  // now the other side sends the late one
      rig.Expect(Work::WaitAny(std::span(works).first(1)) == 0, "the late one");
      works[0].Wait();
      rig.ExpectEqual(late, Values<float>(1, 10, 1), "late message");
    } else if (rig.rank() == 1) {
      Tensor t = rig.Put(Values<float>(1, 10));
      other->Send(t, 0).Wait();
      other->Recv(t, 0).Wait();
      rig.world().Send(rig.Put(Values<float>(1, 10, 1)), 0).Wait();
    }
  });
}

}  // namespace
}  // namespace twofold::conformance
