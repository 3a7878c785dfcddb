// What the ranks of a simulated group share: collectives meet here, messages are matched, groups are split.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "backends/host/call.h"
#include "backends/simulated/costs.h"
#include "backends/simulated/goal.h"
#include "core/comm/communication.h"
#include "core/comm/process_group.h"
#include "core/comm/rank_kinds.h"
#include "core/comm/stats.h"
#include "core/run/trace.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "sim/spread.h"
#include "sim/timeline.h"

namespace twofold {

class SimulatedGroup;
class SimulatedRank;

// What the ranks of a run have in common.
struct SimulatedWorld {
  sim::Engine& engine;
  sim::Network& network;
  bool real = false;
  size_t ranks = 0;                 // of the run
  std::vector<int> stand_ins = {};  // if folded: for each rank, the rank whose actor represents it; else empty
  // Folding is refused if ranks of one class differ in time. If false, the slowest counts for all.
  bool none_may_part = true;
  std::string folding_refused = {};   // set if folding would have changed the result
  RankKinds kinds{stand_ins.size()};  // then, if ranks of one class are of different kinds
  bool barrier_passed = false;        // before it, ranks may end a collective at different times without consequence
  std::optional<Moment> set_up = std::nullopt;  // when that was
  double apart = 0;  // the largest difference between such ranks' end times, relative to the collective's duration
  // By stand-in: how late it is at most, because the slowest counts for all. A communication hands the latest
  // participant's lateness on to all of them, and adds what the ranks of one class ended it apart.
  std::map<int, double> late = {};
  // Why ranks of one class take unequally long for their operations, and by what share at most. The slowest is
  // simulated. Few ranks are told apart instead.
  std::map<std::string, double> unequal = {};
  bool may_be_unequal = false;
  // Why ranks do less than the rank that stands for them before they meet, if how far devices differ then counts for
  // more of them than it should. With `sums_tell_apart`, they are told apart instead.
  bool sums_tell_apart = true;
  std::string others_come_early = {};
  // Ranks that differ briefly are simulated as one (folding_error); then, in what.
  bool may_differ_briefly = false;
  std::set<std::string> briefly = {};
  // What rank 0's groups ran, by group, kind and bytes.
  std::map<std::tuple<std::string, Communication::Kind, int64_t>, sim::Network::Name> ran = {};
  bool folded() const { return !stand_ins.empty(); }
  GoalTags goal_tags = {};
  int generation = 0;  // of members: the present one
  // Called by a rank before each communication and before each split; may throw.
  std::function<void(SimulatedRank&)> before_call = {}, before_split = {};
  // Ranks in one group, place by place, are of these kinds, in each of `groups`. Returns whether ranks of one class are
  // of different kinds; these kinds are then noted, with the reason.
  bool NoteKinds(const std::vector<std::vector<int>>& groups, std::span<const std::vector<int>> kinds,
                 const std::string& why);
  std::set<SimulatedGroup*> groups = {};  // all of several ranks
};

// State that the ranks of one group share.
class SimulatedGroup : public std::enable_shared_from_this<SimulatedGroup> {
 public:
  // The first of `groups` is this one. If ranks are folded, the others are the groups that do the same.
  SimulatedGroup(SimulatedWorld& world, std::string name, std::vector<std::vector<int>> groups);
  ~SimulatedGroup();

  struct Arrival {
    int rank;  // in the group
    double time;
    double slowest;      // when the slowest of the ranks that it represents arrives, as a profile has it
    sim::Spread spread;  // of the ranks that it represents, around `time`; afterwards, around the end
    std::shared_ptr<const host::Call> call;
    sim::TimePointPtr done;
    std::shared_ptr<double> started;  // set to the time when all have arrived
    CommunicationStats::Entry* entry;
    Trace* trace;
    std::string_view label;    // the trace's label when the call was issued
    double issued = 0;         // when the host issued it
    GoalRank* goal = nullptr;  // null: not asked for
    int64_t node = -1;         // in the rank's graph
    bool behind = false;       // a fault makes the rank slow: of all, it learns last that the communication has ended
  };
  void Arrive(Arrival arrival);

  struct Pending {  // all parts of one Send, Recv or Batch
    std::shared_ptr<const host::Call> call;
    size_t left;
    double finish;
    int source = -1;
    double started;
    sim::TimePointPtr done;
    CommunicationStats::Entry* entry;
    Trace* trace;
    std::string_view label;   // as above
    double met = 0;           // when the last peer came
    sim::Spread spread = {};  // once all parts are done
  };
  void Post(int rank, const P2p& op, double time, std::shared_ptr<Pending> pending);

