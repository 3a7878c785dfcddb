// What the ranks of one group share: the meeting point for collectives, messages and splits.
//
// Ranks here are ranks in the group. For collectives and messages, each rank uses it from one thread at a time (its
// communication thread, or the host in its place); for splits, from its host. Waiting is a short spin, then a wait on a
// condition variable. Every few milliseconds the waiter also checks for things that nobody announces: a time-out,
// SIGINT, a failure elsewhere, a rank that has left. A collective whose ranks arrive at about the same time takes no
// lock.
//
// On GPUs the same threads meet and then enqueue. Each rank's share, or copy, goes on the stream of the rank that does
// it. It runs after everything that the compute streams of the ranks whose operands it touches had been given when
// those ranks called. Each rank's stream continues after all shares. Hosts wait only for each other's hosts.
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

// One side of a message. In a receive, `peer` may be kAnySource; `source` then says who sent it.
struct Message {
  P2p::Kind kind;
  void* data;
  int64_t bytes;
  int peer;
  Tag tag;
  int source = -1;
  const Event* after = nullptr;  // of the call that it belongs to; null: the data is ready
  Event copied = {};             // set once the message has been taken
  double ready = 0;              // on the run's clock, if links are slowed down
  TravelPtr travel;              // if links are slowed down; set once the message has been taken
  enum { kPosted, kCopying, kDone } state = kPosted;
};

class GroupState {
 public:
  // `links`: the slowed links that carry the data, shared by all groups of the run; null if links are not slowed down.
  GroupState(RunState& run, std::string name, std::vector<int> world_ranks, std::shared_ptr<Links> links = nullptr);
  bool slowed() const { return links_ != nullptr; }

  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::string& name() const { return name_; }
  // Name, followed by the ranks if it is not the world.
  const std::shared_ptr<const std::string>& label() const { return label_; }

  // Collectives, numbered by call.sequence. Arrive hands over the operands and returns at once. Complete arrives if
  // that has not been done yet. It returns when the collective is done on every rank or, on a GPU, when `mover` has all
  // of it enqueued before any later work. CanComplete: all ranks have arrived. `call` must stay valid from Arrive to
  // the end of Complete, which throws on failure. Other ranks read and write its operands until the collective is done,
  // or until Complete throws; after that nobody uses them.
  void PrepareToArrive(int rank, uint64_t sequence) const { rendezvous_.PrepareToArrive(rank, sequence); }
  void Arrive(int rank, const Call& call);
  bool CanComplete(const Call& call) const { return rendezvous_.AllArrived(call.sequence); }
  void Complete(int rank, const Call& call, Mover& mover);

  // Sends and receives all of `messages` together, with the same return condition as Complete. A message is copied
  // once, by its receiver.
  void Exchange(int rank, const Call& call, std::span<Message> messages, Mover& mover);

  struct Membership {
    std::shared_ptr<GroupState> group;  // null: in no group
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
    std::deque<Offer> mailbox;  // sent to this rank and not yet received, in order of arrival
    std::condition_variable split_done;
    uint64_t splits = 0;
    SplitRequest request;
    Membership membership;
    // On GPUs: the end of the last share that the rank has enqueued. Written before the share is finished; other ranks
    // no longer read it once they arrive at the next round.
    Event share;
  };
  // The ranks that a rank waits for: all of `ranks`, or any one of them.
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
  // Throws if the round of `call` has failed; call before arriving, or once it is over.
  void ThrowIfVoid(int rank, const Call& call);
  void AwaitArrivals(int rank, const Call& call);
  Missing CompareArrived(int rank, const Call& call);
  void CompareCounts(int rank, const Call& call);
  void DoShares(int rank, const Call& call, Mover& mover);
  void EnqueueShares(int rank, const Call& call, Mover& mover);
  void AwaitOver(uint64_t number);
  void LeaveShares(Mover& mover);
  [[noreturn]] void Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b,
                             const std::string& where);

  void ExchangeAtOnce(int rank, const Call& call, std::span<Message> messages, Mover& mover);
  void TakeMessages(Lock& lock, int rank, const Call& call, std::span<Message> messages, Mover& mover);
  void Copy(Lock& lock, Message& sent, int sender, Message& m, Mover& mover);
  void Withdraw(Lock& lock, int rank, std::span<Message> messages, Mover& mover);
  Missing MissingPeers(std::span<const Message> messages, int rank) const;
  void MakeGroups();

  TravelPtr TravelOf(const Call& call);
  // Returns when all data has arrived at `rank`. Each element is a travel and the place of `rank` in it.
  void AwaitArrival(int rank, const Call& call, std::span<const std::pair<TravelPtr, int>> travels);

  RunState& run_;
  const std::string name_;
  const std::vector<int> ranks_;
  const std::shared_ptr<const std::string> label_;
  const std::shared_ptr<Links> links_;

  // If links are slowed down: when each rank's stream is free again, and the collectives in flight, by sequence, that
  // some ranks have yet to ask about.
  struct InFlight {
    TravelPtr travel;
    int unasked = 0;
  };
  std::mutex travels_mutex_;
  std::vector<double> free_;
  std::map<uint64_t, InFlight> travels_;

  Rendezvous rendezvous_;
  alignas(128) std::atomic<int> sleepers_ = 0;  // number of threads waiting on met_, in collectives
  std::condition_variable met_;
  std::mutex mutex_;
  std::vector<Slot> slots_;
  uint64_t split_requests_ = 0;
  bool broken_ = false;  // a collective was abandoned: the group can no longer be used
  RankFailure::Kind broken_kind_ = RankFailure::Kind::kOther;
  std::string broken_message_;
};

}  // namespace twofold::in_memory
