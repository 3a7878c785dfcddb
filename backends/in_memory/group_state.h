// What the ranks of one group share: where collectives meet, messages change hands and sub-groups are made.
//
// Ranks here are ranks in the group. Each rank uses it from one thread at a time for collectives and messages (its
// communication thread, or the host that stands in for it) and from its host for splits. Waiting is a short spin, then a
// condition variable that is looked after every few milliseconds for what nobody announces: a time-out, SIGINT, a
// failure elsewhere, a rank that has left. A collective whose ranks come at about the same time takes no lock.
//
// On GPUs the same threads meet, and then enqueue: each rank's share, or copy, on the stream of the rank that does it, behind what
// the compute streams of all whose operands it touches had been given when they called; and each rank's stream goes on behind
// all shares. Hosts wait for each other's hosts alone.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/host/mover.h"
#include "backends/host/run_state.h"
#include "backends/in_memory/links.h"
#include "backends/in_memory/rendezvous.h"

namespace twofold::in_memory {

using host::Mover;
using host::RunState;

// One side of a message. `peer` may be kAnySource where it is received; then `source` says who sent it.
struct Message {
  P2p::Kind kind;
  void* data;
  int64_t bytes;
  int peer;
  Tag tag;
  int source = -1;
  const Event* after = nullptr;  // of the call that it belongs to; null: it is there
  Event copied = {};             // once it has been taken
  double ready = 0;  // on the run's clock, where links are slowed down
  TravelPtr travel;  // likewise, once it has been taken
  enum { kPosted, kCopying, kDone } state = kPosted;
};

class GroupState {
 public:
  // `links`: null, or what the data goes over; shared by all groups of the run.
  GroupState(RunState& run, std::string name, std::vector<int> world_ranks, std::shared_ptr<Links> links = nullptr);
  bool slowed() const { return links_ != nullptr; }

  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::string& name() const { return name_; }
  const std::shared_ptr<const std::string>& label() const { return label_; }  // name, with the ranks if not the world

  // Collectives, numbered by call.sequence. Arrive hands over the operands and returns at once; Complete arrives if that
  // has not been done, and returns when the collective is done at every rank, or `mover` has all of it before what it is given
  // next. CanComplete: all ranks have arrived. Between Arrive and the end of Complete, which throws what went wrong, `call` stays
  // where it is. Other ranks read and write its operands until the collective is done; or until Complete throws, by when they are in
  // nobody's use.
  void PrepareToArrive(int rank, uint64_t sequence) const { rendezvous_.PrepareToArrive(rank, sequence); }
  void Arrive(int rank, const Call& call);
  bool CanComplete(const Call& call) const { return rendezvous_.AllArrived(call.sequence); }
  void Complete(int rank, const Call& call, Mover& mover);

  // Sends and receives all of `messages` together, as Complete does a collective; a message is copied once, by its receiver.
  void Exchange(int rank, const Call& call, std::span<Message> messages, Mover& mover);

  struct Membership {
    std::shared_ptr<GroupState> group;  // null: a member of none
    int rank = 0;
  };
  Membership Split(int rank, const Call& call, int color, int key, std::string name);

 private:
  struct Offer {
    Message* message;
    int sender;
  };
  struct SplitRequest {
    int color, key;
    std::string name;
  };
  struct Slot {
    std::condition_variable changed;
    std::atomic<uint32_t> signals = 0;
    std::deque<Offer> mailbox;  // sent to this rank and not yet taken, in order of arrival
    std::condition_variable split_done;
    uint64_t splits = 0;
    SplitRequest request;
    Membership membership;
    // On GPUs: the end of the last share that the rank has enqueued. Written before the share is finished; others are through with
    // it when they arrive at the next round.
    Event share;
  };
  // Whom a rank waits for: all of `ranks`, or any one of them.
  struct Missing {
    std::vector<int> ranks;
    bool any = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  Slot& slot(int rank) { return slots_[static_cast<size_t>(rank)]; }
  int world_rank(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  void Signal(int rank);
  void SignalAll();
  template <class Reason>
  void WakeSleepers(Reason reason);
  void Spin(Lock& lock, Slot& slot);
  template <class Done, class WhoIsMissing>
  void Await(Lock& lock, std::condition_variable& changed, int rank, const Call& call, Done done, WhoIsMissing missing);
  void ThrowIfHopeless(int rank, const Call& call, const Missing& missing, double started) const;

  void Break(RankFailure::Kind kind, int rank, std::string message);
  void ThrowIfBroken(int rank) const;
  void AwaitArrivals(int rank, const Call& call);
  Missing CompareArrived(int rank, const Call& call);
  void CompareCounts(int rank, const Call& call);
  void DoShares(int rank, const Call& call, Mover& mover);
  void EnqueueShares(int rank, const Call& call, Mover& mover);
  void AwaitOver(uint64_t number);
  void LeaveShares(Mover& mover);
  [[noreturn]] void Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b, const std::string& where);

  void ExchangeAtOnce(int rank, const Call& call, std::span<Message> messages, Mover& mover);
  void TakeMessages(Lock& lock, int rank, const Call& call, std::span<Message> messages, Mover& mover);
  void Copy(Lock& lock, Message& sent, int sender, Message& m, Mover& mover);
  void Withdraw(Lock& lock, int rank, std::span<Message> messages, Mover& mover);
  Missing MissingPeers(std::span<const Message> messages, int rank) const;
  void MakeGroups();

  TravelPtr TravelOf(const Call& call);
  // Returns when all have arrived here; each is a travel and the place there of `rank`.
  void AwaitArrival(int rank, const Call& call, std::span<const std::pair<TravelPtr, int>> travels);

  RunState& run_;
  const std::string name_;
  const std::vector<int> ranks_;
  const std::shared_ptr<const std::string> label_;
  const std::shared_ptr<Links> links_;

  // Where links are slowed down: when each rank's stream is free again, and those collectives in flight that some ranks have
  // yet to ask about, by sequence.
  struct InFlight {
    TravelPtr travel;
    int unasked = 0;
  };
  std::mutex travels_mutex_;
  std::vector<double> free_;
  std::map<uint64_t, InFlight> travels_;

  Rendezvous rendezvous_;
  alignas(128) std::atomic<int> sleepers_ = 0;  // in collectives, on met_
  std::condition_variable met_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  uint64_t split_requests_ = 0;
  bool broken_ = false;  // a collective was abandoned: nothing more can be done in this group
  RankFailure::Kind broken_kind_ = RankFailure::Kind::kOther;
  std::string broken_message_;
};

}  // namespace twofold::in_memory
