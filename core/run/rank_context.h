// Everything that a worker can access: its rank, device, group of all ranks, clock and trace.
//
// Created by the fabric for each rank. Valid during the rank function, and used only from the rank's thread. It belongs
// to one generation of the run at a time (membership.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/comm/process_group.h"
#include "core/comm/stats.h"
#include "core/device/cost_model.h"
#include "core/device/device.h"
#include "core/io/disk.h"
#include "core/run/clock.h"
#include "core/run/file_costs.h"
#include "core/run/membership.h"
#include "core/run/trace.h"

namespace twofold {

// Uncertainty of a rank's predicted times, as factors of them. The three are independent of one another. All are 1 if
// times are measured.
struct Uncertainty {
  Range compute;  // of all operations together
  Range communication;
  Range machine;  // of whole steps: effects common to everything in them
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
    std::function<void()> check_interrupt;     // throws Interrupted after the run was interrupted; may be empty
    std::function<bool(int64_t)> may_begin;    // empty: no signals reach the run
    std::function<Bytes()> outside_ledger;     // memory allocated by libraries; empty: none
    std::function<Uncertainty()> uncertainty;  // of predicted times; empty: none
    // Implements WhenReached for a device that knows; empty: uses the clock
    std::function<void(std::function<void(Seconds)>)> when_reached;
    std::function<int64_t(int64_t step, int64_t alike)> repeats;  // implements Repeats; empty: no step is counted
    std::optional<FileCosts> files = {};                          // nullopt: files take their own time
    Disk* disk = nullptr;                                         // null: the machine's
    std::function<void(Seconds time)> wait_until = {};  // implements WaitUntil; empty: a device that needs no telling
    int member = -1;                                    // -1: the rank
    // What a fabric offers whose runs have several generations; empty: a lost rank ends the run.
    struct Membership {
      Generation generation;
      struct Next {
        Generation generation;
        int rank = 0;
        ProcessGroup* everyone = nullptr;
      };
      std::function<Next(const ReformOptions&)> reform;
      std::function<bool(int64_t step)> ends_after;
      std::function<std::vector<std::string>(std::string)> exchange;
      std::function<void(int64_t step)> begin_step;
    };
    Membership membership = {};
  };
  explicit RankContext(Parts parts);

  int rank() const { return parts_.rank; }
  int world_size() const { return parts_.world_size; }
  Device& device() { return *parts_.device; }
  ProcessGroup& world() { return *parts_.world; }
  Clock& clock() { return *parts_.clock; }
  Trace& trace() { return *parts_.trace; }
  const CommunicationStats& communication() const { return *parts_.communication; }
  // Calls `fn` with the time at which the compute stream reaches the program's current position. The call happens at
  // once or when the time is known, in the order of requests. It never happens if the stream does not get there.
  void WhenReached(std::function<void(Seconds)> fn) {
    parts_.when_reached ? parts_.when_reached(std::move(fn)) : fn(clock().Now());
  }
  // If false, WhenReached reports the host's time, which is ahead of a separate compute stream.
  bool KnowsWhenReached() { return parts_.when_reached != nullptr || device().kind() == DeviceKind::kCpu; }
  // ---- Files ----
  // What checkpoints are written to and read from. Outlives the rank function. From any thread.
  Disk& disk() const { return parts_.disk != nullptr ? *parts_.disk : RealDisk(); }
  // What a simulation adds to the time of writing and of reading so many bytes of files: all of it. On real fabrics: 0,
  // since files take their own time.
  Seconds WriteTime(Bytes bytes) const { return parts_.files ? bytes / parts_.files->write : Seconds(0); }
  Seconds ReadTime(Bytes bytes) const { return parts_.files ? bytes / parts_.files->read : Seconds(0); }
  bool files_are_modelled() const { return parts_.files.has_value(); }
  // The host has worked, or waited outside of any communication, until `time`: simulated time passes until then, and
  // the device makes up for nothing before it.
  void WaitUntil(Seconds time) {
    if (parts_.wait_until) parts_.wait_until(time);
  }

  const MemoryStats& memory() { return device().allocator().ledger().stats(); }
  const MemoryStats& host_memory() { return device().host_allocator().ledger().stats(); }  // of offloaded tensors

