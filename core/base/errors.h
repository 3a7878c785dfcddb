// What can fail while ranks run. Thrown by Work::Wait, by allocations and by operations; an elastic strategy may
// catch PeerLost, everything else ends every rank and becomes the status that Fabric::Run returns.
//
// Each message names rank, operation, peer or group, and sizes: it is meant to be read by the person whose job died.
#pragma once

#include <stdexcept>
#include <string>

#include "absl/status/status.h"

namespace twofold {

class RankFailure : public std::runtime_error {
 public:
  enum class Kind { kPeerLost, kCollectiveMismatch, kOutOfMemory, kTimedOut, kDeadlock, kInterrupted, kOther };

  RankFailure(Kind kind, int rank, const std::string& message)
      : std::runtime_error(message), kind_(kind), rank_(rank) {}
  Kind kind() const { return kind_; }
  int rank() const { return rank_; }  // the rank that speaks

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

// The status in which a failure leaves Fabric::Run, and back: kOutOfMemory <-> RESOURCE_EXHAUSTED, kDeadlock and
// kCollectiveMismatch <-> FAILED_PRECONDITION and INVALID_ARGUMENT, kPeerLost <-> UNAVAILABLE,
// kTimedOut <-> DEADLINE_EXCEEDED, kInterrupted <-> CANCELLED, kOther <-> INTERNAL.
absl::Status ToStatus(const RankFailure& failure);
RankFailure::Kind FailureKind(const absl::Status& status);

// Throws the type that belongs to `kind`.
[[noreturn]] void ThrowFailure(RankFailure::Kind kind, int rank, const std::string& message);
// Within a catch block: what is being handled, as the end of `rank`. A RankFailure as it is; anything else becomes kOther
// with its type, "rank 2: std::runtime_error: injected".
RankFailure CurrentFailure(int rank);

}  // namespace twofold
