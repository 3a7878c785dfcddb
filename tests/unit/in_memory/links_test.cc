// Links that are slowed down: what takes how long, against closed forms; and ranks that really wait for it.
#include "backends/in_memory/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"
#include "tests/seed.h"

namespace twofold::in_memory {
namespace links_test {

using sim::CollectiveShape;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kRate = 1e9, kLatency = 1e-5;

std::vector<int> First(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r) ranks[static_cast<size_t>(r)] = r;
  return ranks;
}
std::vector<double> Arrivals(const Links& links, const Travel& travel, int ranks) {
  std::vector<double> arrivals;
  for (int r = 0; r < ranks; ++r) arrivals.push_back(links.Arrival(travel, r));
  return arrivals;
}
std::vector<double> Play(Communication::Kind kind, int ranks, double bytes, double start = 0) {
  Links links(ranks, kRate, kLatency);
  return Arrivals(links, *links.Collective({kind, ranks, bytes, 0, {}}, First(ranks), start), ranks);
}

TEST(Links, AMessageTakesLatencyAndItsBytes) {
  Links links(2, kRate, kLatency);
  EXPECT_DOUBLE_EQ(links.Arrival(*links.Message(0, 1, 1e6, 5), 1), 5 + 1e-3 + kLatency);
}

TEST(Links, MessagesShareTheWaysTheyMeetOn) {
  Links links(4, kRate, kLatency);
  auto at = [&links](const TravelPtr& message) { return links.Arrival(*message, 1); };
  const TravelPtr first = links.Message(0, 1, 1e6, 0);
  EXPECT_NEAR(at(first), 1e-3 + kLatency, 1e-9);
  const TravelPtr second = links.Message(0, 2, 1e6, 0);  // half of 0's way out each
  EXPECT_NEAR(at(first), 2e-3 + kLatency, 1e-9);
  EXPECT_NEAR(at(second), 2e-3 + kLatency, 1e-9);
  const TravelPtr third = links.Message(3, 2, 1e6, 0);  // half of 2's way in
  EXPECT_NEAR(at(third), 2e-3 + kLatency, 1e-9);
  const TravelPtr fourth = links.Message(1, 0, 1e6, 0);  // full duplex: meets nobody
  EXPECT_NEAR(at(fourth), 1e-3 + kLatency, 1e-9);
  const TravelPtr late = links.Message(0, 3, 0.5e6, 1e-3);  // third of the way out: 0.5 MB are left of each, for 1.5 ms
  EXPECT_NEAR(at(first), 2.5e-3 + kLatency, 1e-5);
  EXPECT_NEAR(at(late), 2.5e-3 + kLatency, 1e-5);
}

// Ranks of a site share its link to the other sites; within a site nothing changes.
TEST(Links, SitesShareTheirWideAreaLinks) {
  constexpr double kBetween = 2e8, kFar = 0.01;
  const auto links = [] {
    return Links(4, kRate, kLatency, {.count = 2, .bytes_per_second = kBetween, .latency_s = kFar});
  };
  Links alone = links();
  EXPECT_NEAR(alone.Arrival(*alone.Message(0, 1, 1e6, 0), 1), 1e6 / kRate + kLatency, 1e-9);
  EXPECT_NEAR(alone.Arrival(*alone.Message(1, 2, 1e6, 1), 1), 1 + 1e6 / kBetween + kLatency + kFar, 1e-9);
  Links shared = links();
  const TravelPtr one = shared.Message(0, 2, 1e6, 0), other = shared.Message(1, 3, 1e6, 0),
                  back = shared.Message(2, 0, 1e6, 0), inside = shared.Message(0, 1, 1e6, 0);
  EXPECT_NEAR(shared.Arrival(*one, 1), 2e6 / kBetween + kLatency + kFar, 1e-9);
  EXPECT_NEAR(shared.Arrival(*other, 1), 2e6 / kBetween + kLatency + kFar, 1e-9);
  EXPECT_NEAR(shared.Arrival(*back, 1), 1e6 / kBetween + kLatency + kFar, 1e-9);  // full duplex: meets nobody
  // What rank 0 sends abroad leaves all but half of the wide-area rate to its neighbour (both start within 10 ms).
  EXPECT_NEAR(shared.Arrival(*inside, 1), 1e6 / kRate + kLatency, 1e-9);
}

// A ring over both sites crosses each wide-area link once per step: n - 1 steps of 1/n of the bytes, twice.
TEST(Links, ARingOverSitesRunsAtTheWideAreaRate) {
  constexpr double kBetween = 1e7, kBytes = 64e6;
  Links links(4, kRate, 0, {.count = 2, .bytes_per_second = kBetween, .latency_s = 0});
  const TravelPtr all = links.Collective({Communication::Kind::kAllReduce, 4, kBytes, 0, {}}, First(4), 0);
  EXPECT_NEAR(links.Arrival(*all, 0), 2 * 3 * kBytes / 4 / kBetween, 1e-6);
}

// All ranks of a site share its link, so the algorithm counts that takes the fewest bytes over it: a ring carries 7 of
// 8 parts, where recursive doubling carries 16. Where latency outweighs bytes, doubling's three rounds win.
TEST(Links, BetweenSitesTheAlgorithmIsTakenThatIsFastestOnTheirSharedLink) {
  constexpr double kBetween = 1e8, kFar = 1e-3;
  const auto gather = [](double bytes, double far) {
    Links links(8, kRate, 0, {.count = 2, .bytes_per_second = kBetween, .latency_s = far});
    return links.Arrival(*links.Collective({Communication::Kind::kAllGather, 8, bytes, 0, {}}, First(8), 0), 0);
  };
  EXPECT_NEAR(gather(8e6, 0), 7 * 1e6 / kBetween, 1e-6);
  EXPECT_NEAR(gather(8, kFar), kFar, 1e-5);  // only the round that crosses sites has their latency
}

// A rank may hear a little late that it could have begun; what others were told meanwhile is put right.
TEST(Links, WhatIsToldALittleLateCountsFromItsStart) {
  Links links(2, kRate, 0);
  const TravelPtr first = links.Message(0, 1, 10e6, 4e-3), earlier = links.Message(0, 1, 10e6, 1e-3);
  EXPECT_NEAR(links.Arrival(*earlier, 1), 18e-3, 1e-9);  // 3 MB alone, then half
  EXPECT_NEAR(links.Arrival(*first, 1), 21e-3, 1e-9);
}

// Random traffic: every byte of a rank goes through its own way, which is never faster than it is and never idle while
// something waits for it alone.
TEST(Links, AreBusyAsLongAsTheirBytesTake) {
  std::mt19937 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    Links links(4, kRate, 0);
    std::vector<TravelPtr> all;
    double total = 0;
    for (int i = 0; i < 20; ++i) {
      const double bytes = 1e3 * static_cast<double>(random() % 1000);
      all.push_back(links.Message(0, 1 + static_cast<int>(random() % 3), bytes, 0));
      total += bytes;
    }
    double last = 0;
    for (const TravelPtr& t : all) last = std::max(last, links.Arrival(*t, 1));
    EXPECT_NEAR(last, total / kRate, 1e-7);
  }
}

