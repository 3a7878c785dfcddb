// All that a worker can reach: who it is, its device, its group of all ranks, its clock, its trace.
//
// Made by the fabric for each rank; valid during the rank function; used from the rank's thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/process_group.h"
#include "core/comm/stats.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "core/run/clock.h"
#include "core/run/trace.h"

namespace twofold {

// Of a rank's predicted times, as shares of them: independent of one another. All 1 where times are measured.
struct Uncertainty {
  Range compute;        // of its operations together
  Range communication;
  Range machine;        // of whole steps: what all in them has in common
};

class RankContext {
 public:
  struct Parts {
    int rank = 0, world_size = 1;
    Device* device = nullptr;
    ProcessGroup* world = nullptr;
    Clock* clock = nullptr;
    Trace* trace = nullptr;
    CommunicationStats* communication = nullptr;
    std::function<void()> check_interrupt;  // throws Interrupted once the run was interrupted; may be empty
    std::function<Bytes()> outside_ledger;  // memory that libraries took; empty: none
    std::function<Uncertainty()> uncertainty;  // of predicted times; empty: none
    std::function<void(std::function<void(Seconds)>)> when_reached;  // WhenReached, of a device that knows; empty: the clock's time
  };
  explicit RankContext(Parts parts) : parts_(std::move(parts)) {}

  int rank() const { return parts_.rank; }
  int world_size() const { return parts_.world_size; }
  Device& device() { return *parts_.device; }
  ProcessGroup& world() { return *parts_.world; }
  Clock& clock() { return *parts_.clock; }
  Trace& trace() { return *parts_.trace; }
  const CommunicationStats& communication() const { return *parts_.communication; }
  // Calls `fn` with the time when the compute stream comes to where the program is now: at once, or when that is known, in the order
  // asked; not at all where the stream never comes there.
  void WhenReached(std::function<void(Seconds)> fn) { parts_.when_reached ? parts_.when_reached(std::move(fn)) : fn(clock().Now()); }
  // Else the time told is the host's, which a compute stream of its own runs behind.
  bool KnowsWhenReached() { return parts_.when_reached != nullptr || device().kind() == DeviceKind::kCpu; }
  const MemoryStats& memory() { return device().allocator().ledger().stats(); }
  const MemoryStats& host_memory() { return device().host_allocator().ledger().stats(); }  // of what is offloaded

  // To be called between steps: ends a rank that the user interrupted.
  void CheckInterrupt() { if (parts_.check_interrupt) parts_.check_interrupt(); }
  Bytes outside_ledger_bytes() const { return parts_.outside_ledger ? parts_.outside_ledger() : Bytes(0); }
  Uncertainty uncertainty() const { return parts_.uncertainty ? parts_.uncertainty() : Uncertainty(); }

  // What the rank would hand back if it ended now by an exception: kept up to date by a guard in the rank function.
  void SetPartialResult(std::string bytes) { partial_result_ = std::move(bytes); }
  const std::string& partial_result() const { return partial_result_; }
  // Where the partial result comes from should the rank's thread never return from a communication: asked for then, from
  // another thread, while the rank's own is stuck there. `between_steps` says the same on the rank's own thread within CheckInterrupt, now
  // and then while the run goes on: it takes nothing away, and leaves out what would take long. Null takes both back.
  void SetPartialResultSource(std::function<std::string()> source, std::function<std::string()> between_steps = nullptr) {
    partial_source_ = std::move(source);
    between_steps_ = std::move(between_steps);
  }
  std::string PartialResultOfStuckRank() const { return partial_source_ ? partial_source_() : partial_result_; }
  std::string PartialResultBetweenSteps() const { return between_steps_ ? between_steps_() : partial_result_; }

  // A line for the report: what a reader must know to trust the figures. Repeated lines are kept once.
  void AddNote(std::string note);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Parts parts_;
  std::string partial_result_;
  std::function<std::string()> partial_source_;
  std::vector<std::string> notes_;
  std::function<std::string()> between_steps_;
};

}  // namespace twofold
