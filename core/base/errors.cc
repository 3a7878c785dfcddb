#include "core/base/errors.h"

#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <typeinfo>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using Kind = RankFailure::Kind;
using Code = absl::StatusCode;

constexpr std::array<std::pair<Kind, Code>, 8> kCodes = {{
    {Kind::kPeerLost, Code::kUnavailable},
    {Kind::kCollectiveMismatch, Code::kInvalidArgument},
    {Kind::kOutOfMemory, Code::kResourceExhausted},
    {Kind::kTimedOut, Code::kDeadlineExceeded},
    {Kind::kDeadlock, Code::kFailedPrecondition},
    {Kind::kInterrupted, Code::kCancelled},
    {Kind::kOther, Code::kInternal},
    {Kind::kRunOver, Code::kAborted},
}};

std::string TypeName(const std::exception& e) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(typeid(e).name(), nullptr, nullptr, &status),
                                              std::free);
  return status == 0 ? std::string(name.get()) : std::string(typeid(e).name());
}

}  // namespace

absl::Status ToStatus(const RankFailure& failure) {
  for (auto [kind, code] : kCodes) {
    if (kind == failure.kind()) return absl::Status(code, failure.what());
  }
  return Internal(failure.what());
}

RankFailure::Kind FailureKind(const absl::Status& status) {
  for (auto [kind, code] : kCodes) {
    if (code == status.code()) return kind;
  }
  return Kind::kOther;
}

bool IsSurvivable(Kind kind) { return kind == Kind::kPeerLost || kind == Kind::kTimedOut || kind == Kind::kOther; }

void ThrowFailure(Kind kind, int rank, const std::string& message) {
  switch (kind) {
    case Kind::kPeerLost: throw PeerLost(rank, message);
    case Kind::kCollectiveMismatch: throw CollectiveMismatch(rank, message);
    case Kind::kOutOfMemory: throw OutOfMemory(rank, message);
    case Kind::kTimedOut: throw TimedOut(rank, message);
    case Kind::kDeadlock: throw Deadlock(rank, message);
    case Kind::kInterrupted: throw Interrupted(rank, message);
    case Kind::kRunOver: throw RunOver(rank, message);
    case Kind::kOther: break;
  }
  throw RankFailure(kind, rank, message);
}

RankFailure CurrentFailure(int rank) {
  try {
    throw;
  } catch (const RankFailure& e) {
    return e;
  } catch (const std::exception& e) {
    return RankFailure(Kind::kOther, rank, StrCat("rank ", rank, ": ", TypeName(e), ": ", e.what()));
  } catch (...) {
    return RankFailure(Kind::kOther, rank,
                       StrCat("rank ", rank, ": an exception that does not derive from std::exception"));
  }
}

}  // namespace twofold
