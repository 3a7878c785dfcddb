// The faults of single ranks that a spec makes happen (fabric.simulated.faults).
//
//   lost        throws, as a loss by train.elastic.events does: the rank ends, and others are told
//   hangs       the rank stands still. Shorter than fabric.timeout_s, others wait for it. From then on they count it as
//               lost: the run fails with TimedOut, which names it. When it wakes and the others have gone on without
//               it, its call throws PeerLost
//   slow        its operations take longer for a while
//   link down   what it issues begins when the link is up again
//   its disk    is full, fails or changes a bit (disk.h). With file_call, that happens at an operation of the thread
//               that writes; the rank notices a loss when it next calls something or asks CheckInterrupt
//
// Assumes: others notice a hang fabric.timeout_s after it began, as if one of them waited from then on. What a rank
// issues while its link is up is not cut off when the link fails.
//
// Belongs to the simulating thread. Members are named by their numbers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "backends/simulated/disk.h"
#include "backends/simulated/rank.h"
#include "core/proto/outcome.pb.h"
#include "core/proto/spec.pb.h"
#include "sim/engine.h"

namespace twofold {

class SimulatedFaults {
 public:
  // `has_gone_on(member)`: whether the others form a generation of members that this one is not in; empty: there is one
  // generation. All arguments must outlive the run.
  SimulatedFaults(sim::Engine& engine, const spec::Spec& spec, std::function<bool(int member)> has_gone_on);

  // The member belongs to this generation from now on, or asks for it: its calls are counted from here.
  void Enter(int member, int generation) { counted_[member] = {.generation = generation}; }
  // Call before each of a rank's calls, and when it begins the step after so many steps. Both throw if it is lost.
  void BeforeCall(SimulatedRank& rank);
  void BeginStep(SimulatedRank& rank, int64_t steps);
  // Throws if the member was lost at a file operation.
  void ThrowIfLost(SimulatedRank& rank);
  // The member's disk; null: none of the faults is about disks, so it is the machine's.
  SimulatedDisk* DiskOf(int member);

  bool none() const { return faults_.empty(); }
  bool hangs() const { return hangs_; }  // some rank may hang for so long that others count it as lost
  // Adds what has happened, and a note of each: "fabric.simulated.faults[2]: rank 3 was lost at call 17, after 1.24 s".
  // Call it when the run has ended.
  void AddTo(outcome::Outcome& outcome) const;

 private:
  struct Counted {
    int generation = 0;
    int64_t calls = 0;
  };
  bool IsDue(const spec::Fault& fault, const SimulatedRank& rank, int64_t steps);
  void Happens(int number, SimulatedRank& rank, int64_t steps);
  bool IsOfDisk(const spec::Fault& fault) const;
  void AtFileCall(int number, SimulatedDisk& disk);
  std::string When(const spec::Fault& fault, const SimulatedRank& rank, int64_t steps) const;
  // Writes it down.
  outcome::Struck& Strike(int number, const SimulatedRank& rank, const std::string& what, int64_t steps);
  [[noreturn]] void Lose(int number, const SimulatedRank& rank, int64_t steps) const;
  void Hang(SimulatedRank& rank, double seconds, const std::string& told);

  sim::Engine& engine_;
  const std::vector<spec::Fault> faults_;
  std::vector<bool> happened_;
  mutable std::mutex mutex_;   // of what follows, which threads that write files change
  std::vector<bool> reached_;  // by fault with file_call: it is that far
  const double timeout_s_;
  const double patience_s_;  // shorter hangs are waited for in any case
  const bool hangs_;
  const std::function<bool(int)> has_gone_on_;
  std::map<int, Counted> counted_;                       // by member
  std::map<int, std::unique_ptr<SimulatedDisk>> disks_;  // by member
  std::vector<outcome::Struck> struck_;
  struct DamageDone {
    size_t struck;  // in struck_
    int member;
    size_t call;  // of SimulatedDisk::Damage
  };
  std::vector<DamageDone> damages_;
  std::map<int, size_t> damaged_by_;  // by member: files
};

}  // namespace twofold
