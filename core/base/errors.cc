#include "core/base/errors.h"

#include <array>
#include <utility>

namespace twofold {
namespace {

using Kind = RankFailure::Kind;
using Code = absl::StatusCode;

constexpr std::array<std::pair<Kind, Code>, 7> kCodes = {{
    {Kind::kPeerLost, Code::kUnavailable},
    {Kind::kCollectiveMismatch, Code::kInvalidArgument},
    {Kind::kOutOfMemory, Code::kResourceExhausted},
    {Kind::kTimedOut, Code::kDeadlineExceeded},
    {Kind::kDeadlock, Code::kFailedPrecondition},
    {Kind::kInterrupted, Code::kCancelled},
    {Kind::kOther, Code::kInternal},
}};

}  // namespace

absl::Status ToStatus(const RankFailure& failure) {
  for (auto [kind, code] : kCodes) {
    if (kind == failure.kind()) return absl::Status(code, failure.what());
  }
  return absl::InternalError(failure.what());
}

RankFailure::Kind FailureKind(const absl::Status& status) {
  for (auto [kind, code] : kCodes) {
    if (code == status.code()) return kind;
  }
  return Kind::kOther;
}

}  // namespace twofold
