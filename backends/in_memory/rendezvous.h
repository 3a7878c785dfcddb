// Where the ranks of a group meet for a collective: the lock-free part.
//
// Round s is the group's s-th collective. Ranks arrive with their operands. Once all have arrived, the work can be
// claimed in as many shares as there are ranks. Each share is done once, by the rank with the same number or by a rank
// that would otherwise wait for it. When all shares are done the round is over, and its ranks may arrive at the next
// one.
//
// A rank that gives up voids the unclaimed shares; after that nobody uses its operands. Either all shares of a round
// are done or the round has failed on every rank, and with it every later round of the group.
//
// Memory ordering: a rank's writes before it arrives are visible to every thread that sees it arrive; writes in a share
// are visible to every thread that sees the round over. Ranks are ranks in the group; one rank's functions are called
// by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "backends/host/call.h"

namespace twofold::in_memory {

using host::Call;

// What must be equal on all ranks in one collective. The counts of all_to_all_v differ and are compared separately.
struct Signature {
  Communication::Kind kind = Communication::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // unused fields keep these values
  int root = 0;
  DType dtype = DType::kU8;
  int64_t count = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};
Signature SignatureOf(const Communication& c);

void* AddressOf(const Tensor& t);  // in its device's memory; null: no tensor

class Rendezvous {
 public:
  struct Arrival {
    Signature signature;
    void *in = nullptr, *out = nullptr;  // null if unused at this rank
    const Call* call = nullptr;          // valid while the round cannot be over
    double issued = 0;                   // as in `call`
  };

  explicit Rendezvous(int size) : places_(static_cast<size_t>(size)) {}
  int size() const { return static_cast<int>(places_.size()); }

  // Prefetches the cache line that Arrive will write and other ranks have read, while the caller continues.
  void PrepareToArrive(int rank, uint64_t round) const { __builtin_prefetch(&place(rank).entries[round % 2], 1); }
  // `call` stays valid until the round is over or has been voided.
  void Arrive(int rank, uint64_t round, const Call& call);
  bool HasArrived(int rank, uint64_t round) const {
    return place(rank).entries[round % 2].round.load(std::memory_order_seq_cst) == round;
  }
  bool AllArrived(uint64_t round) const;
  // Call only for a rank that has arrived. Stays unchanged until the asking rank arrives at the next round but one.
  const Arrival& arrival(int rank, uint64_t round) const { return place(rank).entries[round % 2].arrival; }

  bool Claim(int share, uint64_t round);  // true for exactly one caller, which must then do the share
  void Finish(int share, uint64_t round) { place(share).finished.value.store(round, std::memory_order_seq_cst); }
  void Void(int share, uint64_t round);  // voids a claimed share
  bool IsOver(uint64_t round) const;     // all shares are done or void, so nobody works on one any more
  // A share of this round, or of an earlier one, is void. Final once the round is over.
  bool IsVoid(uint64_t round) const { return void_from_.load(std::memory_order_seq_cst) <= round; }
  // Voids the unclaimed shares, then waits for those that others are doing. Returns false if all shares turned out to
  // be done.
  bool VoidWhatIsLeft(uint64_t round);

 private:
  static constexpr size_t kLine = 128;  // processors fetch cache lines in pairs
  struct alignas(kLine) Entry {
    std::atomic<uint64_t> round = 0;
    Arrival arrival;
  };
  struct alignas(kLine) Word {
    std::atomic<uint64_t> value = 0;
  };
  struct Place {
    Entry entries[2];  // used alternately: a rank can be one round ahead of another that still reads this one
    Word claimed;      // the last round in which the share was claimed
    Word finished;     // the last round in which it was finished or voided
  };
  const Place& place(int rank) const { return places_[static_cast<size_t>(rank)]; }
  Place& place(int rank) { return places_[static_cast<size_t>(rank)]; }

  std::vector<Place> places_;
  // The first round that has failed. A rank that voids it goes on to void those after it, maybe before others look.
  std::atomic<uint64_t> void_from_ = std::numeric_limits<uint64_t>::max();
};

// The arrivals of one round, by rank.
class Round {
 public:
  Round(const Rendezvous& rendezvous, uint64_t number) : rendezvous_(rendezvous), number_(number) {}
  int size() const { return rendezvous_.size(); }
  const Rendezvous::Arrival& operator[](int rank) const { return rendezvous_.arrival(rank, number_); }

 private:
  const Rendezvous& rendezvous_;
  const uint64_t number_;
};

}  // namespace twofold::in_memory
