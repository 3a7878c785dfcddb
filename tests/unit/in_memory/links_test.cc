// Links that are slowed down: what takes how long, against closed forms; and ranks that really wait for it.
#include "backends/in_memory/links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "backends/in_memory/fabric.h"
#include "core/base/errors.h"

namespace twofold::in_memory {
namespace {

using sim::CollectiveShape;
using ::testing::Each;
using ::testing::DoubleNear;
using ::testing::HasSubstr;

constexpr double kRate = 1e9, kLatency = 1e-5;

std::vector<int> First(int n) {
  std::vector<int> ranks(static_cast<size_t>(n));
  for (int r = 0; r < n; ++r) ranks[static_cast<size_t>(r)] = r;
  return ranks;
}
std::vector<double> Play(Communication::Kind kind, int ranks, double bytes, double start = 0) {
  Links links(ranks, kRate, kLatency);
  return links.Collective({kind, ranks, bytes, 0, {}}, First(ranks), start);
}

TEST(Links, AMessageTakesLatencyAndItsBytes) {
  Links links(2, kRate, kLatency);
  EXPECT_DOUBLE_EQ(links.Message(0, 1, 1e6, 5), 5 + 1e-3 + kLatency);
}

TEST(Links, MessagesOfOneLinkGoOneAfterTheOther) {
  Links links(3, kRate, kLatency);
  EXPECT_DOUBLE_EQ(links.Message(0, 1, 1e6, 0), 1e-3 + kLatency);
  EXPECT_DOUBLE_EQ(links.Message(0, 2, 1e6, 0), 2e-3 + kLatency);  // its way out is taken
  EXPECT_DOUBLE_EQ(links.Message(1, 2, 1e6, 0), 3e-3 + kLatency);  // the way in of 2 is
  EXPECT_DOUBLE_EQ(links.Message(1, 0, 1e6, 0), 2e-3 + kLatency);  // full duplex: only 1's way out is
}

TEST(Links, CollectivesTakeWhatTheirClosedFormsSay) {
  for (const int n : {2, 3, 4, 7}) {
    SCOPED_TRACE(n);
    // Large enough for rings; powers of two double, where that takes no more bytes.
    const double large = 28e6, part = (n - 1) * large / n / kRate;
    const double doublings = n == 2 ? 1 : n == 4 ? 2 : n - 1, rounds = n == 2 ? 1 : 2 * (n - 1);
    EXPECT_THAT(Play(Communication::kAllReduce, n, large), Each(DoubleNear(rounds * kLatency + 2 * part, 1e-9)));
    EXPECT_THAT(Play(Communication::kAllGather, n, large), Each(DoubleNear(doublings * kLatency + part, 1e-9)));
    EXPECT_THAT(Play(Communication::kReduceScatter, n, large, 3), Each(DoubleNear(3 + doublings * kLatency + part, 1e-9)));
    EXPECT_THAT(Play(Communication::kAllToAll, n, large), Each(DoubleNear(kLatency + part, 1e-9)));
  }
  EXPECT_THAT(Play(Communication::kAllReduce, 4, 4), Each(DoubleNear(2 * (kLatency + 4 / kRate), 1e-12)));  // doubling
  EXPECT_THAT(Play(Communication::kBarrier, 5, 0), Each(DoubleNear(3 * kLatency, 1e-12)));
}

TEST(Links, TwoCollectivesShareWhatTheyMeetOn) {
  Links links(4, kRate, kLatency);
  const CollectiveShape shape{Communication::kAllGather, 2, 2e6, 0, {}};
  const int left[] = {0, 1}, right[] = {2, 3};
  EXPECT_THAT(links.Collective(shape, left, 0), Each(DoubleNear(kLatency + 1e-3, 1e-9)));
  EXPECT_THAT(links.Collective(shape, right, 0), Each(DoubleNear(kLatency + 1e-3, 1e-9)));  // other links
  EXPECT_THAT(links.Collective(shape, left, 0), Each(DoubleNear(kLatency + 2e-3, 1e-9)));   // behind the first
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
    EXPECT_GE(Seconds(c, [&] {
      if (c.rank() == 0) c.world().Send(t, 1).Wait();
      else c.world().Recv(t, 0).Wait();
    }), 10e-3);
    EXPECT_GE(Seconds(c, [&] { c.world().Barrier().Wait(); }), 100e-6);
  });
}

// Work that is issued together goes one after the other, while the host goes on.
TEST(SlowLinks, TravelsWhileTheHostGoesOn) {
  RunOn(Slow(0.8, 0), 2, [](RankContext& c) {
    Tensor a = Ones(c, 250'000), b = Ones(c, 250'000), few = Ones(c, 4);
    Work first, second, third;
    c.world().Barrier().Wait();
    const double start = c.clock().Now().value();
    first = c.world().AllReduce(a), second = c.world().AllReduce(b), third = c.world().AllReduce(few);
    const double issued = c.clock().Now().value() - start;
    third.Wait();
    EXPECT_GE(c.clock().Now().value() - start, 20e-3);
    EXPECT_LT(issued, 10e-3) << "issuing waits for what is issued";
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

// What travels is not waited for in the sense of fabric.timeout_s.
TEST(SlowLinks, DataMayTravelForLongerThanTheTimeOut) {
  RunOn(Slow(0.008, 0, 0.8), 2, [](RankContext& c) {
    Tensor t = Ones(c, 300'000);
    EXPECT_GE(Seconds(c, [&] { c.world().AllReduce(t).Wait(); }), 1.2);
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

TEST(SlowLinks, AFailureEndsThoseWhoWaitForWhatTravels) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = MakeInMemoryFabric(Slow(1e-6, 0), GroupOptions{})->Run(3, [](RankContext& c) {
    Tensor t = Ones(c, 250'000);  // for some hours
    Work sum = c.world().AllReduce(t);
    if (c.rank() == 1) throw TimedOut(1, "had enough");
    sum.Wait();
    return std::string();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("had enough"));
}

}  // namespace
}  // namespace twofold::in_memory
