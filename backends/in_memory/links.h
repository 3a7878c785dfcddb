// Models slowed links between in-memory ranks: computes when data sent over them arrives.
//
// Each rank has one full-duplex link to a switch that is never a bottleneck. Transfers in flight share each direction
// by max-min fairness (sim/sharing/fluid.h). So two groups that communicate at the same time both take longer, and a
// forecast holds until more is sent. A message arrives `latency` after its bytes. A collective begins when all ranks
// have come to it. It sends the messages of the algorithm that the simulated fabric picks for such links ("auto"), in
// phases that all ranks pass together; each phase takes the latencies of its rounds, then its bytes.
//
// Ranks may be divided among sites, in order and evenly. A transfer between sites also takes the links of both sites to
// the wide-area network, which all ranks of a site share, and `latency` of the sites more.
//
// The data itself moves at once, through memory; ranks then sleep until it would have arrived. So times are right as
// long as memory is faster than the links. The simulated fabric (fabric.simulated.link_gbps) models the same links; the
// difference is that here ranks really compute, meet and sleep.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "sim/collectives/schedule.h"
#include "sim/sharing/fluid.h"

namespace twofold::in_memory {

// A message or collective in flight.
struct Travel;
using TravelPtr = std::shared_ptr<Travel>;

// Links between sites. Each site has one, `bytes_per_second` each way.
struct SiteLinks {
  int count = 1;  // of sites; divides the number of ranks
  double bytes_per_second = 0, latency_s = 0;
};

// Shared by the ranks of a run; thread-safe. Ranks are world ranks; times are seconds of one clock.
class Links {
 public:
  Links(int ranks, double bytes_per_second, double latency_s, const SiteLinks& sites = {});

  // A message; both its sides are ready at `ready`.
  TravelPtr Message(int from, int to, double bytes, double ready);
  // A collective of `ranks` that begins at `start`.
  TravelPtr Collective(const sim::CollectiveShape& shape, std::span<const int> ranks, double start);
  // When the rank at index `place` of the travel's ranks is done, if nothing else is sent meanwhile.
  double Arrival(const Travel& travel, int place) const;

 private:
  // The progress of a travel: in `phase`, before its bytes move (at time `moves`), or with `left` bytes of each flow
  // left.
  struct Flight {
    TravelPtr travel;
    size_t phase = 0;
    double moves = 0;
    bool moving = false;
    std::vector<double> left, rates;
    std::vector<double> ends = {};  // end times of phases
  };
  // Everything in flight at some moment. Copyable: a forecast runs a copy to the end.
  struct Traffic {
    double time = 0;
    std::vector<Flight> flights;
  };
  // The fastest algorithm among `ranks`, if nothing else is sent. Needs the mutex.
  const sim::Schedule& Choose(const sim::CollectiveShape& shape, std::span<const int> ranks);
  double SecondsAlone(const sim::Schedule& schedule, std::span<const int> ranks) const;
  TravelPtr Begin(sim::Schedule schedule, std::span<const int> ranks, double start);
  int SiteOf(int rank) const { return rank / (ranks_ / sites_.count); }
  double Latency(const sim::Phase& phase, std::span<const int> ranks) const;
  void Run(Traffic& traffic, double until) const;
  double Next(const Traffic& traffic) const;
  void SetRates(Traffic& traffic) const;
  void Proceed(Flight& flight, double time) const;

  const int ranks_;
  const double bytes_per_second_, latency_;
  const SiteLinks sites_;
  mutable std::mutex mutex_;
  mutable sim::Fluid fluid_;  // over both ways of each rank's link, out and in; then of each site's
  double latest_ = 0;         // the latest start so far
  // What was chosen, by kind, ranks, bytes and root. Not for kAllToAllV.
  std::map<std::tuple<Communication::Kind, std::vector<int>, double, int>, sim::Schedule> chosen_;
  Traffic past_;  // traffic up to a time that late-reported starts can no longer affect
};

}  // namespace twofold::in_memory
