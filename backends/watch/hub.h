// The hub of a run, at the process of rank 0: hears from every rank, finds out why a run has to end, and says so to all.
//
//   running   ranks report progress; their points are compared
//   inquest   something is wrong: every rank was asked what it does; ends when all alive have answered, or after a second
//   decided   the verdict was told; failed ranks hand in what they have
//   closed    nothing more will come
//
// Knows no sockets and no threads: it is called by one, and speaks through the functions that it is given.
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

  // A rank of a run that gives no sign of life for fabric.timeout_s, or `least_silence_s` where that is longer, is missed. All others but
  // that of this process are to give one more often.
  Hub(int processes, double least_silence_s, Send send)
      : send_(std::move(send)), least_silence_s_(least_silence_s), processes_(static_cast<size_t>(processes)) {}

  // A new run begins here; the run before must be closed. Messages of a run may come before it begins here.
  void Begin(uint64_t run, int world_size, double timeout_s, Time now);
  void Connected(int rank, std::string process) { processes_[static_cast<size_t>(rank)].name = std::move(process); }
  void Hear(int rank, const control::ToHub& message, Time now);  // an empty message is a sign of life
  // Its connection has ended; `how`: what became of its process, "has ended".
  void Lose(int rank, Time now, std::string how = "has ended");
  void Tick(Time now);            // to be called every few tens of milliseconds

  // Once closed: the verdict, and what each rank handed in.
  bool closed() const { return state_ == kClosed; }
  const control::Verdict& verdict() const { return verdict_; }
  std::vector<std::string> TakeResults();

  // How long failed ranks have to hand in what they have: little when a process was lost, as launchers end the others, and
  // after an interrupt, whose sender waits.
  static std::chrono::milliseconds GraceOf(const control::Verdict& verdict);

 private:
  struct Process {
    std::string name;
    bool lost = false;
    std::string how;  // it was lost
    Time heard;       // of it, last
  };
  struct Participant {
    std::string doing;
    std::optional<control::Answer> answer;
    bool finished = false, handed_in = false;
    std::string result;
  };
  struct Compared {  // one sequence number of one group, or where a group ended
    uint64_t sequence = 0, digest = 0, balance = 0;
    int heard = 0;
  };
  // Adds a rank's point; false where it contradicts what others said.
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
  std::map<std::pair<uint64_t, uint64_t>, Compared> compared_;  // by group and sequence number; not all ranks pick the same
  std::map<uint64_t, Compared> ends_;                           // by group
  std::optional<Accusation> accusation_;
  Time deadline_;
  control::Verdict verdict_;
  std::vector<std::pair<int, control::ToHub>> early_;  // of a run that has not begun here
};

}  // namespace twofold::watch
