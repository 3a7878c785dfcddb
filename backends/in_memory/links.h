// Links between in-memory ranks that are slowed down: when what is sent over them arrives.
//
// Each rank has one link to a switch that never limits, full duplex. What is in flight shares each way max-min; so two
// groups that communicate at the same time both take longer, and a forecast holds until more is sent. A message arrives
// `latency` after its bytes. A collective begins when all ranks have come to it and sends the messages of the algorithm that
// sim::ChooseSchedule names for such links ("auto"), in phases that all ranks pass together: the latencies of its rounds,
// then its bytes.
//
// The data moves at once, through memory, and ranks sleep until it would have arrived. So times are right as long as
// memory is the faster of the two. The simulated fabric (fabric.simulated.link_gbps) means the same links and knows
// nothing of this; what differs is that here ranks really compute, meet and sleep.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "sim/collectives/schedule.h"

namespace twofold::in_memory {

// Something in flight.
struct Travel;
using TravelPtr = std::shared_ptr<Travel>;

// Shared by the ranks of a run; any thread may call. Ranks are those of the world, times are seconds of one clock.
class Links {
 public:
  Links(int ranks, double bytes_per_second, double latency_s);

  // A message whose both sides are ready at `ready`.
  TravelPtr Message(int from, int to, double bytes, double ready);
  // A collective of `ranks`, that begins at `start`.
  TravelPtr Collective(const sim::CollectiveShape& shape, std::span<const int> ranks, double start);
  // When the rank that comes at `place` among its ranks is done, if nothing else is sent meanwhile.
  double Arrival(const Travel& travel, int place) const;

 private:
  // How far a travel has come: in `phase`, before its bytes move, at `moves`, or with so many `left` of each flow.
  struct Flight {
    TravelPtr travel;
    size_t phase = 0;
    double moves = 0;
    bool moving = false;
    std::vector<double> left, rates;
    std::vector<double> ends = {};  // of phases
  };
  // All that is in flight at some moment. A value: a forecast is a copy that runs to the end.
  struct Traffic {
    double time = 0;
    std::vector<Flight> flights;
  };
  TravelPtr Begin(sim::Schedule schedule, std::span<const int> ranks, double start);
  double Latency(const sim::Phase& phase) const;
  void Run(Traffic& traffic, double until) const;
  double Next(const Traffic& traffic) const;
  void SetRates(Traffic& traffic) const;
  void Proceed(Flight& flight, double time) const;

  const int ranks_;
  const double bytes_per_second_, latency_;
  mutable std::mutex mutex_;
  double latest_ = 0;  // start of anything
  Traffic past_;       // what starts can no longer change, who tells of them a little late
};

}  // namespace twofold::in_memory
