// Collectives of a group: its ranks meet, compare their calls, and each does its share.
#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "backends/in_memory/collectives.h"
#include "backends/in_memory/group_state.h"
#include "backends/in_memory/group_waiting.h"
#include "core/base/strings.h"

namespace twofold::in_memory {

using host::WithBytes;

namespace {

using Kind = Communication::Kind;

// Announces a sleeper before it checks its reason to sleep.
class Sleeper {
 public:
  explicit Sleeper(std::atomic<int>& sleepers) : sleepers_(sleepers) { sleepers_.fetch_add(1); }
  ~Sleeper() { sleepers_.fetch_sub(1); }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;

 private:
  std::atomic<int>& sleepers_;
};

}  // namespace

void GroupState::ThrowIfVoid(int rank, const Call& call) {
  if (!rendezvous_.IsVoid(call.sequence)) return;
  Lock lock(mutex_);  // whoever voided the round holds it until it has said why
  ThrowIfBroken(rank);
  run_.ThrowIfEnding(world_rank(rank), call.ToString());
}

// Call after storing something that `reason` may depend on.
template <class Reason>
void GroupState::WakeSleepers(Reason reason) {
  if (sleepers_.load() == 0 || !reason()) return;
  Lock lock(mutex_);  // a sleeper has either checked before and is waiting by now, or will check later
  met_.notify_all();
}

void GroupState::Arrive(int rank, const Call& call) {
  rendezvous_.Arrive(rank, call.sequence, call);
  WakeSleepers([&] { return rendezvous_.AllArrived(call.sequence); });
}

void GroupState::Complete(int rank, const Call& call, Mover& mover) {
  if (!rendezvous_.HasArrived(rank, call.sequence)) {
    ThrowIfVoid(rank, call);  // a rank that has given up must not overwrite what others may still compare
    Arrive(rank, call);
  }
  try {
    AwaitArrivals(rank, call);
  } catch (const RankFailure& f) {
    // No rank may complete this collective with the operands of a rank that has given up.
    Lock lock(mutex_);
    // Cannot happen on GPUs, where each rank does its own share.
    if (!rendezvous_.VoidWhatIsLeft(call.sequence)) return;
    Break(f.kind(), rank, f.what());
    lock.unlock();
    LeaveShares(mover);
    throw;
  }
  const TravelPtr travel = links_ == nullptr ? nullptr : TravelOf(call);  // before operands may be released
  if (!mover.on_host()) {
    EnqueueShares(rank, call, mover);
  } else if (call.communication.kind != Kind::kBarrier) {
    DoShares(rank, call, mover);
    ThrowIfVoid(rank, call);
  }
  if (links_ != nullptr) AwaitArrival(rank, call, std::array{std::pair(travel, rank)});
}

// Returns when all ranks have arrived with equal calls.
void GroupState::AwaitArrivals(int rank, const Call& call) {
  auto all_arrived = [&] { return rendezvous_.AllArrived(call.sequence); };
  if (!SpinUntil(all_arrived)) {
    Lock lock(mutex_);
    const Sleeper sleeper(sleepers_);
    Await(lock, met_, rank, call, all_arrived, [&] { return CompareArrived(rank, call); });
  }
  const Round round(rendezvous_, call.sequence);
  const Signature& own = round[rank].signature;
  bool equal = true;
  for (int r = 0; r < size(); ++r) equal = equal && round[r].signature == own;
  if (equal && own.kind != Kind::kAllToAllV) return;
  Lock lock(mutex_);
  ThrowIfBroken(rank);
  CompareArrived(rank, call);
  CompareCounts(rank, call);
}

// Returns the ranks that have not arrived; throws if an arrived rank's call differs. Arrived ranks' calls stay valid
// meanwhile: a round with differing calls is never over, and a rank that gives up first breaks the group. That needs
// the lock, which is held here.
GroupState::Missing GroupState::CompareArrived(int rank, const Call& call) {
  const Round round(rendezvous_, call.sequence);
  Missing missing;
  for (int r = 0; r < size(); ++r) {
    if (!rendezvous_.HasArrived(r, call.sequence)) {
      missing.ranks.push_back(r);
    } else if (!(round[r].signature == round[rank].signature)) {
      Mismatch(r, WithBytes(round[r].call->communication), rank, WithBytes(call.communication),
               StrCat("collective ", call.sequence));
    }
  }
  return missing;
}

// Checks that this rank of an all_to_all_v is sent what it expects.
void GroupState::CompareCounts(int rank, const Call& call) {
  const Round round(rendezvous_, call.sequence);
  for (int from = 0; from < size(); ++from) {
    const int64_t sent = round[from].call->communication.in_counts[static_cast<size_t>(rank)];
    const int64_t expected = call.communication.out_counts[static_cast<size_t>(from)];
    if (sent == expected) continue;
    Mismatch(from, StrCat("all_to_all_v sending ", sent, " elements to rank ", rank, " of the group"), rank,
             StrCat("all_to_all_v expecting ", expected, " elements from rank ", from, " of the group"),
             StrCat("collective ", call.sequence));
  }
}

// Does the rank's own share; then, in a small collective, the shares of ranks that have arrived and gone on to
// something else. When it returns, no operand is in use any more. Does not throw: a rank that has claimed a share does
// it.
void GroupState::DoShares(int rank, const Call& call, Mover& mover) {
  const uint64_t number = call.sequence;
  auto over = [&] { return rendezvous_.IsOver(number); };
  auto do_share = [&](int share) {
    if (!rendezvous_.Claim(share, number)) return;
    DoShare(Round(rendezvous_, number), call.communication, share, mover);
    rendezvous_.Finish(share, number);
  };
  do_share(rank);
  if (IsSmall(call.communication)) {
    for (int i = 0; i < kPauses && !over(); ++i) Pause();
    for (int i = 1; i < size() && !over(); ++i) do_share((rank + i) % size());
    while (!over()) std::this_thread::yield();  // another rank is doing it
    return;
  }
  AwaitOver(number);
}

// Call after a share was finished or voided.
void GroupState::AwaitOver(uint64_t number) {
  auto over = [&] { return rendezvous_.IsOver(number); };
  WakeSleepers(over);
  if (SpinUntil(over)) return;
  Lock lock(mutex_);
  const Sleeper sleeper(sleepers_);
  while (!met_.wait_for(lock, kLook, over)) {  // also polls, like every wait here
  }
}

// For GPUs. A barrier has (empty) shares, too: work behind it on any compute stream must come after the work before it
// on all.
void GroupState::EnqueueShares(int rank, const Call& call, Mover& mover) {
  const uint64_t number = call.sequence;
  if (rendezvous_.Claim(rank, number)) {
    const Round round(rendezvous_, number);
    try {
      for (int r = 0; r < size(); ++r) mover.WaitFor(round[r].call->after);
      DoShare(round, call.communication, rank, mover);
      slot(rank).share = mover.Record();
    } catch (const std::exception& e) {  // before others see that the round is void:
      run_.Fail(world_rank(rank), RankFailure::Kind::kOther,
                StrCat("rank ", world_rank(rank), ": ", call.ToString(), ": ", e.what()));
      rendezvous_.Void(rank, number);
      AwaitOver(number);
      LeaveShares(mover);
      throw;
    }
    rendezvous_.Finish(rank, number);
  }
  AwaitOver(number);
  if (rendezvous_.IsVoid(number)) {
    LeaveShares(mover);
    ThrowIfVoid(rank, call);
  }
  for (const Slot& s : slots_) mover.WaitFor(s.share);
}

// For a round that is over and has failed: returns when no enqueued share is still running.
void GroupState::LeaveShares(Mover& mover) {
  try {
    for (const Slot& s : slots_) mover.WaitFor(s.share);
    mover.Finish();
  } catch (const std::exception&) {  // the GPU has failed and stopped; the exception in flight says more
  }
}

}  // namespace twofold::in_memory
