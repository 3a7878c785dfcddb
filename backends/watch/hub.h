// The hub of a run, at the process of rank 0: it receives every rank's messages, finds out why a run has to end, and
// tells all ranks.
//
//   running   ranks report progress; their points are compared
//   inquest   something is wrong, every rank was asked what it is doing; ends when all live ranks answered or after 1 s
//   decided   the verdict was told; failed ranks hand in their partial results
//   closed    no more messages are expected
//
// Uses no sockets and no threads. It is called by one thread and sends through a callback.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/watch/inquest.h"
#include "core/proto/control.pb.h"

namespace twofold::watch {

class Hub {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Send = std::function<void(int rank, const control::FromHub&)>;

  // A rank that gives no sign of life for fabric.timeout_s, or for `least_silence_s` if that is longer, is considered
  // missing. All ranks except the one in this process must therefore give signs more often.
  Hub(int processes, double least_silence_s, Send send)
      : send_(std::move(send)), least_silence_s_(least_silence_s), processes_(static_cast<size_t>(processes)) {}

  // Begins a new run; the previous one must be closed. Messages of a run may arrive before it begins here.
  void Begin(uint64_t run, int world_size, double timeout_s, Time now);
  void Connected(int rank, std::string process) { processes_[static_cast<size_t>(rank)].name = std::move(process); }
  void Hear(int rank, const control::ToHub& message, Time now);  // an empty message is a sign of life
  // The connection to `rank` has ended; `how` says what happened to its process: "has ended".
  void Lose(int rank, Time now, std::string how = "has ended");
  void Tick(Time now);  // call every few tens of milliseconds

  // Once closed: the verdict, and the ranks' results.
  bool closed() const { return state_ == kClosed; }
  const control::Verdict& verdict() const { return verdict_; }
  std::vector<std::string> TakeResults();

  // How long failed ranks have to hand in their partial results. Short if a process was lost, because launchers then
  // end the others, and after an interrupt, because its sender is waiting.
  static std::chrono::milliseconds GraceOf(const control::Verdict& verdict);

 private:
  struct Process {
    std::string name;
    bool lost = false;
    std::string how;  // how it was lost
    Time heard;       // last sign of life
  };
  struct Participant {
    std::string doing;
    std::optional<control::Answer> answer;
    bool finished = false, handed_in = false;
    std::string result;
  };
  struct Compared {  // one sequence number of one group, or a group's end
    uint64_t sequence = 0, digest = 0, balance = 0;
    int heard = 0;
  };
  // Adds a rank's point; returns false if it contradicts the other ranks.
  static bool Agrees(const control::Point& point, Compared& compared);
  enum State { kIdle, kRunning, kInquest, kDecided, kClosed };

  void Handle(int rank, const control::ToHub& message, Time now);
  using Points = google::protobuf::RepeatedPtrField<control::Point>;
  void Compare(int rank, const Points& points, Time now);
  void CompareEnds(int rank, const Points& points, Time now);
  void Accuse(Accusation accusation, Time now);
  void MissTheSilent(Time now);
  void MaybeDecide(Time now);
  void MaybeClose(Time now);
  void FinishWell(Time now);
  void Tell(Time now);
  bool Alive(size_t rank) const { return !processes_[rank].lost; }

  const Send send_;
  const double least_silence_s_;
  std::vector<Process> processes_;
  State state_ = kIdle;
  uint64_t run_ = 0;
  double timeout_s_ = 0;
  std::vector<Participant> participants_;
  // By group and sequence number; ranks may report different numbers.
  std::map<std::pair<uint64_t, uint64_t>, Compared> compared_;
  std::map<uint64_t, Compared> ends_;  // by group
  std::optional<Accusation> accusation_;
  Time deadline_;
  control::Verdict verdict_;
  std::vector<std::pair<int, control::ToHub>> early_;  // messages of a run that has not begun here
};

}  // namespace twofold::watch
