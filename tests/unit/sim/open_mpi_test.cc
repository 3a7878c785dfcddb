// Open MPI's collectives: what is chosen, that every byte gets where it must, and what rounds of messages cost.
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "sim/collectives/library.h"
#include "sim/collectives/open_mpi_algorithms.h"
#include "sim/collectives/open_mpi_decisions.h"
#include "tests/unit/sim/flows.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace open_mpi_test {

using Kind = Communication::Kind;
constexpr double kAlpha = 300e-6, kRate = 25e6;

std::unique_ptr<Library> Make(const cluster::OpenMpi& figures) {
  cluster::Library library;
  library.set_name("open_mpi");
  *library.mutable_open_mpi() = figures;
  return *MakeLibrary(library);
}
cluster::OpenMpi Eager() {
  cluster::OpenMpi figures;
  figures.set_eager_bytes(int64_t{1} << 40);
  return figures;
}

// Seconds until the last of `ranks` on a star is done.
double SecondsOf(const Schedule& schedule, int ranks) {
  const auto star = MakeStar({.hosts = ranks, .bandwidth = BytesPerSecond(kRate), .latency = Seconds(kAlpha)});
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  return Simulated(*star, {}, {{schedule, all}}).at(0);
}
double SecondsOf(const cluster::OpenMpi& figures, Kind kind, int ranks, double bytes, std::string algorithm = "auto") {
  const auto schedule = Make(figures)->Plan({.kind = kind, .ranks = ranks, .bytes = bytes},
                                            UniformPlaces(ranks, kAlpha, kRate), {.algorithm = std::move(algorithm)});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return schedule.ok() ? SecondsOf(*schedule, ranks) : -1;
}

TEST(OpenMpi, ChoosesAsTheLibraryDoes) {
  auto chosen = [](Kind kind, int ranks, double bytes) {
    return Make(Eager())
        ->Plan({.kind = kind, .ranks = ranks, .bytes = bytes}, UniformPlaces(ranks, kAlpha, kRate), {})
        ->algorithm;
  };
  EXPECT_EQ(chosen(Kind::kAllReduce, 8, 4096), "recursive_doubling");
  EXPECT_EQ(chosen(Kind::kAllReduce, 8, 8192), "rabenseifner");
  EXPECT_EQ(chosen(Kind::kAllGather, 8, 1 << 20), "recursive_doubling");
  EXPECT_EQ(chosen(Kind::kAllGather, 64, 64 * 65536), "ring");
  EXPECT_EQ(chosen(Kind::kReduceScatter, 8, 1 << 20), "recursive_halving");
  EXPECT_EQ(chosen(Kind::kReduceScatter, 8, 4 << 20), "linear");
  EXPECT_EQ(chosen(Kind::kBroadcast, 4, 1 << 20), "chain");
  EXPECT_EQ(chosen(Kind::kBroadcast, 8, 1024), "knomial");
  EXPECT_EQ(chosen(Kind::kAllToAll, 4, 4 << 19), "pairwise");
}

// Every rank starts with a part of its own; what it has goes with everything that it sends after it has it. In the end
// the parts are where the operation wants them: the rounds of every algorithm, for powers of two and others, join whom
// they must.
TEST(OpenMpi, EverybodyHearsOfWhomItMust) {
  for (const OpenMpiAlgorithm& a : OpenMpiAlgorithms()) {
    for (int n : {2, 3, 4, 6, 7, 8, 16}) {
      if (a.name == "two_procs" && n != 2) continue;
      Rounds rounds;
      a.make({.kind = a.kind, .ranks = n, .bytes = 1 << 20}, rounds);
      std::vector<uint64_t> has;
      for (int r = 0; r < n; ++r) has.push_back(uint64_t{1} << r);
      for (const Phase& round : rounds) {
        const std::vector<uint64_t> before = has;
        for (const Flow& f : round.flows) {
          ASSERT_TRUE(f.from >= 0 && f.from < n && f.to >= 0 && f.to < n && f.from != f.to) << a.name << " over " << n;
          has[static_cast<size_t>(f.to)] |= before[static_cast<size_t>(f.from)];
        }
      }
      const uint64_t all = (uint64_t{1} << n) - 1;
      const bool from_root = a.kind == Kind::kBroadcast || a.kind == Kind::kScatter,
                 to_root = a.kind == Kind::kReduce || a.kind == Kind::kGather;
      for (int r = 0; r < n; ++r) {
        const uint64_t needed = from_root ? 1 : to_root && r > 0 ? 0 : all;
        EXPECT_EQ(has[static_cast<size_t>(r)] & needed, needed)
            << KindName(a.kind) << " " << a.name << ", rank " << r << " of " << n;
      }
    }
  }
}

