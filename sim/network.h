// Collectives and messages on the simulated network: from what is asked for to when each rank is done.
//
// What nothing else can touch needs no simulation: while only one group of several ranks exists and no point-to-point
// message was ever sent, collectives follow one another and have the network to themselves. Then, for algorithms whose ranks
// all finish together, the duration is computed where no link carries two flows of a phase, and else simulated once and
// remembered. What was measured as it is called takes what it took then, on the same condition. Otherwise every collective is
// flows among flows.
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
  // `closed_forms` false: everything is simulated at least once.
  Network(Engine& engine, std::string algorithm, bool closed_forms = true, MeasuredCollectives measured = {});

  // Groups of several ranks that may communicate; `endpoints` by rank. Returns its number.
  int AddGroup(std::vector<int> endpoints);
  void RemoveGroup(int group);

  // Starts at `start`; `done(finish)` gets each rank's time, perhaps before the clock shows it. Fails the engine where the
  // algorithm has no form for it.
  void Collective(int group, const CollectiveShape& shape, double start,
                  std::function<void(const std::vector<double>& finish)> done);
  void Message(int from_endpoint, int to_endpoint, double bytes, double start, std::function<void(double finish)> done);

 private:
  struct Known {
    std::shared_ptr<const Schedule> schedule;
    double seconds = -1;  // alone on the network, when all ranks finish together; -1: not known
  };
  using Key = std::tuple<int, int, double, int>;  // group, kind, bytes, root

  std::shared_ptr<const Schedule> Make(const CollectiveShape& shape);
  // Seconds alone on the network, where they are known without a simulation; else -1.
  double Alone(const Schedule& schedule, const CollectiveShape& shape, const std::vector<int>& endpoints) const;
  // Seconds of a schedule alone on the network; -1 where flows share links or ranks finish at different times.
  double ClosedForm(const Schedule& schedule, const std::vector<int>& endpoints) const;
  bool Alone() const { return groups_.size() == 1 && !messages_ && engine_.network_idle(); }

  Engine& engine_;
  const std::string algorithm_;
  const bool closed_forms_;
  const MeasuredCollectives measured_;
  std::map<int, std::vector<int>> groups_;
  int next_group_ = 0;
  bool messages_ = false;  // point-to-point was used
  absl::flat_hash_map<Key, Known> known_;
};

}  // namespace twofold::sim
