// A collective algorithm as data: phases of flows.
//
// A phase costs its latency, then the time its flows need together; the next phase starts when all flows of this one
// have arrived (the phases of one collective are bulk-synchronous). Identical back-to-back rounds (the 2(N-1) steps of
// a ring) are one phase: rounds x latency + all their bytes. The latency of a phase is
//     seconds + rounds x the longest of its flows' latencies                   (in step: no `crossings`)
//     seconds + sum over flows of crossings x latency                          (pipelined: a byte's path through flows)
// where a flow's latency is that of its route plus its own `hop_seconds`.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/comm/communication.h"
#include "sim/collectives/flow_list.h"

namespace twofold::sim {

struct Phase {
  int rounds = 1;
  FlowList flows;      // if empty: only the latency of a round of messages
  double seconds = 0;  // software's cost at the beginning of the phase
};

struct Schedule {
  std::vector<Phase> phases;
  // For each rank, the last phase that it takes part in, -1 for none; the rank is done when that phase has ended.
  std::vector<int> last_phase;
  double multiprocessors = 0;       // that its kernels occupy on each device
  double stretch = 1;               // factor on its latencies and bytes, to match a measured time
  std::string algorithm, protocol;  // what was chosen; protocol is "" if there are none
  double estimate = 0;  // seconds, by the model that "auto" compares by: EstimateSeconds, or the library's own; 0: none
  // Not bulk-synchronous: a phase begins for each rank when its own flows of earlier phases have ended.
  bool loose = false;
};

// A phase's latency, by the formula above. `routes`: each flow's route latency, which may be 0 where it does not count;
// `alpha`: of a message, for a phase without flows.
double PhaseLatency(const Phase& phase, std::span<const double> routes, double alpha);
// The same of a phase whose flows are given by kind, pipelined or without rounds. `routes`: by kind.
struct KindRoutes {
  size_t flows = 0;    // of the kind
  double seconds = 0;  // latencies of their routes, added up; neither counts of kinds without crossings
};
double PhaseLatency(const Phase& phase, std::span<const KindRoutes> routes);
bool IsPipelined(const Phase& phase);  // some of its flows have `crossings`
inline bool RouteCounts(const Phase& phase, bool pipelined, const Flow& flow) {
  return pipelined ? flow.crossings > 0 : phase.rounds > 0;
}

// The collective to perform, described by sizes only.
struct CollectiveShape {
  Communication::Kind kind;
  int ranks;
  double bytes;  // Communication::bytes(): all-reduce and broadcast: the tensor; all-gather: the output, ...
  int root = 0;
  std::vector<std::vector<double>> matrix;  // kAllToAllV: bytes from rank i to rank j
  // The call was issued before a like one on its stream had ended. Along a chain (broadcast, reduce) its first ranks
  // were free for it while the last ones still waited for the other: a library may leave out that delay.
  bool follows = false;
  bool IsChain() const { return kind == Communication::kBroadcast || kind == Communication::kReduce; }
};

// What is known about something and kept with it; it makes no difference to what the thing is.
struct Memo {
  std::shared_ptr<void> kept = nullptr;
  bool operator==(const Memo&) const { return true; }
};

// Where a group's ranks are: what algorithms may know of the topology.
struct Places {
  std::vector<int> node;   // of each rank; numbered from 0 in order of appearance
  std::vector<int> local;  // its number among the group's ranks on that node, in rank order
  std::vector<int> rail;   // the number of its own NIC
  int nodes = 1;           // how many nodes the group uses
  int rails = 1;           // NICs per node
  bool one_link = true;    // every endpoint has the same network, so algorithms gain nothing from knowing nodes
  bool shared_memory = false;
  std::vector<int> grid;  // if the ranks fill a torus: its dimensions, the fastest first; else empty
  std::vector<int> at;    // the rank at each grid position
  bool multicast_in_node = false, reduction_in_network = false;
  double alpha = 0, bandwidth = 1;            // as in Topology
  double node_alpha = 0, node_bandwidth = 1;  // the same inside a node; equal to those above if a node has one endpoint
  // For nodes whose pairs have different links, if all nodes are alike. Indexed by the two local numbers: the narrowest
  // bandwidth on the path between them, and whether they have a cable of their own (direct).
  struct Joint {
    double bandwidth = 0;
    bool direct = false;
    bool operator==(const Joint&) const = default;
  };
  std::vector<std::vector<Joint>> joints;
  bool pair_cables = false;       // every two devices of a node have a cable of their own, all alike (node_bandwidth)
  const Places* group = nullptr;  // of a message's two ranks: the places of their whole group; null: these are all
  bool pcie_in_node = false;      // devices of a node reach each other over PCIe
  mutable Memo routes = {};       // kept by a library: routes among these ranks
  int ranks() const { return static_cast<int>(node.size()); }
  bool operator==(const Places&) const = default;
  int RanksPerNode() const;  // 0: nodes have different numbers of ranks
};
// One rank per node, on a uniform network.
Places UniformPlaces(int ranks, double alpha, double bandwidth);

// One algorithm. Each has its own file and a row in algorithms.cc.
struct Algorithm {
  std::string_view name, summary;
  // Refuses operations, numbers of ranks and placements that it does not support.
  absl::StatusOr<Schedule> (*make)(const CollectiveShape& shape, const Places& places);
};

absl::StatusOr<Schedule> RingSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> TreeSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> RecursiveDoublingSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> HalvingDoublingSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> DoubleBinaryTreeSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> BruckSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> DirectSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> PairwiseSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> HierarchicalSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> BucketSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> NvlsSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> SharpSchedule(const CollectiveShape& shape, const Places& places);
absl::StatusOr<Schedule> SharedMemorySchedule(const CollectiveShape& shape, const Places& places);

const std::vector<Algorithm>& Algorithms();

// Time on an idle uniform network: for each phase its latency, plus the most bytes that one rank sends or receives in
// it divided by `bandwidth`.
double EstimateSeconds(const Schedule& schedule, double alpha, double bandwidth);
// Time on idle nodes: a phase lasts as long as the busiest rank inside its node, or the busiest NIC.
double EstimateSeconds(const Schedule& schedule, const Places& places);

// The most bytes on the wire that one rank sends.
double BusiestBytes(const Schedule& schedule);

// The schedules that "auto" may choose, by ascending EstimateSeconds (among equals, in the order of Algorithms()). On a
// shared-memory host this is shared_memory. Elsewhere it is all algorithms that support the operation there, except
// direct and pairwise, because alpha and bandwidth do not include the cost of posting N - 1 messages; these two serve
// all_to_all and what no other algorithm supports. There is always at least one. A barrier is always dissemination
// (log2 N rounds; a single synchronisation on a shared-memory host).
std::vector<Schedule> AutoSchedules(const CollectiveShape& shape, const Places& places);

// The schedule by name, or for "auto" the first of AutoSchedules.
absl::StatusOr<Schedule> ChooseSchedule(const CollectiveShape& shape, std::string_view algorithm, const Places& places);

}  // namespace twofold::sim