TEST(Links, CollectivesTakeWhatTheirClosedFormsSay) {
  for (const int n : {2, 3, 4, 7}) {
    SCOPED_TRACE(n);
    // Large: as few bytes as can be, and of those in the fewest rounds. Powers of two halve and double, all-gathers go
    // by Bruck.
    const double large = 28e6, part = (n - 1) * large / n / kRate;
    const double doublings = n == 2   ? 1
                             : n == 4 ? 2
                                      : n - 1,
                 rounds = n == 2   ? 1
                          : n == 4 ? 4
                                   : 2 * (n - 1),
                 bruck = std::ceil(std::log2(n));
    EXPECT_THAT(Play(Communication::kAllReduce, n, large), Each(DoubleNear(rounds * kLatency + 2 * part, 1e-9)));
    EXPECT_THAT(Play(Communication::kAllGather, n, large), Each(DoubleNear(bruck * kLatency + part, 1e-9)));
    EXPECT_THAT(Play(Communication::kReduceScatter, n, large, 3),
                Each(DoubleNear(3 + doublings * kLatency + part, 1e-9)));
    EXPECT_THAT(Play(Communication::kAllToAll, n, large), Each(DoubleNear(kLatency + part, 1e-9)));
  }
  EXPECT_THAT(Play(Communication::kAllReduce, 4, 4), Each(DoubleNear(2 * (kLatency + 4 / kRate), 1e-12)));  // doubling
  EXPECT_THAT(Play(Communication::kBarrier, 5, 0), Each(DoubleNear(3 * kLatency, 1e-12)));
}

