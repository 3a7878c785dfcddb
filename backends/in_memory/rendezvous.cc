#include "backends/in_memory/rendezvous.h"

#include <algorithm>
#include <thread>

namespace twofold::in_memory {

Signature SignatureOf(const Communication& c) {
  Signature s{.kind = c.kind};
  if (host::Reduces(c.kind)) s.op = c.op;
  if (host::Rooted(c.kind)) s.root = c.peer;
  if (const Tensor* side = host::EqualSide(c)) {
    s.dtype = side->dtype();
    if (c.kind != Communication::kAllToAllV) s.count = side->numel();
  }
  return s;
}

void* AddressOf(const Tensor& t) { return t.empty() ? nullptr : reinterpret_cast<void*>(t.address()); }

// Sequentially consistent, like the loads: one rank arrives and then checks for sleepers; another announces that it
// sleeps and then checks whether all have arrived. They must not both miss each other.
void Rendezvous::Arrive(int rank, uint64_t round, const Call& call) {
  const Communication& c = call.communication;
  Entry& entry = place(rank).entries[round % 2];
  entry.arrival = {.signature = SignatureOf(c),
                   .in = AddressOf(c.in),
                   .out = AddressOf(c.out),
                   .call = &call,
                   .issued = call.issued};
  entry.round.store(round, std::memory_order_seq_cst);
}

bool Rendezvous::AllArrived(uint64_t round) const {
  return std::all_of(places_.begin(), places_.end(), [round](const Place& p) {
    return p.entries[round % 2].round.load(std::memory_order_seq_cst) == round;
  });
}

// The value never decreases: a rank may still look at this round's shares when another has finished it and voids the
// next round's.
bool Rendezvous::Claim(int share, uint64_t round) {
  std::atomic<uint64_t>& claimed = place(share).claimed.value;
  uint64_t last = claimed.load(std::memory_order_relaxed);
  while (last < round) {
    if (claimed.compare_exchange_weak(last, round, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void Rendezvous::Void(int share, uint64_t round) {
  uint64_t first = void_from_.load(std::memory_order_relaxed);
  while (round < first && !void_from_.compare_exchange_weak(first, round, std::memory_order_seq_cst)) {
  }
  Finish(share, round);  // whoever sees the round over sees that it is void
}

bool Rendezvous::IsOver(uint64_t round) const {
  return std::all_of(places_.begin(), places_.end(),
                     [round](const Place& p) { return p.finished.value.load(std::memory_order_seq_cst) >= round; });
}

bool Rendezvous::VoidWhatIsLeft(uint64_t round) {
  for (int share = 0; share < size(); ++share) {
    if (Claim(share, round)) Void(share, round);
  }
  while (!IsOver(round)) std::this_thread::yield();
  return IsVoid(round);
}

}  // namespace twofold::in_memory
