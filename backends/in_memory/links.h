// Links between in-memory ranks that are slowed down: when what is sent over them arrives.
//
// Each rank has one link to a switch that never limits, full duplex. A message of n bytes takes n / rate on its sender's
// way out and on its receiver's way in, both at once, after what had been put on either before; and arrives `latency`
// later. A collective begins when all ranks have come to it. It sends the messages of the algorithm that
// sim::ChooseSchedule names for such links ("auto"): a rank begins a phase of it when it has sent and received all of the
// phase before, for itself and not in step with the others.
//
// The data moves at once, through memory, and ranks sleep until it would have arrived. So times are right as long as
// memory is the faster of the two. The simulated fabric (fabric.simulated.link_gbps) means the same links and knows
// nothing of this: there a collective is flows on a star that share links max-min, in phases that all ranks pass together.
#pragma once

#include <mutex>
#include <span>
#include <vector>

#include "core/proto/spec.pb.h"
#include "sim/collectives/schedule.h"

namespace twofold::in_memory {

// Shared by the ranks of a run; any thread may call. Ranks are those of the world, times are seconds of one clock.
class Links {
 public:
  Links(int ranks, double bytes_per_second, double latency_s);

  // When a message whose both sides are ready at `ready` has arrived.
  double Message(int from, int to, double bytes, double ready);
  // When each rank, of those that take part, is done with a collective that begins at `start`.
  std::vector<double> Collective(const sim::CollectiveShape& shape, std::span<const int> ranks, double start);

 private:
  double Send(int from, int to, double bytes, double ready, int latencies);  // with the lock held

  const double seconds_per_byte_, latency_;
  std::mutex mutex_;
  std::vector<double> out_, in_;  // by rank: when each way is free again
};

}  // namespace twofold::in_memory
