// Collectives and messages on the simulated network: from what is asked for to when each rank is done.
//
// What nothing else can touch needs no simulation: while only one group of several ranks exists and no point-to-point
// message was ever sent, collectives follow one another and have the network to themselves. Then, for algorithms whose ranks
// all finish together, the duration is that of their phases' latencies and of their flows' max-min shares (fluid.h). What was
// measured as it is called takes what it took then. Otherwise every collective is flows among flows; those of one that was
// measured are stretched so that alone they would take what it took.
//
// Where one actor stands for several ranks, it names all groups that do what its own does. Their flows are on the network
// together; or, where one stands for all, where all endpoints send and receive alike and an endpoint's way out is the narrowest of a route, endpoint
// 0's alone: it meets on that way what the others meet on theirs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "sim/collectives/library.h"
#include "sim/collectives/measured.h"
#include "sim/collectives/schedule.h"
#include "sim/engine.h"
#include "sim/fluid.h"
#include "topologies/routing.h"

namespace twofold::sim {

struct NetworkOptions {
  Choice choice;                 // where the algorithm is "auto", `measured` collectives come before any
  bool closed_forms = true;      // false: everything is simulated at least once
  MeasuredCollectives measured = {};
  bool folded = false;           // one actor stands for all ranks: groups are all there are
  std::vector<int> endpoints = {};  // by rank; empty: rank r is at endpoint r
};

class Network {
 public:
  // Engine and library outlive the network.
  Network(Engine& engine, const Library& library, NetworkOptions options = {});
  ~Network();

  // Groups of several ranks that may communicate and that always do the same together: one, or all that a rank stands for,
  // its own first; as many ranks in each. Returns their number.
  int AddGroups(const std::vector<std::vector<int>>& groups);
  void RemoveGroups(int number);

  // What runs, of the library's; algorithm "measured" where a measurement gives its time.
  struct Name { std::string algorithm, protocol; };

  // Starts at `start`; `done(finish, apart)` gets each rank's time, group by group, perhaps before the clock shows it; one for
  // all where they are known to be equal. `apart`: the most seconds by which one group was done with a part of it before others
  // and waited for them. Fails the engine where the algorithm has no form for it.
  using Done = Engine::Arrived;
  Name Collective(int groups, const CollectiveShape& shape, double start, Done done);
  // Between two ranks of each of the groups, numbered in the group; `ended` is told of the senders (0) and of the receivers (1) when
  // the last of them is done, and when the first was.
  using Ended = std::function<void(size_t place, double first, double last)>;
  Name Message(int groups, int from, int to, double bytes, double start, Ended ended);
  const Library& library() const { return library_; }

  // False once flows that stand for all ranks' have shared the network with flows that do not.
  bool exact() const { return exact_; }

 private:
  struct Group {
    std::vector<int> endpoints;  // by rank of the group
    Places places;
    Pair PairOf(const sim::Flow& f) const {
      return {endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)], f.rail};
    }
  };
  using Groups = std::vector<Group>;
  struct Known {
    std::vector<std::shared_ptr<Schedule>> schedules;  // by group; those of groups in like places are one
    std::shared_ptr<const Schedule> one;  // endpoint 0's part of it, where it stands for all; else null
    double seconds = -1;  // alone on the network, when all ranks finish together; -1: not known
    std::shared_ptr<const Engine::Course> course = nullptr;  // where the engine solves flows: in place of schedules
    bool flows = false;
    Name name = {};
  };
  struct PhaseTime { double latency, seconds; bool together; };  // seconds: with the latency, of the groups' longest; together: they end at once
  // Alone on the network, by size: latency + bytes * per_byte.
  struct Price { double latency, per_byte; };
  using AloneKey = std::tuple<int, int, int, std::string, size_t, size_t>;  // groups, kind, root, algorithm, phases, flows
  using Key = std::tuple<int, int, double, int>;  // groups, kind, bytes, root
  struct Way {  // of messages between two places of the groups
    std::vector<std::vector<int>> endpoints;            // by group: the two
    std::vector<std::shared_ptr<const Schedule>> schedules;  // by group; those of pairs in like places are one
    std::shared_ptr<const Engine::Course> course = nullptr;
    Name name = {};
  };
  using WayKey = std::tuple<int, int, int, double>;  // groups, from, to, bytes

  int EndpointOf(int rank) const { return options_.endpoints.empty() ? rank : options_.endpoints[static_cast<size_t>(rank)]; }
  Known Make(int number, const CollectiveShape& shape, const Groups& groups);
  // Of what the library leaves to choose, what is soonest done alone on the network.
  Known Choose(int number, const CollectiveShape& shape, const Groups& groups);
  // `plan` for the first group, the like for the others; nothing where some group has no form of it.
  std::optional<Known> ForAll(Schedule plan, const Choice& others, const CollectiveShape& shape, const Groups& groups) const;
  double SecondsAlone(int number, const CollectiveShape& shape, const Known& known, const Groups& groups);
  std::shared_ptr<const Schedule> OneForAll(const Schedule& schedule, const Groups& groups) const;
  std::shared_ptr<const Engine::Course> Chart(const Known& known, const Groups& groups);
  std::vector<Request> Requests(size_t phase, const Known& known, const Groups& groups) const;
  // Seconds that all groups take, alone on the network; -1 where ranks or groups finish at different times.
  double ClosedForm(const Known& known, const Groups& groups);
  // Of phase number `phase` of every group, all beginning together.
  PhaseTime TimeOf(size_t phase, const Known& known, const Groups& groups);
  bool Alone() const { return groups_.size() == 1 && !messages_ && engine_.network_idle(); }
  void Flow(const Known& known, const Groups& groups, double start, Done done);
  Way MakeWay(const Groups& groups, int from, int to, double bytes);

  Engine& engine_;
  const Library& library_;
  const NetworkOptions options_;
  std::optional<Fluid> fluid_;  // made when first needed
  std::map<int, Groups> groups_;
  int next_groups_ = 0;
  bool messages_ = false;  // point-to-point was used
  bool exact_ = true;
  int ones_ = 0, alls_ = 0;  // folded collectives in flight with one rank's flows for all, and with all flows
  absl::flat_hash_map<Key, Known> known_;
  absl::flat_hash_map<AloneKey, Price> alone_;
  absl::flat_hash_map<WayKey, std::shared_ptr<const Way>> ways_;
};

}  // namespace twofold::sim