TEST(Links, TwoCollectivesShareWhatTheyMeetOn) {
  Links links(4, kRate, kLatency);
  const CollectiveShape shape{Communication::kAllGather, 2, 2e6, 0, {}};
  const int left[] = {0, 1}, right[] = {2, 3};
  const TravelPtr one = links.Collective(shape, left, 0), other = links.Collective(shape, right, 0);
  EXPECT_THAT(Arrivals(links, *one, 2), Each(DoubleNear(kLatency + 1e-3, 1e-9)));
  EXPECT_THAT(Arrivals(links, *other, 2), Each(DoubleNear(kLatency + 1e-3, 1e-9)));  // other links
  const TravelPtr beside = links.Collective(shape, left, 0);
  EXPECT_THAT(Arrivals(links, *beside, 2), Each(DoubleNear(kLatency + 2e-3, 1e-9)));
  EXPECT_THAT(Arrivals(links, *one, 2), Each(DoubleNear(kLatency + 2e-3, 1e-9)));
  EXPECT_THAT(Arrivals(links, *other, 2), Each(DoubleNear(kLatency + 1e-3, 1e-9)));
}

// ---- On the fabric ----

spec::Spec Slow(double gbps, double latency_us, double timeout_s = 60) {
  spec::Spec spec;
  spec.mutable_fabric()->mutable_in_memory()->set_link_gbps(gbps);
  spec.mutable_fabric()->mutable_in_memory()->set_latency_us(latency_us);
  spec.mutable_fabric()->set_timeout_s(timeout_s);
  return spec;
}
double Seconds(RankContext& c, const std::function<void()>& fn) {
  c.world().Barrier().Wait();
  const double start = c.clock().Now().value();
  fn();
  return c.clock().Now().value() - start;
}
Tensor Ones(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  std::fill_n(t.data<float>(), n, 1.0f);
  return t;
}
void RunOn(const spec::Spec& spec, int ranks, const std::function<void(RankContext&)>& fn) {
  const RunResult result = MakeInMemoryFabric(spec, GroupOptions{})->Run(ranks, [&](RankContext& c) {
    fn(c);
    return std::string();
  });
  EXPECT_TRUE(result.status.ok()) << result.status;
}

