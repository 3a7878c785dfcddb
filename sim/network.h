// Collectives and messages on the simulated network: from a request to the time when each rank is done.
//
// If nothing else can use the network, no simulation is needed: while there is only one group of several ranks and no
// point-to-point message was ever sent, collectives follow one another and have the network to themselves. For
// algorithms whose ranks all finish together, the duration then follows from the phases' latencies and the flows'
// max-min shares (phase_times.h); of very many phases under adaptive routing, a sample is timed (phase_sample.h). A
// collective that was measured takes its measured time. In all other cases a
// collective's flows share the network with other flows; the flows of a measured collective are stretched so that alone
// they would take the measured time.
//
// If one actor represents several ranks, it names all groups that do the same as its own. Their flows are on the
// network together.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "sim/collectives/library.h"
#include "sim/collectives/measured.h"
#include "sim/collectives/schedule.h"
#include "sim/engine.h"
#include "sim/phase_sample.h"
#include "sim/phase_times.h"

namespace twofold::sim {

struct NetworkOptions {
  Choice choice;             // if the algorithm is "auto", `measured` collectives take precedence
  bool closed_forms = true;  // false: every communication is simulated, even if it was before
  MeasuredCollectives measured = {};
  std::vector<int> endpoints = {};  // by rank; empty: rank r is at endpoint r
  bool keep_schedules = false;      // for ScheduleOf
  // Whether messages within a node, between ranks of this group, are copies by copy engines. Null: none are.
  std::function<bool(std::span<const int> ranks)> copied = nullptr;
  size_t most_flows = kMostFlows;  // under adaptive routing: of more, a sample is timed (phase_sample.h)
};

class Network {
 public:
  // Engine and library must outlive the network.
  Network(Engine& engine, const Library& library, NetworkOptions options = {});
  ~Network();

  // Adds groups of several ranks that may communicate and that always do the same together: a single group, or one for
  // each rank that an actor represents, its own first. All must have the same number of ranks. Returns a number for the
  // whole set. `name`: of the groups, for the history of links.
  using Ranks = std::vector<std::vector<int>>;
  int AddGroups(std::shared_ptr<const Ranks> groups, std::string name = "");
  void RemoveGroups(int number);
  // Whether each group lies within a node, on links that none of the others uses.
  bool ShareNoLinks(int groups);

  // What runs: the library's names; algorithm "measured" if the time comes from a measurement.
  struct Name {
    std::string algorithm, protocol;
  };

  // Starts at `start`. `done(finish, apart)` receives each rank's time, group by group, perhaps before the clock
  // reaches it; or a single time if all are known to be equal. `apart`: the most seconds by which one group finished a
  // part before others and waited for them. Fails the engine if the algorithm does not support the collective.
  using Done = Engine::Arrived;
  Name Collective(int groups, const CollectiveShape& shape, double start, Done done);
  // A message between two ranks of each of the groups, by their numbers in the group. `ended` is called for the senders
  // (0) and for the receivers (1) when the last of them is done, with that time and the time when the first was done.
  using Ended = std::function<void(size_t place, double first, double last)>;
  Name Message(int groups, int from, int to, double bytes, double start, Ended ended);
  // The same from every rank of each of the groups to the one `places` after it, all at once; after the last comes the
  // first.
  Name Shift(int groups, int places, double bytes, double start, Ended ended);
  // What a collective among these groups takes of each device, and for how long if it is alone on the network; an
  // estimate, before it begins. Fails the engine as Collective does.
  struct Occupation {
    double seconds = 0, multiprocessors = 0, bytes = 0;  // bytes: on the wire, that the busiest rank sends
  };
  Occupation Occupies(int groups, const CollectiveShape& shape);
  Occupation MessageOccupies(int groups, int from, int to, double bytes);
  // What Collective and Message run, of the first of the groups. Only with keep_schedules.
  std::shared_ptr<const Schedule> ScheduleOf(int groups, const CollectiveShape& shape);
  std::shared_ptr<const Schedule> ScheduleOf(int groups, int from, int to, double bytes);
  const Library& library() const { return library_; }
  int64_t planned() const { return planned_; }  // collectives and messages for which schedules were made
  size_t most_classes() const { return times_.most_classes(); }  // of flows, of what has the network to itself
  // What a reader must know of the times: those that come from a sample of phases.
  std::vector<std::string> notes() const;

