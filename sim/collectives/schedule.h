// A collective algorithm as data: phases of flows.
//
// A phase costs its latency, then the time its flows need together; the next phase starts when all flows of this one have
// arrived (the phases of one collective are bulk-synchronous). Rounds that are alike and back to back (the 2(N-1) steps of a
// ring) are one phase: rounds x latency + all their bytes. The latency of a phase is
//     seconds + rounds x the longest of its flows' latencies                   (in step: no `crossings`)
//     seconds + sum over flows of crossings x latency                          (pipelined: a byte's way through the flows)
// where a flow's latency is that of its route plus its own `hop_seconds`.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/comm/communication.h"

namespace twofold::sim {

struct Flow {
  int from, to;  // ranks in the group
  double bytes;  // on the wire
  int rail = -1; // as Pair::rail
  double crossings = 0;    // how often a byte crosses this flow on the longest way through a pipelined phase
  double hop_seconds = 0;  // software's part of a crossing
  double rate = std::numeric_limits<double>::infinity();  // bytes a second, the most that its sender or receiver moves
  // Of loose schedules, where hop_seconds is how long after the phase's beginning the sender gets to it:
  bool meets = false;      // begins when its receiver is there, too, and a round trip later (rendezvous)
  bool queued = false;     // begins when the sender's flow before it has left over its first link, however full links beyond are
  double free = 0;         // of its bytes, those that cost nothing where links were idle before: a link that has carried bytes lets so
                           // many pass at once again when it could have carried them all since
};

struct Phase {
  int rounds = 1;
  std::vector<Flow> flows;  // without flows: only the latency of a round of messages
  double seconds = 0;       // of software, at its beginning
};

struct Schedule {
  std::vector<Phase> phases;
  // For each rank, the last phase it takes part in, -1 for none: it is done when that has ended.
  std::vector<int> last_phase;
  double stretch = 1;  // of its latencies and its bytes: where a measurement says that it takes so many times as long
  std::string algorithm, protocol;  // what was chosen; protocol "" where there are none
  double estimate = 0;              // seconds, by the model that "auto" compares by: EstimateSeconds, or the library's own; 0: it has none
  bool loose = false;  // ranks go on by themselves: a phase begins for each when its own flows of earlier ones have ended
};

// A phase's latency, by the formula above. `routes`: that of each flow's route; `alpha`: of a message where it has no flows.
double PhaseLatency(const Phase& phase, std::span<const double> routes, double alpha);

// What is to be done, by sizes alone.
struct CollectiveShape {
  Communication::Kind kind;
  int ranks;
  double bytes;  // Communication::bytes(): all-reduce and broadcast the tensor, all-gather the output, ...
  int root = 0;
  std::vector<std::vector<double>> matrix;  // kAllToAllV: bytes from rank i to rank j
};

// Where a group's ranks sit: what algorithms may know of the topology.
struct Places {
  std::vector<int> node;   // of each rank; numbered from 0 in the order in which they appear
  std::vector<int> local;  // its number among the group's ranks of that node, in the order of ranks
  std::vector<int> rail;   // its own NIC's number
  int nodes = 1;           // how many nodes the group touches
  int rails = 1;           // NICs a node
  bool one_link = true;    // every endpoint has the same network: no algorithm gains by knowing nodes
  bool shared_memory = false;
  std::vector<int> grid;   // where the ranks fill a grid with closed lines: its dimensions, the first fastest; else empty
  std::vector<int> at;     // the rank at each of its positions
  bool multicast_in_node = false, reduction_in_network = false;
  double alpha = 0, bandwidth = 1;  // as Topology's
  double node_alpha = 0, node_bandwidth = 1;  // likewise inside a node; those above where a node has one endpoint
  // Where the pairs of a node are not joined alike, and all nodes hold the same: by their numbers in the node, the narrowest on the way
  // from one to the other; direct: over a cable of their own.
  struct Joint {
    double bandwidth = 0;
    bool direct = false;
    bool operator==(const Joint&) const = default;
  };
  std::vector<std::vector<Joint>> joints;
  int ranks() const { return static_cast<int>(node.size()); }
  bool operator==(const Places&) const = default;
  int RanksPerNode() const;  // 0: nodes have different numbers of them
};
// One rank a node, on a uniform network.
Places UniformPlaces(int ranks, double alpha, double bandwidth);

// One algorithm: a file each, a row in algorithms.cc.
struct Algorithm {
  std::string_view name, summary;
  // Refuses what it cannot do (an operation it has no form for, a number of ranks or a placement it does not serve).
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

// Time on an idle uniform network: each phase's latency, and the most bytes that one rank sends or receives in it divided by
// `bandwidth`.
double EstimateSeconds(const Schedule& schedule, double alpha, double bandwidth);
// Time on idle nodes: a phase lasts as long as the busiest rank inside its node or the busiest NIC.
double EstimateSeconds(const Schedule& schedule, const Places& places);

// The schedules that "auto" may take, the one with the least EstimateSeconds first (of equal ones, by the order of Algorithms()):
// shared_memory on a shared-memory host; elsewhere all that have a form for the operation there, but not direct nor pairwise, because
// alpha and bandwidth do not know what posting N - 1 messages costs: these are for all_to_all and what no other has a form for. One or
// more. A barrier is always dissemination (log2 N rounds; one meeting on a shared-memory host).
std::vector<Schedule> AutoSchedules(const CollectiveShape& shape, const Places& places);

// The schedule by name, or for "auto" the first of AutoSchedules.
absl::StatusOr<Schedule> ChooseSchedule(const CollectiveShape& shape, std::string_view algorithm, const Places& places);

}  // namespace twofold::sim