  struct SplitRequest {
    int rank, color, key;
    double time;
    std::string name;
    sim::TimePointPtr done;
  };
  void RequestSplit(uint64_t sequence, SplitRequest request);
  // The group of that color; call once the request's time point is known.
  std::shared_ptr<SimulatedGroup> SplitResult(uint64_t sequence, int color);
  struct UnlikeGroups {};  // ranks of one class would be in groups of different composition; noted by NoteKinds
  // The group that contains `rank` among the listed ones (all ranks are ranks in this group); nullptr: it is alone. If
  // ranks are folded, the group represents all groups of its kind: those with the same stand-ins in the same places.
  // Nobody waits: the list names the members.
  std::shared_ptr<SimulatedGroup> Partition(uint64_t sequence, int rank, std::span<const std::vector<int>> groups,
                                            const std::string& name);

  // What a communication of this rank takes of its device (sim::Network). Of an all_to_all_v, as if all ranks sent as
  // much as this one.
  sim::Network::Occupation Occupies(int rank, const Communication& c) const;
  // Whether its generation of members is the present one. If not, nothing that was issued to it will end.
  bool present() const { return generation_ == world_.generation; }
  const std::string& name() const { return name_; }
  // Among ranks with this spread, of which the slowest counts in a message: how much later it begins. Changes the
  // spread to that after the message.
  double SlowestIsLater(sim::Spread& spread) const;
  const std::vector<int>& ranks() const { return groups_->front(); }
  const std::vector<int>& ranks(int world_rank) const;  // of the equivalent group that contains `world_rank`
  int place(int world_rank) const;                      // its rank in that group
  // ProcessGroup::RanksDiffer, by any of the group's ranks. Once steps have begun, it counts for all groups of this
  // name, and the run fails, so that it starts over only once.
  void RanksDiffer(std::span<const int> kinds, const std::string& why);
  bool RanksDifferInTime(std::span<const int> kinds, double share, const std::string& why);
  bool RanksDifferBriefly(std::span<const int> kinds, const std::string& why);
  // All its collectives are brief (Device::Briefly): ranks that one stands for take only some of them
  // (ProcessGroup::RanksDifferOver).
  void SetBrief() { brief_ = true; }
  bool is_brief() const { return brief_; }
  // What a message consists of, for one end's GOAL schedule.
  std::vector<GoalMessage> GoalMessages(int rank, const P2p& op);
  // If folded: no link joins ranks of two of the groups that do the same.
  bool HasItsLinksAlone() const { return network_groups_ >= 0 && world_.network.ShareNoLinks(network_groups_); }
  // Whether all ranks with the same stand-in have equal counts; `counts`: by rank in the group, or empty.
  bool EqualWithinClasses(std::span<const int64_t> counts) const;
  // If folded: no two ranks have the same stand-in, so all ranks may exchange messages.
  bool all_different() const { return actors_ == ranks().size(); }
  // If folded, for ranks that are not all different: every rank of the group sends to the rank so many places after it
  // and receives from the rank as many places before it, and each rank with an actor calls this. All begin when the
  // last of them has come. That is exact if all of them come together. Ranks that come earlier would wait only for
  // those that they communicate with, so what they wait counts as lateness (SimulatedWorld::late).
  void Exchange(int rank, double time, std::shared_ptr<Pending> pending);
  // For such ranks that do anything else: tells them apart by their places.
  void TellAllApart(const std::string& why);
  // Whether Exchange may treat these ranks alike.
  bool may_exchange() const { return actors_ == 1 || !world_.none_may_part; }
  const std::shared_ptr<const std::string>& label() const { return label_; }  // "world", "half (ranks 0, 2)"
  // The world ranks that have yet to come, as "ranks 1, 3": to a collective or a split, or to receive or send messages.
  // Empty: none.
  std::string MissingAt(const host::Call& call) const;
  std::string MissingFor(const Pending& messages) const;
  size_t actors() const { return actors_; }
  // Arrivals and messages that wait for other ranks.
  size_t waiting() const;
  SimulatedWorld& world() { return world_; }

