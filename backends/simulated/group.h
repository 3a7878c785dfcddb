// What the ranks of a simulated group share: calls meet here, messages find each other, groups split.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "backends/host/call.h"
#include "core/comm/communication.h"
#include "core/comm/process_group.h"
#include "core/comm/stats.h"
#include "core/run/trace.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "sim/timeline.h"

namespace twofold {

// Why one rank's flows cannot be all's; flows of all ranks can.
inline constexpr char kUnlikeFlows[] = "collectives that ranks do not all take alike overlap with others";

// What the ranks of a run have in common.
struct SimulatedWorld {
  sim::Engine& engine;
  sim::Network& network;
  bool real = false;
  std::vector<int> stand_ins = {};  // folded: for each rank, the one whose actor does what it does; else empty
  bool slowest_counts = false;  // where ranks that do the same part, those behind count; else standing for them is refused
  std::string folding_refused = {};  // set when standing for the others would have changed something
  bool barrier_passed = false;  // before it, ranks may end a collective at different times without consequence
  double apart = 0;             // the most by which such ranks parted, of the time of what they did
  // What rank 0's groups ran: by group, kind and bytes.
  std::map<std::tuple<std::string, Communication::Kind, int64_t>, sim::Network::Name> ran = {};
  bool folded() const { return !stand_ins.empty(); }
};

// What the ranks of one group have in common.
class SimulatedGroup : public std::enable_shared_from_this<SimulatedGroup> {
 public:
  // The first of `groups` is this one; the others, of folded ranks, are those that do the same.
  SimulatedGroup(SimulatedWorld& world, std::string name, std::vector<std::vector<int>> groups);
  ~SimulatedGroup();

  struct Arrival {
    int rank;  // in the group
    double time;
    double slowest;  // when the slowest of ranks like this one comes
    std::shared_ptr<const host::Call> call;
    sim::TimePointPtr done;
    std::shared_ptr<double> started;  // set to when all are there
    CommunicationStats::Entry* entry;
    Trace* trace;
    std::string_view label;  // of the trace when the call was issued
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
    std::string_view label;  // as above
    double met = 0;          // when the last of the others came
  };
  void Post(int rank, const P2p& op, double time, std::shared_ptr<Pending> pending);

  struct SplitRequest { int rank, color, key; double time; std::string name; sim::TimePointPtr done; };
  void RequestSplit(uint64_t sequence, SplitRequest request);
  // After the request's point is known: the group of that color.
  std::shared_ptr<SimulatedGroup> SplitResult(uint64_t sequence, int color);
  struct UnlikeGroups {};  // ranks with one stand-in would be in groups that are made of others
  // The group of `rank` (in this group) of those that the list names, of ranks in this group; nullptr: it is alone. Of folded
  // ranks, all groups of their kind: those with the same stand-ins in the same places. Nobody waits: the list says who is there.
  std::shared_ptr<SimulatedGroup> Partition(uint64_t sequence, int rank, std::span<const std::vector<int>> groups, const std::string& name);

  const std::string& name() const { return name_; }
  const std::vector<int>& ranks() const { return groups_[0]; }
  const std::vector<int>& ranks(int world_rank) const;  // of the one of those that do the same that it is in
  int place(int world_rank) const;                      // its rank in there
  // Folded: no two ranks have the same stand-in, so that all may send messages to one another.
  bool all_different() const { return actors_ == ranks().size(); }
  const std::shared_ptr<const std::string>& label() const { return label_; }  // "world", "half (ranks 0, 2)"
  // Who has yet to come, "ranks 1, 3" of the world: to a collective, to a split, to receive or send messages. Empty: nobody.
  std::string MissingAt(const host::Call& call) const;
  std::string MissingFor(const Pending& messages) const;
  size_t actors() const { return actors_; }
  SimulatedWorld& world() { return world_; }

 private:
  // A message that left before its receiver was there.
  struct Eager {
    std::vector<std::byte> payload;  // REAL data: the sender may use its tensor again
    double arrival = -1;             // -1: on its way
    double posted = 0;               // when its receiver came
    std::shared_ptr<Pending> receiver;
  };
  struct Message { int rank; P2p op; double time; std::shared_ptr<Pending> pending; std::shared_ptr<Eager> eager = nullptr; };
  struct Parts {  // what a list made
    std::vector<std::vector<int>> list;
    int first;                                            // who brought it, in this group
    std::map<int, std::shared_ptr<SimulatedGroup>> of;    // by rank in the world: ranks with actors
    size_t left;                                          // actors that have yet to ask
  };
  Parts MakeParts(int rank, std::span<const std::vector<int>> list, const std::string& name);
  sim::CollectiveShape ShapeOf(const std::vector<Arrival>& arrivals) const;
  void Begin(std::vector<Arrival> arrivals);
  void Finish(const std::vector<Arrival>& arrivals, const std::vector<double>& finish, double apart);
  void RefuseFolding(const std::string& why);
  void NoteWhatRan(Communication::Kind kind, double bytes, const sim::Network::Name& name);
  // Ranks with one stand-in were done with a `kind` that began at `start` from `first` to `last`.
  void Parted(Communication::Kind kind, double start, double first, double last);
  // Puts it on the network; `ended` is told of the sender (0) and of the receiver (1).
  void Travel(const Message& send, double start, std::function<void(size_t place, double time)> ended);
  void Meet(const Message& message);
  void SendEagerly(const Message& send);
  void MatchAnySource(int receiver);
  void Deliver(const Message& send, const Message& recv);
  bool Match(const Message& a, const Message& b) const;
  int world_rank(int rank) const { return ranks()[static_cast<size_t>(rank)]; }
  // Whether all send what the receivers expect; if not, ends the run.
  bool SameCounts(const std::vector<Arrival>& arrivals);
  void Mismatch(const std::string& where, int rank_a, const std::string& a, int rank_b, const std::string& b);

  SimulatedWorld& world_;
  const std::string name_;
  const std::vector<std::vector<int>> groups_;
  const std::shared_ptr<const std::string> label_;
  std::vector<int> stand_ins_;  // by rank in the group, in the world; not folded: the ranks themselves
  size_t actors_;               // how many different ones
  int network_groups_ = -1;
  uint64_t met_ = 0, split_ = 0;  // how many collectives and splits all ranks have come to
  std::map<uint64_t, std::vector<Arrival>> arrivals_;
  std::deque<Message> sends_, recvs_;
  std::map<uint64_t, std::vector<SplitRequest>> splits_;
  std::map<uint64_t, std::map<int, std::shared_ptr<SimulatedGroup>>> split_results_;
  std::map<uint64_t, Parts> parts_;
};

}  // namespace twofold
