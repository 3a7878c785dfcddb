// Where the ranks of a group meet for a collective: the part that needs no lock.
//
// Round s is the group's s-th collective. Ranks arrive with their operands. When all are there, the work is up to be
// claimed in as many shares as there are ranks: each share is done once, by the rank whose number it bears or by one that
// would otherwise wait for it. When all shares are done the round is over, and its ranks may arrive at round s + 1.
//
// A rank that gives up voids the shares that nobody has claimed, and its operands are in nobody's use then. Either all
// shares of a round are done or, at every rank, the round has failed.
//
// What a rank writes before it arrives is seen by who sees it arrive; what is written in a share, by who sees the round
// over. Ranks are ranks in the group; one rank's functions are called by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/host/call.h"

namespace twofold::in_memory {

using host::Call;

// What all ranks must have alike in one collective; of all_to_all_v counts differ, and are compared apart.
struct Signature {
  Communication::Kind kind = Communication::kBarrier;
  ReduceOp op = ReduceOp::kSum;  // unused fields keep these values
  int root = 0;
  DType dtype = DType::kU8;
  int64_t count = 0;
  friend bool operator==(const Signature&, const Signature&) = default;
};
Signature SignatureOf(const Communication& c);

void* AddressOf(const Tensor& t);  // in the memory of its device; null: no tensor

class Rendezvous {
 public:
  struct Arrival {
    Signature signature;
    void *in = nullptr, *out = nullptr;  // null: unused at this rank
    const Call* call = nullptr;          // valid while the round cannot be over
    double issued = 0;                   // as in `call`
  };

  explicit Rendezvous(int size) : places_(static_cast<size_t>(size)) {}
  int size() const { return static_cast<int>(places_.size()); }

  // Fetches what Arrive will write, which other ranks have read; the processor does it while the caller goes on.
  void PrepareToArrive(int rank, uint64_t round) const { __builtin_prefetch(&place(rank).entries[round % 2], 1); }
  // `call` stays valid until the round is over or has been voided.
  void Arrive(int rank, uint64_t round, const Call& call);
  bool HasArrived(int rank, uint64_t round) const {
    return place(rank).entries[round % 2].round.load(std::memory_order_seq_cst) == round;
  }
  bool AllArrived(uint64_t round) const;
  // Of a rank that has arrived; unchanged until the asking rank arrives at the next round but one.
  const Arrival& arrival(int rank, uint64_t round) const { return place(rank).entries[round % 2].arrival; }

  bool Claim(int share, uint64_t round);  // true for one caller, who must then do the share
  void Finish(int share, uint64_t round) { place(share).finished.value.store(2 * round, std::memory_order_seq_cst); }
  void Void(int share, uint64_t round) { place(share).finished.value.store(2 * round + 1, std::memory_order_seq_cst); }  // one that was claimed
  bool IsOver(uint64_t round) const;  // nobody works on any share any more: all are done or void
  bool IsVoid(uint64_t round) const;  // once it is over
  // Returns false if all shares were done meanwhile; waits for those that others are doing.
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
    Entry entries[2];  // by turns: a rank can be one round ahead of another that still looks at this one
    Word claimed;      // the last round in which the share was
    Word finished;     // twice the last round in which it was; plus one if it was voided
  };
  const Place& place(int rank) const { return places_[static_cast<size_t>(rank)]; }
  Place& place(int rank) { return places_[static_cast<size_t>(rank)]; }

  std::vector<Place> places_;
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
