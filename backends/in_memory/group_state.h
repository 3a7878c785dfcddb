// What the ranks of one group share: where collectives meet, messages change hands and sub-groups are made.
//
// Ranks here are ranks in the group. Each rank uses it from one thread at a time for collectives and messages (its
// communication thread, or the host that stands in for it) and from its host for splits. Waiting is a short spin, then a
// condition variable that is looked after every few milliseconds for what nobody announces: a time-out, SIGINT, a
// failure elsewhere, a rank that has left.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/host/run_state.h"

namespace twofold::in_memory {

using host::Call;
using host::RunState;

// One side of a message. `peer` may be kAnySource where it is received; then `source` says who sent it.
struct Message {
  P2p::Kind kind;
  void* data;
  int64_t bytes;
  int peer;
  Tag tag;
  int source = -1;
  enum { kPosted, kCopying, kDone } state = kPosted;
};

class GroupState {
 public:
  GroupState(RunState& run, std::string name, std::vector<int> world_ranks);

  int size() const { return static_cast<int>(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }
  const std::string& name() const { return name_; }
  const std::shared_ptr<const std::string>& label() const { return label_; }  // name, with the ranks if not the world

  // A collective begins: returns when all ranks have called, with everybody's call by rank. All calls have been compared
  // (CollectiveMismatch). Valid until Part returns. `call` must live that long.
  std::vector<const Call*> Meet(int rank, const Call& call);
  // It ends: returns when all ranks have called, so that nobody's operands are in use any more. Throws nothing.
  void Part(int rank);

  // Sends and receives all of `messages` together; a message is copied once, by its receiver.
  void Exchange(int rank, const Call& call, std::span<Message> messages);

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
    const Call* posted = nullptr;
    uint64_t rounds = 0;
    std::deque<Offer> mailbox;  // sent to this rank and not yet taken, in order of arrival
    std::condition_variable split_done;
    uint64_t splits = 0;
    SplitRequest request;
    Membership membership;
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
  void Spin(Lock& lock, Slot& slot);
  template <class Done, class WhoIsMissing>
  void Await(Lock& lock, std::condition_variable& changed, int rank, const Call& call, Done done, WhoIsMissing missing);
  void ThrowIfHopeless(int rank, const Call& call, const Missing& missing, double started) const;

  void Break(RankFailure::Kind kind, int rank, std::string message);
  void ThrowIfBroken(int rank) const;
  void CompareCalls(int rank, const Call& call);
  void CompareCounts();
  [[noreturn]] void Mismatch(int rank_a, const std::string& a, int rank_b, const std::string& b, const std::string& where);

  void TakeMessages(Lock& lock, int rank, const Call& call, std::span<Message> messages);
  void Withdraw(Lock& lock, int rank, std::span<Message> messages);
  Missing MissingPeers(std::span<const Message> messages, int rank) const;
  void MakeGroups();

  RunState& run_;
  const std::string name_;
  const std::vector<int> ranks_;
  const std::shared_ptr<const std::string> label_;

  std::mutex mutex_;
  std::vector<Slot> slots_;
  uint64_t arrivals_ = 0, departures_ = 0;  // over all rounds
  int first_ = 0;                           // who came first in this round
  uint64_t split_requests_ = 0;
  bool broken_ = false;  // a collective was abandoned: nothing more can be done in this group
  RankFailure::Kind broken_kind_ = RankFailure::Kind::kOther;
  std::string broken_message_;
};

}  // namespace twofold::in_memory
