// Flows that begin and end at any time and share the links with all other flows: max-min fair at every moment
// (fluid.h), solved by class (flow_classes.h) and block (block_shares.h).
//
// Flows that begin together form a bundle. It is solved once, as if it were alone, into steps: moments at which rates
// of its classes change. Active bundles run through their steps. As long as no link is overloaded, that is the exact
// answer: every flow is limited by its own rate or by a link that its own bundle fills. No other bundle can then be on
// that link, so rates that are fair for each bundle alone are fair for all. If a step would overload a link, the
// bundles that meet there are merged into one: what is left of their flows is classified together and solved anew.
// Which classes bundles have together is remembered, so that bundles that meet again cost only the solution; not even
// that if they have as much left as before, up to the rounding of times. Some of the bundles that met may meet without
// the others: if all had few more classes together than these are known to need, they are solved as all with nothing
// left of the others. A solution is made as far as it is needed.
//
// Flows that have the network to themselves need no solution if it is known how long they take (phase_times.h). They
// are solved when another bundle begins beside them, unless it is known that together they overload no link: if each
// has its own rate all the time, and the shares of a link that they take at most add up to no more than 1.
//
// Loads are kept for zones: sets of links that all bundles known so far load alike. A bundle that does not splits them.
// While a bundle is alone, nobody asks for its loads, and they are added up when another one begins.
//
// Cost: for a bundle that meets no other, a few additions per step for each zone that it crosses; for a meeting, one
// solution of the merged classes.
//
// Assumes and ignores the same as fluid.h. This file does not know ranks, actors or SimGrid; the caller provides clock
// and timers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/zeros.h"
#include "sim/link_history.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_classifier.h"
#include "sim/sharing/flow_solution.h"
#include "sim/sharing/known_solutions.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class Flows {
 public:
  class Bundle;
  using BundlePtr = std::shared_ptr<const Bundle>;

  // `at(time, fn)` calls fn when `now()` reaches `time`; at once if it has.
  using At = std::function<void(double time, std::function<void()> fn)>;
  // `history`, if not null, is told what links carry, and must outlive this.
  Flows(const Topology& topology, std::function<double()> now, At at, LinkHistory* history = nullptr);
  ~Flows();  // hands over what the links have carried until now

  // Solves flows that begin together. The bundle may be started many times. Bundles of flows over the same links, whose
  // bytes are in the same proportions, share their classes.
  BundlePtr Solve(FlowSet flows);
  // The same flows, each with `factor` times its bytes.
  BundlePtr SolveLike(const Bundle& bundle, double factor);
  // Starts the bundle now. `done` is called when its last flow has ended, with the time at which the first lot ended.
  // The bundle must not be empty.
  // `use`: for the history, what the flows belong to.
  using Done = std::function<void(double first)>;
  void Begin(BundlePtr bundle, Done done, int use = 0);
  // Likewise, but only once Settle is called, at the same time: of bundles that begin at one moment and meet the same
  // others, all are merged at once. Settle says whether there was any.
  void BeginTogether(BundlePtr bundle, Done done, int use = 0);
  bool Settle();
  // The same for flows that need `seconds` if nothing else is on the network meanwhile, which nobody has solved yet. If
  // another bundle begins before they have ended, `solve` is called, once, and they go on from where they are; unless
  // all are unsolved and their `most` add up to 1 or less. `most`: of any link's bandwidth, what the flows take of it
  // at most; above 1 if the links do not let all of them have their own rates.
  using Later = std::function<BundlePtr()>;
  void BeginUnsolved(double seconds, double most, Later solve, Done done, int use = 0);
  // For the history alone: the bundle runs from `begin` on, and nothing else uses its links. Returns when it ends.
  double Record(const BundlePtr& bundle, double begin, int use);

  // How often bundles were begun, met and were merged, and how often shares were solved.
  int64_t begun() const { return begun_; }
  int64_t meetings() const { return meetings_; }
  int64_t solutions() const { return solutions_; }
  int64_t classified() const { return classified_; }  // how often classes of flows were found
  // Classes of flows, of the bundle or the meeting that has most.
  size_t most_classes() const { return most_classes_; }
  // Sets of links that are distinguished.
  size_t zones() const { return zones_.size(); }

 private:
  struct Group;  // the classes of some sets, and the zones that they cross
  struct Owner;  // one begun bundle among the sets of a group
  struct Active;
  using GroupPtr = std::shared_ptr<Group>;
  using Crossed = std::shared_ptr<const std::vector<int>>;  // some of a group's link classes
  using Actives = std::map<uint64_t, Active>;
  struct Rest;  // what is left of an active bundle

  GroupPtr MakeGroup(FlowClasses classes);
  void SolveAlone(Bundle& bundle);
  void FindZones(const GroupPtr& group);
  std::shared_ptr<FlowSolution> SolutionOf(const GroupPtr& group, const std::vector<double>& left);
  void Add(BundlePtr bundle, Done done, int use);
  void Load(Active& active);
  void SolveUnsolved();
  void SolveUnsolved(Actives::iterator it);
  void Take(uint64_t number);
  void TakeLater(uint64_t number, const Active& active);
  void Meet(uint64_t number, std::vector<int> full);
  Rest TakeOut(Actives::iterator it, std::vector<std::pair<Done, double>>& done);
  void AddSets(Rest rest, std::vector<Rest>& all) const;
  void Sort(std::vector<Rest>& rests);
  struct Known;
  const Known& Joint(const std::vector<Rest>& rests);
  std::vector<double> LeftOf(const std::vector<Rest>& rests, const Known& known) const;
  void SetOwners(const std::vector<Rest>& rests, const Known& known, Active& met) const;
  std::vector<int> Overfull(const Active& active) const;
  template <class Visit>
  static void ForZones(const Group& group, const Crossed& crossed, Visit&& visit);
  bool Crosses(const Active& active, const std::vector<bool>& zones) const;
  std::vector<bool> ZonesOf(const std::vector<Rest>& rests) const;
  void Release(const Group& group, const Crossed& crossed);  // of its zones
  struct Zone;
  void Account(Zone& zone);  // before its load changes

  struct Zone {
    int links = 0;
    double bandwidth = 0, load = 0;
    int users = 0;                                              // active bundles that cross it
    double since = 0;                                           // when its load changed last; for the history
    TimeBins carried = {};                                      // until then, by each of its links
    std::vector<std::pair<std::weak_ptr<Group>, int>> in = {};  // groups, and the link class of theirs that it is in
  };

  const std::function<double()> now_;
  const At at_;
  LinkHistory* const history_;  // null: nobody asks
  FlowClassifier classifier_;
  Zeros<int> zone_of_;  // by link: one more than its zone's number; 0: no bundle has crossed it
  std::vector<Zone> zones_;
  // Classes of sets that met: by the sets, and by what told flows of each apart, besides bytes.
  using JointKey = std::vector<std::tuple<const FlowSet*, const Group*, size_t>>;
  struct Known {
    GroupPtr group;
    std::vector<GroupPtr> told_apart_by;  // keeps what the key points to
    // If the group is one of these sets and others: by set of these, its number there; the link classes that they
    // cross.
    std::vector<size_t> places;
    Crossed crossed;
    size_t PlaceOf(size_t set) const { return places.empty() ? set : places[set]; }
  };
  std::map<JointKey, Known> joints_;
  absl::flat_hash_map<const FlowSet*, size_t> set_numbers_;  // in the order in which they first met
  void StartFromEarlierMeetings(const JointKey& key, std::vector<FlowClassifier::Known>& classes) const;
  void FindAmongMore(const JointKey& key, std::span<const FlowClassifier::Known> classes, Known& known) const;
  KnownSolutions solved_;                                               // of sets that met
  absl::flat_hash_map<std::pair<uint64_t, uint64_t>, GroupPtr> alone_;  // by a hash of flows, apart from their size
  Actives actives_;
  size_t unsolved_ = 0;         // of these
  std::vector<uint64_t> held_;  // of actives_: those that Settle will start
  uint64_t next_ = 0;
  int64_t begun_ = 0, meetings_ = 0, solutions_ = 0, classified_ = 0;
  size_t most_classes_ = 0;
  // Scratch of Load: by link class, what is added, zeros in between; the classes of which that is not 0.
  std::vector<double> more_;
  std::vector<int> loaded_;
};

}  // namespace twofold::sim