TEST(OpenMpi, RoundsCostLatencyAndBytes) {
  const double n = 1 << 20, b = 1 / kRate;
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kAllReduce, 8, 1024), 3 * (kAlpha + 1024 * b), 1e-9);
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kAllReduce, 8, n), 6 * kAlpha + 2 * 7 / 8.0 * n * b, 1e-9);
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kAllReduce, 8, n, "ring"), 14 * kAlpha + 2 * 7 / 8.0 * n * b, 1e-9);
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kAllGather, 8, n), 3 * kAlpha + 7 / 8.0 * n * b, 1e-9);
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kBroadcast, 8, n), kAlpha + 7 * n * b, 1e-9);    // linear
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kBroadcast, 4, n), 3 * (kAlpha + n * b), 1e-9);  // chain
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kReduceScatter, 8, 4 * n), 4 * kAlpha + 3 * 4 * n * b + 7 / 8.0 * 4 * n * b,
              1e-9);  // binomial, then linear
  EXPECT_NEAR(SecondsOf(Eager(), Kind::kBarrier, 8, 0), 3 * kAlpha, 1e-9);
}

// Rank 1 sends on as soon as it has what it waits for, while 2 still sends to 3: in step, the phases would add up.
TEST(OpenMpi, RanksGoOnByThemselves) {
  const double b = 1 / kRate;
  Schedule s{.phases = {{.flows = {{0, 1, 1000}, {2, 3, 50000}}}, {.flows = {{1, 2, 1000}}}},
             .last_phase = {0, 1, 1, 0},
             .algorithm = "",
             .protocol = "",
             .loose = true};
  EXPECT_NEAR(SecondsOf(s, 4), 50000 * b + kAlpha, 1e-9);
  s.loose = false;
  EXPECT_NEAR(SecondsOf(s, 4), 51000 * b + 2 * kAlpha, 1e-9);
}

TEST(OpenMpi, SoftwareCosts) {
  const double b = 1 / kRate;
  cluster::OpenMpi gap = Eager(), free = Eager(), acknowledged = Eager(), rendezvous;
  gap.set_gap_us(10);
  EXPECT_NEAR(SecondsOf(gap, Kind::kAllToAll, 8, 0), kAlpha + 6 * 10e-6, 1e-9);
  free.set_free_bytes(8000);
  EXPECT_NEAR(SecondsOf(free, Kind::kAllReduce, 8, 4096), 3 * kAlpha, 1e-9);
  EXPECT_NEAR(SecondsOf(free, Kind::kAllGather, 2, 40000), kAlpha + 12000 * b, 1e-9);
  EXPECT_NEAR(SecondsOf(free, Kind::kBroadcast, 8, 1 << 20), kAlpha + (7.0 * (1 << 20) - 8000) * b,
              1e-9);  // shared by all that leave the root
  acknowledged.set_acknowledgements(0.02);
  EXPECT_NEAR(SecondsOf(acknowledged, Kind::kAllGather, 4, 1 << 20, "ring"), 3 * (kAlpha + (1 << 18) * 1.02 * b), 1e-9);
  EXPECT_NEAR(SecondsOf(acknowledged, Kind::kAllGather, 2, 1 << 20), kAlpha + (1 << 19) * b, 1e-9);  // they ride along
  EXPECT_NEAR(SecondsOf(acknowledged, Kind::kBroadcast, 2, 1 << 20), kAlpha + (1 << 20) * b, 1e-9);  // one way
  EXPECT_NEAR(SecondsOf(rendezvous, Kind::kAllGather, 2, 1 << 20), 3 * kAlpha + (1 << 19) * b, 1e-9);
}

// To in_order_bytes the first of two messages is there after its own bytes, above after both's.
TEST(OpenMpi, SmallMessagesLeaveInOrder) {
  cluster::OpenMpi figures = Eager();
  const double b = 1 / kRate, n = 16384;
  EXPECT_NEAR(SecondsOf(figures, Kind::kBroadcast, 8, n, "binomial"), 3 * kAlpha + (3 + 2 + 1) * n * b, 1e-9);
  figures.set_in_order_bytes(16384);
  EXPECT_NEAR(SecondsOf(figures, Kind::kBroadcast, 8, n, "binomial"), 3 * kAlpha + 3 * n * b, 1e-9);
}

