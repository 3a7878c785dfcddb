// The runs of a job, one after the other, as the process of rank 0 sees them: it receives every member's messages,
// finds out why a run or a generation has to end, and tells all.
//
//   running   ranks report progress; their points are compared
//   inquest   something is wrong, every rank was asked what it is doing; ends when all live ranks answered or after 1 s
//   broken    only in an elastic run: the members were told why the generation ends, and ask for the next one
//   decided   the verdict was told; failed ranks hand in their partial results
//   closed    no more messages are expected
//
// In an elastic run a lost or silent process, one that departs, and a rank's function that ends by PeerLost, TimedOut
// or an exception of another library break the generation. Calls that differ, a lack of memory and an interrupt end the
// run.
//
// Processes have member numbers: the ranks they started with, and fresh numbers for newcomers. Messages name ranks by
// them. Uses no sockets and no threads. It is called by one thread at a time and sends through a
// callback.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/control/control.pb.h"
#include "backends/control/generations.h"
#include "backends/control/inquest.h"

namespace twofold::control {

class Hub {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Send = std::function<void(int member, const FromHub&)>;
  using HangUp = std::function<void(int member, const absl::Status& why)>;

  // A member that gives no sign of life for fabric.timeout_s, or for `least_silence_s` if that is longer, is considered
  // missing. All except the one in this process must therefore give signs more often. `hang_up` ends the connection to
  // a process that no longer takes part.
  Hub(int processes, double least_silence_s, Send send, HangUp hang_up)
      : send_(std::move(send)),
        hang_up_(std::move(hang_up)),
        least_silence_s_(least_silence_s),
        initial_(processes),
        processes_(static_cast<size_t>(processes)) {}

  // Begins a new run; the previous one must be closed, or the message is ignored. Messages of a run may arrive before
  // it begins here.
  void Begin(uint64_t run, const control::Begin& begin, Time now);
  void Connected(int member, std::string process) { At(member).seen.process = std::move(process); }
  // FAILED_PRECONDITION: nobody can join, since the run in progress is not elastic, or too many wait.
  absl::Status MayJoin() const;
  void Join(int member, std::string process, Time now);   // a newcomer waits for the next generation
  void Hear(int member, const ToHub& message, Time now);  // an empty message is a sign of life
  // The connection to `member` has ended; `how` says what happened to its process: "has ended".
  void Lose(int member, Time now, std::string how = "has ended");
  void Tick(Time now);  // call every few tens of milliseconds

  // Once closed: the verdict, and the results by member.
  const Generations* generations() const { return elastic_ ? &generations_ : nullptr; }  // null: the run is not elastic
  bool closed() const { return state_ == kClosed; }
  const Verdict& verdict() const { return verdict_; }
  Results TakeResults();

  // How long failed ranks have to hand in their partial results. Short if a process was lost, because launchers then
  // end the others, and after an interrupt, because its sender is waiting.
  static std::chrono::milliseconds GraceOf(const Verdict& verdict);

 private:
  struct Process {
    Witness seen;
    Time heard;  // last sign of life
    // In the run:
    bool finished = false, departed = false, handed_in = false;
    std::string result;
    bool takes_part() const { return !seen.lost && !departed; }
  };
  struct Compared {  // one sequence number of one group, or a group's end
    uint64_t sequence = 0, digest = 0, balance = 0;
    int heard = 0;
  };
  // Adds a rank's point; returns false if it contradicts the other ranks.
  static bool Agrees(const Point& point, Compared& compared);
  enum State { kIdle, kRunning, kInquest, kBroken, kDecided, kClosed };

  void Handle(int member, const ToHub& message, Time now);
  using Points = google::protobuf::RepeatedPtrField<Point>;
  void Compare(int member, const Points& points, Time now);
  void CompareEnds(int member, const Points& points, Time now);
  void PassOn(int member, const Relayed& relayed);
  void Accuse(int member, std::optional<Trouble> trouble, Time now);
  void Ask();
  void MissTheSilent(Time now);
  void MaybeDecide(Time now);
  void MaybeClose(Time now);
  void FinishWell(Time now);
  void End(Verdict verdict, Time now);
  void SayTheRunIsOver();
  void Expel(int member, std::string how, const std::string& why);
  void Close();
  FromHub Message() const;
  std::string InGeneration() const;
  void TellAll(const FromHub& message);
  Process& At(int member) { return processes_[static_cast<size_t>(member)]; }
  const Process& At(int member) const { return processes_[static_cast<size_t>(member)]; }
  bool IsMember(int member) const { return generations_.Has(member); }
  template <class Condition>
  bool All(const Condition& condition) const {  // of the generation's members
    return std::all_of(generations_.members().begin(), generations_.members().end(),
                       [&](int member) { return condition(At(member)); });
  }

  // ---- Elastic runs (hub_generations.cc) ----
  void HandleReform(int member, const Reform& reform, Time now);
  void HandleDepart(int member, const Depart& depart, Time now);
  void Break(int member, absl::StatusCode code, const std::string& message, Time now);
  void Settle(Time now);  // has everybody finished, or the time of the next generation come?
  void Form(Time now);
  void EndForTooFew(Time now);
  void ShowWaiting();

  const Send send_;
  const HangUp hang_up_;
  const double least_silence_s_;
  const int initial_;               // processes that met, as opposed to newcomers
  std::vector<Process> processes_;  // by member
  State state_ = kIdle;
  uint64_t run_ = 0;
  bool elastic_ = false;
  double timeout_s_ = 0;
  Generations generations_;
  // By group and sequence number; ranks may report different numbers.
  std::map<std::pair<uint64_t, uint64_t>, Compared> compared_;
  std::map<uint64_t, Compared> ends_;  // by group
  std::optional<Accusation> accusation_;
  std::string why_broken_;
  Time deadline_;
  Verdict verdict_;
  std::vector<std::pair<int, ToHub>> early_;  // messages of a run that has not begun here
};

}  // namespace twofold::control