 private:
  struct Group {
    std::vector<int> endpoints;  // by rank of the group
    Places places;
  };
  using Groups = std::vector<Group>;
  struct Known {
    std::vector<std::shared_ptr<Schedule>> schedules;  // by group; groups with equal places share one
    double seconds = -1;  // alone on the network, if all ranks finish together; -1: unknown
    std::shared_ptr<const Engine::Course> course = nullptr;  // if the engine solves flows: replaces schedules
    std::shared_ptr<const Schedule> kept = nullptr;          // the first group's, with keep_schedules
    Name name = {};
    std::optional<Occupation> occupation = std::nullopt;  // once somebody asks for occupations
    // While it is made, of the first group's phases: those that are timed, and their times.
    std::vector<PhaseSample> sample = {};
    std::vector<std::optional<PhaseTimes::Time>> times = {};
  };
  // The time alone on the network as a function of size: latency + bytes * per_byte.
  struct Price {
    double latency, per_byte;
  };
  // Groups, kind, root, algorithm, phases, flows.
  using AloneKey = std::tuple<int, int, int, std::string, size_t, size_t>;
  using Key = std::tuple<int, int, double, int>;             // groups, kind, bytes, root and follows, or matrix
  struct Way {                                               // for messages that begin together
    std::vector<std::vector<int>> endpoints;                 // by message: its two endpoints
    std::vector<std::shared_ptr<const Schedule>> schedules;  // by message; pairs with equal places share one
    std::shared_ptr<const Engine::Course> course = nullptr;
    Name name = {};
    Occupation occupation = {};
  };
  using WayKey = std::tuple<int, int, int, double>;  // groups, from (-1: from all, to that many places on), to, bytes

  int EndpointOf(int rank) const {
    return options_.endpoints.empty() ? rank : options_.endpoints[static_cast<size_t>(rank)];
  }
  Key KeyOf(int number, const CollectiveShape& shape, const Groups& groups);
  Known Make(int number, const CollectiveShape& shape, const Groups& groups);
  // Among the schedules that the library offers, the one that is fastest alone on the network.
  Known Choose(int number, const CollectiveShape& shape, const Groups& groups);
  // `plan` for the first group and the same for the others; nothing if the algorithm does not support some group.
  std::optional<Known> ForAll(Schedule plan, const Choice& others, const CollectiveShape& shape,
                              const Groups& groups) const;
  static AloneKey AloneKeyOf(int number, const CollectiveShape& shape, const Known& known);
  struct Candidate;
  void Advance(int number, const CollectiveShape& shape, const Groups& groups, Candidate& candidate);
  const PhaseTimes::Time& TimeAlone(size_t phase, const Groups& groups, bool exact, Known& known);
  std::shared_ptr<const Engine::Course> Chart(const Known& known, const Groups& groups);
  std::shared_ptr<const Engine::Course> ChartUnsolved(const Known& known, const Groups& groups);
  // Seconds that all groups take, alone on the network; -1 if ranks or groups finish at different times.
  double ClosedForm(Known& known, const Groups& groups);
  std::vector<PhaseSample> SampleOf(const Schedule& schedule) const;  // of the phases, those to time
  void KeepSample(const CollectiveShape& shape, const Known& known);
  bool Alone() const { return groups_.size() == 1 && !messages_ && engine_.network_idle(); }
  void Flow(const Known& known, const Groups& groups, double start, Done done, int use);
  int UseOf(int groups, std::string_view operation);
  void RecordAlone(int number, const CollectiveShape& shape, const Groups& groups, double start, Known& entry);
  Way MakeWay(int number, std::vector<std::vector<int>> pairs, double bytes);
  static Occupation OccupationOf(const Schedule& schedule, const Places& places);
  std::shared_ptr<const Way> WayOf(const WayKey& key);
  Name Send(const WayKey& key, double start, Ended ended);

  Engine& engine_;
  const Library& library_;
  const NetworkOptions options_;
  PhaseTimes times_;
  size_t kept_links_ = 0;  // of the collective that is being made
  struct Listed {
    std::shared_ptr<const Ranks> ranks;
    std::string name = {};
    // Made when they first communicate. The same ranks may have several numbers: what is known of them is known once.
    std::shared_ptr<const Groups> groups = nullptr;
  };
  const Groups& GroupsOf(int number);
  // A number for an all_to_all_v among these groups: equal for equal matrices. Forgets earlier ones when what is known
  // of them may have become large.
  int MatrixNumber(const CollectiveShape& shape, const Groups& groups);
  absl::flat_hash_map<std::vector<std::vector<double>>, int> matrices_;
  int next_matrix_ = 0;
  size_t pairs_of_matrices_ = 0;
  std::map<int, Listed> groups_;
  int next_groups_ = 0;
  int64_t planned_ = 0;
  bool occupations_ = false;  // they were asked for
  bool messages_ = false;     // a point-to-point message was sent
  // Collectives whose time is from a sample, by kind and ranks.
  struct Sampled {
    size_t timed, phases;
    double error;  // relative, the largest
  };
  std::map<std::pair<Communication::Kind, int>, Sampled> sampled_;
  absl::flat_hash_map<Key, Known> known_;
  absl::flat_hash_map<AloneKey, Price> alone_;
  absl::flat_hash_map<WayKey, std::shared_ptr<const Way>> ways_;
};

}  // namespace twofold::sim