  // ---- Generations of members ----
  int member() const { return parts_.member; }
  const Generation& generation() const { return parts_.membership.generation; }
  // All members of the generation. world() is a part of them if UseWorld says so.
  ProcessGroup& everyone() { return *everyone_; }
  // From now on, and until Reform, `world` is the group of ranks that work together: rank(), world_size() and world()
  // are its. It must contain this rank and outlive its use. Null: everyone again.
  void UseWorld(ProcessGroup* world);
  // Whether this run can have another generation.
  bool CanReform() const { return parts_.membership.reform != nullptr; }
  // Forms the next generation from all members that call this within options.timeout_s, and those that wait to join.
  // Returns in the new generation. Groups and Works of the old one may only be destroyed from then on. Throws PeerLost
  // if the run is over: because fewer than options.min_members came, because this member came too late, or because of
  // how the generation ended (calls that do not match, out of memory, an interrupt).
  void Reform(const ReformOptions& options);
  // Whether members should form a new generation after `step`, because some wait to join. All members of a generation
  // get the same answer for the same step.
  bool EndsAfter(int64_t step) { return parts_.membership.ends_after && parts_.membership.ends_after(step); }
  // The bytes of all members of the generation, by rank in it, sent outside the groups: for a few KB that describe
  // something. Collective over the generation. Throws PeerLost.
  std::vector<std::string> Exchange(std::string bytes);
  // Call when a step begins: ends a rank that the user interrupted, or that the spec says is lost then.
  void BeginStep(int64_t step) {
    CheckInterrupt();
    if (parts_.membership.begin_step) parts_.membership.begin_step(step);
  }

  // Call before each step. `alike`: how many steps from `step` on do the same as the step before it, which must be the
  // same number on all ranks. Shapes count, values do not. Returns how many of them would repeat that step exactly: the
  // caller counts them, and goes on with the step after them. All ranks get the same answer for the same step. 0
  // wherever time is measured.
  int64_t Repeats(int64_t step, int64_t alike) { return parts_.repeats ? parts_.repeats(step, alike) : 0; }

  // Call between steps: ends a rank that the user interrupted.
  void CheckInterrupt() {
    if (parts_.check_interrupt) parts_.check_interrupt();
  }
  // Call it before each step, numbered from 0, if the run saves when SIGTERM asks it to end. False: it was asked, no
  // rank begins this step, and all have done the one before it. From the first call on, SIGTERM no longer interrupts
  // the run.
  bool MayBegin(int64_t step) { return !parts_.may_begin || parts_.may_begin(step); }
  Bytes outside_ledger_bytes() const { return parts_.outside_ledger ? parts_.outside_ledger() : Bytes(0); }
  Uncertainty uncertainty() const { return parts_.uncertainty ? parts_.uncertainty() : Uncertainty(); }

  // The result that the rank returns if an exception ends it now. A guard in the rank function keeps it up to date.
  void SetPartialResult(std::string bytes) { partial_result_ = std::move(bytes); }
  const std::string& partial_result() const { return partial_result_; }
  // `source` provides the partial result if the rank's thread never returns from a communication. It is then called
  // from another thread while the rank's own thread is stuck. `between_steps` provides the same on the rank's own
  // thread, within CheckInterrupt, from time to time during the run. It must not consume anything, and omits what would
  // take long. Null removes both.
  void SetPartialResultSource(std::function<std::string()> source,
                              std::function<std::string()> between_steps = nullptr) {
    partial_source_ = std::move(source);
    between_steps_ = std::move(between_steps);
  }
  std::string PartialResultOfStuckRank() const { return partial_source_ ? partial_source_() : partial_result_; }
  std::string PartialResultBetweenSteps() const { return between_steps_ ? between_steps_() : partial_result_; }

  // Adds a line to the report: something that a reader must know to trust the figures. Duplicate lines are kept once.
  void AddNote(std::string note);
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  Parts parts_;
  ProcessGroup* everyone_;
  std::string partial_result_;
  std::function<std::string()> partial_source_;
  std::vector<std::string> notes_;
  std::function<std::string()> between_steps_;
};

}  // namespace twofold