// 1 MB over 0.8 Gb/s, in rings of 2 ranks: 10 ms each way. Later than that by what a busy machine costs, never earlier.
TEST(SlowLinks, RanksWaitForWhatTravels) {
  RunOn(Slow(0.8, 100), 2, [](RankContext& c) {
    Tensor t = Ones(c, 250'000);
    EXPECT_GE(Seconds(c, [&] { c.world().AllReduce(t).Wait(); }), 10e-3);
    EXPECT_EQ(t.data<float>()[249'999], 2);
    EXPECT_GE(Seconds(c,
                      [&] {
                        if (c.rank() == 0)
                          c.world().Send(t, 1).Wait();
                        else
                          c.world().Recv(t, 0).Wait();
                      }),
              10e-3);
    EXPECT_GE(Seconds(c, [&] { c.world().Barrier().Wait(); }), 100e-6);
  });
}

TEST(SlowLinks, WorkThatIsIssuedTogetherGoesOneAfterTheOther) {
  RunOn(Slow(0.08, 0), 2, [](RankContext& c) {
    Tensor a = Ones(c, 250'000), b = Ones(c, 250'000), few = Ones(c, 4);
    Work first, second, third;
    c.world().Barrier().Wait();
    const double start = c.clock().Now().value();
    first = c.world().AllReduce(a), second = c.world().AllReduce(b), third = c.world().AllReduce(few);
    third.Wait();
    EXPECT_GE(c.clock().Now().value() - start, 200e-3);
  });
}

TEST(SlowLinks, OfGroupsAreThoseOfTheWorld) {
  RunOn(Slow(0.8, 0), 4, [](RankContext& c) {
    const auto pair = c.world().Split(c.rank() / 2, c.rank(), "pair");
    Tensor t = Ones(c, 250'000);
    EXPECT_GE(Seconds(c, [&] { pair->AllReduce(t).Wait(); }), 10e-3);
    EXPECT_EQ(t.data<float>()[0], 2);
  });
}

// Two groups of the same ranks have two streams, and one link.
TEST(SlowLinks, GroupsOfTheSameRanksShareThem) {
  RunOn(Slow(0.02, 0), 2, [](RankContext& c) {
    const auto gather = c.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "gather");
    const auto reduce = c.world().SplitEvenly(2, ProcessGroup::Pattern::kConsecutive, "reduce");
    Tensor a = Ones(c, 500'000), b = Ones(c, 1'000'000);
    c.world().Barrier().Wait();
    const double start = c.clock().Now().value();
    Work first = gather->AllReduce(a), second = reduce->AllReduce(b);
    first.Wait();
    EXPECT_GE(c.clock().Now().value() - start, 1.2)
        << "0.8 s alone, 1.6 beside the other";  // less by what the other begins later
    second.Wait();
    EXPECT_GE(c.clock().Now().value() - start, 2.4);
  });
}

// What travels is not waited for in the sense of fabric.timeout_s.
TEST(SlowLinks, DataMayTravelForLongerThanTheTimeOut) {
  RunOn(Slow(0.0032, 0, /*timeout_s=*/2), 2, [](RankContext& c) {
    Tensor t = Ones(c, 300'000);
    EXPECT_GE(Seconds(c, [&] { c.world().AllReduce(t).Wait(); }), 3);
  });
}

// To a rank that has come to the next call, one whose data still travels is late like any other.
TEST(SlowLinks, ARankWhoseDataTravelsIsWaitedForUntilTheTimeOut) {
  const RunResult result = MakeInMemoryFabric(Slow(0.008, 0, 0.3), GroupOptions{})->Run(3, [](RankContext& c) {
    Tensor t = Ones(c, 1'500'000);  // for 6 s
    if (c.rank() == 0) c.world().Send(t, 1).Wait();
    if (c.rank() == 1) c.world().Recv(t, 0).Wait();
    c.world().Barrier().Wait();
    return std::string();
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kTimedOut);
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("has waited 0.3 s (fabric.timeout_s) for rank "));
}

// The host comes to its exception, as it goes on while what it has issued travels.
TEST(SlowLinks, AFailureEndsThoseWhoWaitForWhatTravels) {
  const RunResult result = MakeInMemoryFabric(Slow(1e-6, 0), GroupOptions{})->Run(3, [](RankContext& c) {
    Tensor t = Ones(c, 250'000), few = Ones(c, 4);  // for some hours
    Work sum = c.world().AllReduce(t), next = c.world().AllReduce(few);
    if (c.rank() == 1) throw TimedOut(1, "had enough");
    next.Wait();
    return std::string();
  });
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("had enough"));
}

}  // namespace links_test
}  // namespace twofold::in_memory
