// On a uniform network, the simulated time of every algorithm equals its alpha-beta formula to 1e-6 relative.
//
// a: latency of a message; b: seconds per byte; n: bytes; N: ranks. The formulas are those of the literature, written
// here anew, not taken from the schedules.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace closed_forms_test {

using Kind = Communication::Kind;
constexpr double kAlpha = 2e-6, kBandwidth = 25e9, b = 1 / kBandwidth, a = kAlpha;

// A star whose hosts are devices of nodes of `each`: the same network between all, so that formulas have one alpha and
// one beta.
class StarOfNodes : public Topology {
 public:
  StarOfNodes(int hosts, int each, int rails)
      : star_(MakeStar({.hosts = hosts, .bandwidth = BytesPerSecond(kBandwidth), .latency = Seconds(kAlpha)})),
        each_(each),
        rails_(rails) {}
  std::string_view kind() const override { return "star_of_nodes"; }
  int endpoints() const override { return star_->endpoints(); }
  const std::vector<Vertex>& vertices() const override { return star_->vertices(); }
  const std::vector<Link>& links() const override { return star_->links(); }
  void Route(Pair pair, int64_t number, std::vector<int>& route) const override { star_->Route(pair, number, route); }
  int nodes() const override { return endpoints() / each_; }
  int NodeOf(int endpoint) const override { return endpoint / each_; }
  int rails() const override { return rails_; }
  int RailOf(int endpoint) const override { return endpoint % rails_; }
  bool multicast_in_node() const override { return true; }
  bool reduction_in_network() const override { return true; }

 private:
  const std::unique_ptr<Topology> star_;
  const int each_, rails_;
};

struct Case {
  const char* algorithm;
  Kind kind;
  std::function<double(int N, double n)> seconds;
  std::function<bool(int N)> valid = [](int) { return true; };
  int each = 1;   // ranks a node; 0: all of them
  int rails = 1;  // NICs a node
};

double Log2Up(int n) { return std::ceil(std::log2(n) - 1e-9); }
double Log2Down(int n) { return std::floor(std::log2(n) + 1e-9); }
bool PowerOfTwo(int n) { return (n & (n - 1)) == 0; }

// All-reduce; each has its formula below, too.
double RingSeconds(int N, double n) { return 2 * (N - 1) * a + 2 * (N - 1.0) / N * n * b; }
double DoublingSeconds(int N, double n) { return (Log2Down(N) + (PowerOfTwo(N) ? 0 : 2)) * (a + n * b); }
double HalvingSeconds(int N, double n) {
  const double core = std::pow(2, Log2Down(N));
  return 2 * Log2Down(N) * a + 2 * (core - 1) / core * n * b + (PowerOfTwo(N) ? 0 : 2 * (a + n * b));
}