 private:
  // A message sent before its receiver was there.
  struct Eager {
    std::vector<std::byte> payload;  // REAL data: a copy, so that the sender may reuse its tensor
    double arrival = -1;             // -1: in flight
    double posted = 0;               // when the receive was posted
    std::shared_ptr<Pending> receiver;
  };
  struct Message {
    int rank;
    P2p op;
    double time;
    std::shared_ptr<Pending> pending;
    std::shared_ptr<Eager> eager = nullptr;
  };
  struct Parts {  // the groups made from a list
    std::vector<std::vector<int>> list;
    int first;                                          // the rank, in this group, that passed the list first
    std::map<int, std::shared_ptr<SimulatedGroup>> of;  // by world rank; ranks with actors only
    size_t left;                                        // actors that have yet to ask
  };
  struct Exchanging {
    int rank;
    double time;
    std::shared_ptr<Pending> pending;
  };
  // For all groups of this name; `also_alike`: for those, too, that one rank stands for. Returns whether
  // ranks that were simulated as one differ.
  bool TellApart(std::span<const int> kinds, const std::string& why, bool also_alike);
  bool DifferWithinClasses(std::span<const int> kinds) const;
  void BeginExchange(std::vector<Exchanging> all);
  Parts MakeParts(int rank, std::span<const std::vector<int>> list, const std::string& name);
  sim::CollectiveShape ShapeOf(const std::vector<Arrival>& arrivals) const;
  void Begin(std::vector<Arrival> arrivals);
  void TellGoal(const std::vector<Arrival>& arrivals, const sim::CollectiveShape& shape);
  // When the slowest of all ranks has arrived. Changes the arrivals' spreads to those after the communication.
  double LastOf(std::vector<Arrival>& arrivals) const;
  void Finish(const std::vector<Arrival>& arrivals, const std::vector<double>& finish, double apart);
  void RefuseFolding(const std::string& why);
  void NoteWhatRan(Communication::Kind kind, double bytes, const sim::Network::Name& name);
  // Whether ranks that are simulated as one have ended something at these different times.
  bool HaveParted(double first, double last) const;
  bool MayNotPart(double first, double last) const { return world_.none_may_part && HaveParted(first, last); }
  // Records that the ranks that `stand_in` stands for finished what began at `start` between `first` and `last`.
  void Parted(Communication::Kind kind, int stand_in, double start, double first, double last);
  void HandOnLateness(std::span<const int> stand_ins);  // of the participants of one communication
  // Puts it on the network; `ended` is called for the sender (0) and for the receiver (1).
  void Travel(const Message& send, double start, std::function<void(size_t place, double time)> ended);
  void Meet(const Message& message);
  void SendEagerly(const Message& send);
  void MatchAnySource(int receiver);
  void Deliver(const Message& send, const Message& recv);
  bool Match(const Message& a, const Message& b) const;
  bool everyone() const { return ranks().size() == world_.ranks; }
  int world_rank(int rank) const { return ranks()[static_cast<size_t>(rank)]; }
  // Whether all ranks send what the receivers expect; if not, ends the run.
  bool SameCounts(const std::vector<Arrival>& arrivals);
  void Mismatch(const std::string& where, int rank_a, const std::string& a, int rank_b, const std::string& b);

  SimulatedWorld& world_;
  const int generation_ = world_.generation;
  const std::string name_;
  const std::shared_ptr<const std::vector<std::vector<int>>> groups_;
  const std::shared_ptr<const std::string> label_;
  std::vector<int> stand_ins_;         // world ranks, indexed by rank in the group; not folded: the ranks themselves
  size_t actors_;                      // number of different stand-ins
  std::map<int, int64_t> represents_;  // by stand-in: how many of this group's ranks it stands for
  uint64_t id_ = 0;                    // equal for groups of the same ranks
  int network_groups_ = -1;
  uint64_t met_ = 0, split_ = 0;  // number of collectives and splits that all ranks have reached
  std::map<uint64_t, std::vector<Arrival>> arrivals_;
  struct Ended {  // the last collective
    Communication::Kind kind = Communication::kBarrier;
    int root = -1;
    double time = -1;
  } ended_;
  std::deque<Message> sends_, recvs_;
  std::map<uint64_t, std::vector<Exchanging>> exchanges_;  // by number of the message
  std::map<uint64_t, std::vector<SplitRequest>> splits_;
  std::map<uint64_t, std::map<int, std::shared_ptr<SimulatedGroup>>> split_results_;
  std::map<uint64_t, Parts> parts_;
  std::set<std::vector<int>> told_;  // kinds that some rank has told
  bool brief_ = false;
};

}  // namespace twofold
