// Collectives and messages on the simulated network: from what is asked for to when each rank is done.
//
// What nothing else can touch needs no simulation: while only one group of several ranks exists and no point-to-point
// message was ever sent, collectives follow one another and have the network to themselves. Then, for algorithms whose ranks
// all finish together, the duration is computed where the flows of a phase share links evenly, and else simulated once and
// remembered. What was measured as it is called takes what it took then. Otherwise every collective is flows among flows;
// those of one that was measured are stretched so that alone they would take what it took.
//
// Where one actor stands for all ranks, it names all groups that do what its own does. Their flows are on the network
// together; or, where all endpoints send and receive alike and an endpoint's way out is the narrowest of a route, endpoint
// 0's alone: it meets on that way what the others meet on theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "sim/collectives/measured.h"
#include "sim/collectives/schedule.h"
#include "sim/engine.h"

namespace twofold::sim {

class Network {
 public:
  // `algorithm`: a name of Algorithms(), or "auto", with which `measured` collectives come before any algorithm.
  // `closed_forms` false: everything is simulated at least once. `folded`: groups are all those that one actor stands for.
  Network(Engine& engine, std::string algorithm, bool closed_forms = true, MeasuredCollectives measured = {},
          bool folded = false);

  // Groups of several ranks that may communicate and that always do the same together: one, or all that a rank stands for,
  // its own first. Endpoints by rank; as many in each. Returns their number.
  int AddGroups(std::vector<std::vector<int>> groups);
  void RemoveGroups(int number);

  // Starts at `start`; `done(finish)` gets each rank's time, in the order of the groups' ends, perhaps before the clock
  // shows it; one for all where they are known to be equal. Fails the engine where the algorithm has no form for it.
  void Collective(int groups, const CollectiveShape& shape, double start,
                  std::function<void(const std::vector<double>& finish)> done);
  void Message(int from_endpoint, int to_endpoint, double bytes, double start, std::function<void(double finish)> done);

  // False once flows that stand for all ranks' have shared the network with flows that do not.
  bool exact() const { return exact_; }

 private:
  struct Known {
    std::shared_ptr<const Schedule> schedule;
    std::shared_ptr<const Schedule> one;  // endpoint 0's part of it, where it stands for all; else null
    double seconds = -1;  // alone on the network, when all ranks finish together; -1: not known
  };
  using Groups = std::vector<std::vector<int>>;
  using Key = std::tuple<int, int, double, int>;  // groups, kind, bytes, root

  Known Make(const CollectiveShape& shape, const Groups& groups) const;
  std::shared_ptr<const Schedule> OneForAll(const Schedule& schedule, const Groups& groups) const;
  // Seconds of a schedule that all groups run, alone on the network; -1 where links are shared unevenly or ranks finish at
  // different times.
  double ClosedForm(const Schedule& schedule, const Groups& groups) const;
  double PhaseSeconds(const Phase& phase, const Groups& groups) const;
  bool Alone() const { return groups_.size() == 1 && !messages_ && engine_.network_idle(); }
  void Flow(const Known& known, const Groups& groups, double start, std::function<void(const std::vector<double>&)> done);

  Engine& engine_;
  const std::string algorithm_;
  const bool closed_forms_;
  const MeasuredCollectives measured_;
  const bool folded_;
  std::map<int, Groups> groups_;
  int next_groups_ = 0;
  bool messages_ = false;  // point-to-point was used
  bool exact_ = true;
  int ones_ = 0, alls_ = 0;  // folded collectives in flight with one rank's flows for all, and with all flows
  absl::flat_hash_map<Key, Known> known_;
};

}  // namespace twofold::sim