std::vector<Case> Cases() {
  auto share = [](int N, double n) { return (N - 1.0) / N * n * b; };
  // The least of what can run between nodes.
  auto across = [](int m, double n) {
    return std::min({RingSeconds(m, n), DoublingSeconds(m, n), HalvingSeconds(m, n), 2 * Log2Up(m) * (a + n * b)});
  };
  auto gather_across = [=](int m, double n) { return (PowerOfTwo(m) ? std::log2(m) : m - 1) * a + share(m, n); };
  auto broadcast_across = [](int m, double n) { return std::min((m - 1) * a + n * b, Log2Up(m) * (a + n * b)); };
  auto bits = [](int N, double n) {  // Bruck's all-to-all: N/2 parts a round for powers of two
    double parts = 0;
    for (int d = 1; d < N; d *= 2) {
      for (int i = 0; i < N; ++i) parts += i / d % 2;
    }
    return Log2Up(N) * a + parts * n / N * b;
  };
  auto fours = [](int N) { return N % 4 == 0 && N > 4; };
  auto four = [](int N) { return N >= 4; };
  return {
      {"ring", Kind::kAllReduce, RingSeconds},
      {"ring", Kind::kAllGather, [=](int N, double n) { return (N - 1) * a + share(N, n); }},
      {"ring", Kind::kReduceScatter, [=](int N, double n) { return (N - 1) * a + share(N, n); }},
      {"ring", Kind::kBroadcast, [](int N, double n) { return (N - 1) * a + n * b; }},
      {"ring", Kind::kReduce, [](int N, double n) { return (N - 1) * a + n * b; }},
      {"ring", Kind::kAllReduce, RingSeconds, fours, 4, 4},
      {"ring", Kind::kAllGather, [=](int N, double n) { return (N - 1) * a + share(N, n); }, fours, 4, 2},
      {"ring", Kind::kBroadcast, [](int N, double n) { return (N - 1) * a + n * b; }, fours, 4, 2},
      {"tree", Kind::kAllReduce, [](int N, double n) { return 2 * Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kBroadcast, [](int N, double n) { return Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kReduce, [](int N, double n) { return Log2Up(N) * (a + n * b); }},
      {"tree", Kind::kGather, [=](int N, double n) { return Log2Up(N) * a + share(N, n); }, PowerOfTwo},
      {"tree", Kind::kScatter, [=](int N, double n) { return Log2Up(N) * a + share(N, n); }, PowerOfTwo},
      {"double_binary_tree", Kind::kAllReduce, [](int N, double n) { return 2 * Log2Up(N) * a + 2 * n * b; }, four},
      {"double_binary_tree", Kind::kBroadcast, [](int N, double n) { return Log2Up(N) * a + n * b; }},
      {"double_binary_tree", Kind::kReduce, [](int N, double n) { return Log2Up(N) * a + n * b; }},
      {"recursive_doubling", Kind::kAllReduce, DoublingSeconds},
      {"recursive_doubling", Kind::kAllGather, [=](int N, double n) { return std::log2(N) * a + share(N, n); },
       PowerOfTwo},
      {"recursive_doubling", Kind::kReduceScatter, [=](int N, double n) { return std::log2(N) * a + share(N, n); },
       PowerOfTwo},
      {"recursive_halving_doubling", Kind::kAllReduce, HalvingSeconds},
      {"recursive_halving_doubling", Kind::kReduce,
       [=](int N, double n) { return 2 * std::log2(N) * a + 2 * share(N, n); }, PowerOfTwo},
      {"bruck", Kind::kAllGather, [=](int N, double n) { return Log2Up(N) * a + share(N, n); }},
      {"bruck", Kind::kAllToAll, bits},
      {"bruck", Kind::kAllToAll, [](int N, double n) { return std::log2(N) * (a + n / 2 * b); }, PowerOfTwo},
      {"direct", Kind::kAllReduce, [=](int N, double n) { return 2 * a + 2 * share(N, n); }},
      {"direct", Kind::kAllGather, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kReduceScatter, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kAllToAll, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kBroadcast, [](int N, double n) { return a + (N - 1) * n * b; }},
      {"direct", Kind::kGather, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kScatter, [=](int N, double n) { return a + share(N, n); }},
      {"direct", Kind::kReduce, [](int N, double n) { return a + (N - 1) * n * b; }},
      {"pairwise", Kind::kAllToAll, [](int N, double n) { return (N - 1) * (a + n / N * b); }},
      {"pairwise", Kind::kReduceScatter, [](int N, double n) { return (N - 1) * (a + n / N * b); }},
      {"hierarchical", Kind::kAllReduce,
       [=](int N, double n) { return 2 * a + 2 * share(4, n) + across(N / 4, n / 4); }, fours, 4},
      {"hierarchical", Kind::kAllGather, [=](int N, double n) { return a + share(4, n) + gather_across(N / 4, n / 4); },
       fours, 4},
      {"hierarchical", Kind::kReduceScatter,
       [=](int N, double n) { return a + share(4, n) + gather_across(N / 4, n / 4); }, fours, 4},
      {"hierarchical", Kind::kBroadcast,
       [=](int N, double n) { return 2 * a + 2 * share(4, n) + broadcast_across(N / 4, n / 4); }, fours, 4},
      {"hierarchical", Kind::kAllToAll, [=](int N, double n) { return 2 * a + share(4, n) + share(N / 4, n); }, fours,
       4},
      {"nvls", Kind::kAllReduce, [](int N, double n) { return 2 * a + n * (1 + 1.0 / N) * b; }, {}, 0},
      {"nvls", Kind::kAllGather, [](int, double n) { return a + n * b; }, {}, 0},
      {"nvls", Kind::kReduceScatter, [](int, double n) { return a + n * b; }, {}, 0},
      {"nvls", Kind::kBroadcast, [](int, double n) { return a + n * b; }, {}, 0},
      {"nvls", Kind::kAllReduce,
       [](int N, double n) {
         const int m = N / 4;
         const double tree = 2 * Log2Up(m) * a + (m == 2 ? 1 : m == 3 ? 1.5 : 2) * n / 4 * b;
         return 2 * a + n * (1 + 1.0 / 4) * b + std::min(RingSeconds(m, n / 4), tree);
       },
       fours, 4},
      {"sharp", Kind::kAllReduce, [](int, double n) { return a + n * b; }},
      {"sharp", Kind::kReduce, [](int, double n) { return a + n * b; }},
      {"sharp", Kind::kBroadcast, [](int, double n) { return a + n * b; }},
      {"sharp", Kind::kAllReduce, [](int, double n) { return 3 * a + n * (1 + 1.0 / 4) * b + n / 4 * b; }, fours, 4},
      {"auto", Kind::kBarrier, [](int N, double) { return Log2Up(N) * a; }},
  };
}

// Seconds of the collective for each size, one after another in one simulation; twice each, so that what is remembered
// is checked beside what is simulated. `computed`: where the network can tell the duration without flows, it does.
std::vector<double> Simulate(const Case& c, int ranks, const std::vector<double>& sizes, bool computed) {
  absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    const StarOfNodes star(ranks, c.each == 0 ? ranks : c.each, c.rails);
    Engine engine(star, {});
    const auto library = *MakeLibrary({});
    Network network(engine, *library, {.choice = {.algorithm = c.algorithm}, .closed_forms = computed});
    std::vector<int> all(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) all[static_cast<size_t>(r)] = r;
    const int group = network.AddGroups(std::make_shared<const Network::Ranks>(Network::Ranks{all}));
    outcome::Outcome result;
    engine.AddRank(0, [&] {
      double clock = 0;
      for (double bytes : sizes) {
        for (int repeat = 0; repeat < 2; ++repeat) {
          auto done = std::make_shared<TimePoint>();
          network.Collective(group, {c.kind, ranks, bytes, 0, {}}, clock,
                             [&](const std::vector<double>& finish, double) {
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
  EXPECT_TRUE(outcome.ok() && outcome->message().empty())
      << c.algorithm << ": " << outcome.status() << (outcome.ok() ? outcome->message() : "");
  if (outcome.ok())
    for (const std::string& r : outcome->results()) seconds.push_back(std::stod(r));
  return seconds;
}

bool AllRanks() { return std::getenv("TWOFOLD_ALL_RANKS") != nullptr; }

// How many simulated times were held against their formulas.
int Check(const std::vector<int>& ranks, const std::vector<double>& sizes, bool computed) {
  int checked = 0;
  for (const Case& c : Cases()) {
    for (int N : ranks) {
      if (c.valid && !c.valid(N)) continue;
      const std::vector<double> seconds = Simulate(c, N, sizes, computed);
      EXPECT_EQ(seconds.size(), 2 * sizes.size());
      for (size_t i = 0; i < seconds.size(); ++i) {
        const double expected = c.seconds(N, sizes[i / 2]);
        EXPECT_NEAR(seconds[i], expected, 1e-6 * expected)
            << c.algorithm << " " << KindName(c.kind) << " over " << N << " ranks, " << c.each << " a node, of "
            << sizes[i / 2] << " bytes";
        ++checked;
      }
    }
  }
  return checked;
}

// 2 to 1,024 ranks, 8 B to 1 GiB; all numbers up to 96 and more sizes where the long tests are asked for.
TEST(ClosedFormsTest, AloneOnAStar) {
  std::vector<int> ranks = {2, 3, 4, 5, 6, 7, 8, 13, 16, 32, 60, 64, 100, 128, 256};
  std::vector<double> sizes = {8, 1000, 1 << 20, 1 << 30};
  if (AllRanks()) {
    ranks = {100, 127, 128, 192, 255, 256, 384, 512, 768, 1000, 1023, 1024};
    for (int n = 2; n <= 96; ++n) ranks.push_back(n);
    sizes.clear();
    for (double n = 8; n <= 1 << 30; n *= 8) sizes.push_back(n);
  }
  std::printf("%d computed times equal their formulas to 1e-6\n", Check(ranks, sizes, true));
}

TEST(ClosedFormsTest, AsFlowsAmongFlows) {
  const std::vector<int> ranks = AllRanks() ? std::vector<int>{2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 31, 32, 64, 100, 128}
                                            : std::vector<int>{2, 3, 5, 8, 16, 24};
  std::printf("%d simulated times equal their formulas to 1e-6\n", Check(ranks, {8, 1000, 1 << 20, 1 << 30}, false));
}

}  // namespace closed_forms_test
}  // namespace twofold::sim