// What passes at once is a link's: gone for the message after, back when the link has been idle as long as its bytes
// take.
TEST(OpenMpi, WhatPassesAtOncePassesOnce) {
  const double b = 1 / kRate, n = 50000, free = 8000;
  Schedule s{.phases = {{.flows = {{.from = 0, .to = 1, .bytes = n, .free = free}}},
                        {.flows = {{.from = 0, .to = 2, .bytes = n, .free = free}}}},
             .last_phase = {1, 0, 1},
             .algorithm = "",
             .protocol = "",
             .loose = true};
  EXPECT_NEAR(SecondsOf(s, 3), kAlpha + (2 * n - free) * b, 1e-9);
  s.phases[1].seconds = free / 2 * b;
  EXPECT_NEAR(SecondsOf(s, 3), kAlpha + (2 * n - free) * b, 1e-9);
  s.phases[1].seconds = free * b;
  EXPECT_NEAR(SecondsOf(s, 3), kAlpha + (2 * n - free) * b, 1e-9);
  s.phases[1].seconds = 3 * free * b;
  EXPECT_NEAR(SecondsOf(s, 3), kAlpha + (2 * n + free) * b, 1e-9);
  // Into one port, from two hosts.
  s.phases = {{.flows = {{.from = 0, .to = 2, .bytes = n, .free = free},
                         {.from = 1, .to = 2, .bytes = n, .free = free}}}},
  s.last_phase = {0, 0, 0};
  EXPECT_NEAR(SecondsOf(s, 3), kAlpha + (2 * n - free) * b, 1e-9);
}

// Two hosts below each of two leaves with one cable up: messages from 0 to 2 and from 1 to 3 share it and need two
// messages' time. Rank 0's next message, to its neighbour, needs the host's link alone, which is free after one: in
// order it is there after two, as the others are. A host that waited for the uplink would be done after two and a half.
TEST(OpenMpi, QueuedMessagesLeaveTheHostWhateverTheNetworkDoes) {
  const double b = 1 / kRate, n = 16384;
  const auto tree =
      MakeFatTree({.ports = 4, .radix = 3, .oversubscription = 2, .wiring = {.bandwidth = BytesPerSecond(kRate)}});
  Schedule s{.phases = {{.flows = {{.from = 0, .to = 2, .bytes = n, .queued = true},
                                   {.from = 0, .to = 1, .bytes = n, .queued = true},
                                   {.from = 1, .to = 3, .bytes = n, .queued = true}}}},
             .last_phase = {0, 0, 0, 0},
             .algorithm = "",
             .protocol = "",
             .loose = true};
  const double ended = Simulated(*tree, {}, {{s, {0, 1, 2, 3}}}).at(0),
               latency = std::max(tree->Latency({0, 2}).value(), tree->Latency({0, 1}).value());
  EXPECT_NEAR(ended, latency + 2 * n * b, 1e-9);
}

TEST(OpenMpi, RefusesWhatIsNotThere) {
  const auto library = Make(Eager());
  const Places places = UniformPlaces(4, kAlpha, kRate);
  EXPECT_FALSE(library->Plan({.kind = Kind::kAllReduce, .ranks = 4, .bytes = 8}, places, {.algorithm = "chain"}).ok());
  EXPECT_FALSE(library->Plan({.kind = Kind::kAllReduce, .ranks = 4, .bytes = 8}, places, {.algorithm = "magic"}).ok());
  EXPECT_FALSE(library->Plan({.kind = Kind::kAllReduce, .ranks = 4, .bytes = 8}, places, {.protocol = "LL"}).ok());
  cluster::Library negative;
  negative.set_name("open_mpi"), negative.mutable_open_mpi()->set_gap_us(-1);
  EXPECT_EQ(MakeLibrary(negative).status().message(), "library.open_mpi.gap_us = -1: must be 0 or more");
}

TEST(OpenMpi, BarriersAreItsOwnWhateverIsForced) {
  EXPECT_EQ(SecondsOf(Eager(), Kind::kBarrier, 4, 0, "ring"), SecondsOf(Eager(), Kind::kBarrier, 4, 0));
}

TEST(OpenMpi, TwoProcsIsForTwo) {
  auto plan = [](int ranks) {
    return Make(Eager())->Plan({.kind = Kind::kAllGather, .ranks = ranks, .bytes = 4096},
                               UniformPlaces(ranks, kAlpha, kRate), {.algorithm = "two_procs"});
  };
  EXPECT_TRUE(plan(2).ok());
  EXPECT_FALSE(plan(4).ok());
}

}  // namespace open_mpi_test
}  // namespace twofold::sim
