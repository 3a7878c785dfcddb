// On a uniform star, the simulated time of every algorithm equals its alpha-beta formula to 1e-6 relative.
//
// a: latency of a message; b: seconds per byte; n: bytes; N: ranks. The formulas are those of the literature, written here
// anew, not taken from the schedules.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "topologies/star.h"

namespace twofold::sim {
namespace {

using Kind = Communication::Kind;
constexpr double kAlpha = 2e-6, kBandwidth = 25e9, b = 1 / kBandwidth, a = kAlpha;

struct Case {
  const char* algorithm;
  Kind kind;
  std::function<double(int N, double n)> seconds;
  std::function<bool(int N)> valid = [](int) { return true; };
};

double Log2Up(int n) { return std::ceil(std::log2(n) - 1e-9); }
bool PowerOfTwo(int n) { return (n & (n - 1)) == 0; }

std::vector<Case> Cases() {
  auto share = [](int N, double n) { return (N - 1.0) / N * n * b; };
  auto doubling = [](int N, double n) {
    const double rounds = std::floor(std::log2(N) + 1e-9) + (PowerOfTwo(N) ? 0 : 2);
    return rounds * (a + n * b);
  };
  return {
      {"ring", Kind::kAllReduce, [=](int N, double n) { return 2 * (N - 1) * a + 2 * share(N, n); }},
      {"ring", Kind::kAllGather, [=](int N, double n) { return (N - 1) * a + share(N, n); }},
      {"ring", Kind::kReduceScatter, [=](int N, double n) { return (N - 1) * a + share(N, n); }},
      {"ring", Kind::kBroadcast, [](int N, double n) { return (N - 1) * a + n * b; }},
      {"ring", Kind::kReduce, [](int N, double n) { return (N - 1) * a + n * b; }},
      {"tree", Kind::kAllReduce, [](int N, double n) { return 2 * Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kBroadcast, [](int N, double n) { return Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kReduce, [](int N, double n) { return Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kGather, [=](int N, double n) { return Log2Up(N) * a + share(N, n); }, PowerOfTwo},
      {"tree", Kind::kScatter, [=](int N, double n) { return Log2Up(N) * a + share(N, n); }, PowerOfTwo},
      {"recursive_doubling", Kind::kAllReduce, doubling},
      {"recursive_doubling", Kind::kAllGather, [=](int N, double n) { return std::log2(N) * a + share(N, n); }, PowerOfTwo},
      {"recursive_doubling", Kind::kReduceScatter, [=](int N, double n) { return std::log2(N) * a + share(N, n); }, PowerOfTwo},
      {"direct", Kind::kAllReduce, [=](int N, double n) { return 2 * a + 2 * share(N, n); }},
      {"direct", Kind::kAllGather, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kReduceScatter, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kAllToAll, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kBroadcast, [](int N, double n) { return a + (N - 1) * n * b; }},
      {"direct", Kind::kGather, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kScatter, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kReduce, [](int N, double n) { return a + (N - 1) * n * b; }},
      {"auto", Kind::kBarrier, [](int N, double) { return Log2Up(N) * a; }},
  };
}

// Seconds of the collective for each size, one after another in one simulation; twice each, so that what is remembered
// is checked beside what is simulated. `computed`: where the network can tell the duration without flows, it does.
std::vector<double> Simulate(const Case& c, int ranks, const std::vector<double>& sizes, bool computed) {
  absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    auto star = MakeStar({.hosts = ranks, .bandwidth = BytesPerSecond(kBandwidth), .latency = Seconds(kAlpha)});
    Engine engine(*star, {});
    const auto library = *MakeLibrary({});
    Network network(engine, *library, {.choice = {.algorithm = c.algorithm}, .closed_forms = computed});
    std::vector<int> all(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) all[static_cast<size_t>(r)] = r;
    const int group = network.AddGroups({all});
    outcome::Outcome result;
    engine.AddRank(0, [&] {
      double clock = 0;
      for (double bytes : sizes) {
        for (int repeat = 0; repeat < 2; ++repeat) {
          auto done = std::make_shared<TimePoint>();
          network.Collective(group, {c.kind, ranks, bytes, 0, {}}, clock, [&](const std::vector<double>& finish) {
            done->Resolve(*std::max_element(finish.begin(), finish.end()));
          });
          engine.Block(0, done, [] { return std::string("the collective"); });
          result.add_results(absl::StrFormat("%.17g", done->time() - clock));
          clock = done->time();
        }
      }
    });
    const absl::Status status = engine.Run();
    if (!status.ok()) result.set_message(std::string(status.message()));
    return result;
  });
  std::vector<double> seconds;
  EXPECT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
  if (outcome.ok()) for (const std::string& r : outcome->results()) seconds.push_back(std::stod(r));
  return seconds;
}

// 2 to 256 ranks; all of them up to 96 where the long tests are asked for.
std::vector<int> Ranks() {
  std::vector<int> ranks = {2, 3, 4, 6, 8, 13, 16, 32, 64, 100, 128, 256};
  if (std::getenv("TWOFOLD_ALL_RANKS") == nullptr) return ranks;
  ranks = {100, 128, 192, 255, 256};
  for (int n = 2; n <= 96; ++n) ranks.push_back(n);
  return ranks;
}

TEST(ClosedFormsTest, EveryAlgorithmOnAStar) {
  const std::vector<double> sizes = {8, 1000, 1 << 20, 1 << 30};
  int checked = 0;
  for (const Case& c : Cases()) {
    for (int ranks : Ranks()) {
      if (!c.valid(ranks)) continue;
      std::vector<double> seconds = Simulate(c, ranks, sizes, false);
      const std::vector<double> computed = Simulate(c, ranks, sizes, true);
      ASSERT_EQ(seconds.size(), 2 * sizes.size());
      ASSERT_EQ(computed.size(), 2 * sizes.size());
      seconds.insert(seconds.end(), computed.begin(), computed.end());
      for (size_t i = 0; i < seconds.size(); ++i) {
        const double expected = c.seconds(ranks, sizes[i / 2 % sizes.size()]);
        EXPECT_NEAR(seconds[i], expected, 1e-6 * expected)
            << c.algorithm << " " << KindName(c.kind) << " over " << ranks << " ranks of "
            << sizes[i / 2 % sizes.size()] << " bytes";
        ++checked;
      }
    }
  }
  std::printf("%d simulated times equal their formulas to 1e-6\n", checked);
}

}  // namespace
}  // namespace twofold::sim
