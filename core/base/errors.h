// Failures while ranks run. Thrown by Work::Wait, by allocations and by operations. An elastic strategy may catch
// PeerLost. Every other failure ends all ranks and becomes the status that Fabric::Run returns.
//
// Each message names the rank, the operation, the peer or group, and sizes. It is written for the person whose job
// failed.
#pragma once

#include <stdexcept>
#include <string>

#include "absl/status/status.h"

namespace twofold {

class RankFailure : public std::runtime_error {
 public:
  enum class Kind {
    kPeerLost,
    kCollectiveMismatch,
    kOutOfMemory,
    kTimedOut,
    kDeadlock,
    kInterrupted,
    kOther,
    kRunOver
  };

  RankFailure(Kind kind, int rank, const std::string& message)
      : std::runtime_error(message), kind_(kind), rank_(rank) {}
  Kind kind() const { return kind_; }
  int rank() const { return rank_; }  // the rank that reports the failure

 private:
  Kind kind_;
  int rank_;
};

struct PeerLost : RankFailure {
  PeerLost(int rank, const std::string& m) : RankFailure(Kind::kPeerLost, rank, m) {}
};
struct CollectiveMismatch : RankFailure {
  CollectiveMismatch(int rank, const std::string& m) : RankFailure(Kind::kCollectiveMismatch, rank, m) {}
};
struct OutOfMemory : RankFailure {
  OutOfMemory(int rank, const std::string& m) : RankFailure(Kind::kOutOfMemory, rank, m) {}
};
struct TimedOut : RankFailure {
  TimedOut(int rank, const std::string& m) : RankFailure(Kind::kTimedOut, rank, m) {}
};
struct Deadlock : RankFailure {
  Deadlock(int rank, const std::string& m) : RankFailure(Kind::kDeadlock, rank, m) {}
};
struct Interrupted : RankFailure {
  Interrupted(int rank, const std::string& m) : RankFailure(Kind::kInterrupted, rank, m) {}
};
// No rank can go on, whoever is left: the state of an elastic training is lost, for instance. It ends the run at once,
// also if another rank was lost before in the same generation of members.
struct RunOver : RankFailure {
  RunOver(int rank, const std::string& m) : RankFailure(Kind::kRunOver, rank, m) {}
};

// Maps a failure to the status that Fabric::Run returns, and back: kOutOfMemory <-> RESOURCE_EXHAUSTED, kDeadlock <->
// FAILED_PRECONDITION, kCollectiveMismatch <-> INVALID_ARGUMENT, kPeerLost <-> UNAVAILABLE, kTimedOut <->
// DEADLINE_EXCEEDED, kInterrupted <-> CANCELLED, kRunOver <-> ABORTED, kOther <-> INTERNAL.
absl::Status ToStatus(const RankFailure& failure);
RankFailure::Kind FailureKind(const absl::Status& status);

// Whether the other ranks of an elastic run may go on: the failure ends this generation of members
// (core/run/membership.h) and not the run. What a program does wrong, it would do again.
bool IsSurvivable(RankFailure::Kind kind);

// Throws the exception type of `kind`.
[[noreturn]] void ThrowFailure(RankFailure::Kind kind, int rank, const std::string& message);
// Call within a catch block. Returns the current exception as the failure that ended `rank`. A RankFailure is returned
// unchanged. Any other exception becomes kOther and is named by its type: "rank 2: std::runtime_error: injected".
RankFailure CurrentFailure(int rank);

}  // namespace twofold
