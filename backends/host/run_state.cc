#include "backends/host/run_state.h"

#include <algorithm>
#include <utility>

#include "core/base/strings.h"

namespace twofold::host {

using FailureKind = RankFailure::Kind;

RunState::RunState(int world_size, double timeout_s, std::function<double()> clock)
    : origin_(std::chrono::steady_clock::now()),
      timeout_s_(timeout_s),
      clock_(std::move(clock)),
      left_(static_cast<size_t>(world_size)),
      activities_(static_cast<size_t>(world_size)) {}

RunState::RunState(const RunState& previous, int ranks)
    : origin_(previous.origin_),
      timeout_s_(previous.timeout_s_),
      clock_(previous.clock_),
      left_(static_cast<size_t>(ranks)),
      activities_(static_cast<size_t>(ranks)) {}

double RunState::Now() const { return clock_ ? clock_() : Since(std::chrono::steady_clock::now()); }

double RunState::Since(std::chrono::steady_clock::time_point t) const {
  return std::chrono::duration<double>(t - origin_).count();
}

// With the lock held, and a failure known.
bool RunState::IsGraver(FailureKind kind) const {
  return kind == FailureKind::kRunOver && IsSurvivable(failure_->kind);
}

void RunState::Fail(int rank, FailureKind kind, std::string message) {
  std::lock_guard lock(mutex_);
  if (!failure_ || IsGraver(kind)) failure_ = Failure{rank, kind, std::move(message), false};
  failed_.store(true, std::memory_order_release);
}

void RunState::Claim(int rank, std::string message) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = Failure{rank, FailureKind::kOther, std::move(message), true};
  failed_.store(true, std::memory_order_release);
}

void RunState::Explain(int rank, FailureKind kind, std::string message) {
  std::lock_guard lock(mutex_);
  const bool mine = failure_ && failure_->rank == rank && failure_->claimed;
  if (!failure_ || mine || IsGraver(kind)) failure_ = Failure{rank, kind, std::move(message), false};
  failed_.store(true, std::memory_order_release);
}

void RunState::Leave(int rank) { left_[static_cast<size_t>(rank)].store(true, std::memory_order_release); }

std::optional<RunState::Failure> RunState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void RunState::ThrowIfEnding(int rank, std::string_view doing) const {
  if (!ending()) return;
  const std::optional<Failure> first = failure();
  if (!first || first->kind == FailureKind::kInterrupted) {
    throw Interrupted(rank, StrCat("rank ", rank, ": interrupted in ", doing));
  }
  if (first->rank == rank) ThrowFailure(first->kind, rank, first->message);
  throw PeerLost(rank, StrCat("rank ", rank, ": lost rank ", first->rank, " in ", doing, ": ", first->message));
}

absl::Status RunState::status() const {
  const std::optional<Failure> first = failure();
  return first ? ToStatus(RankFailure(first->kind, first->rank, first->message)) : absl::OkStatus();
}

void RunState::Begin(int rank, std::shared_ptr<const Call> call) {
  Activity& a = activities_[static_cast<size_t>(rank)];
  std::lock_guard lock(a.mutex);
  a.now.push_back(std::move(call));
}

void RunState::End(int rank, const std::shared_ptr<const Call>& call) {
  Activity& a = activities_[static_cast<size_t>(rank)];
  std::lock_guard lock(a.mutex);
  const auto place = std::find(a.now.begin(), a.now.end(), call);
  a.last = std::move(*place);
  a.now.erase(place);
}

RunState::Calls RunState::CallsOf(int rank) const {
  const Activity& a = activities_[static_cast<size_t>(rank)];
  std::lock_guard lock(a.mutex);
  return {a.now, a.last};
}

std::string RunState::Doing(int rank) const {
  const Activity& a = activities_[static_cast<size_t>(rank)];
  std::lock_guard lock(a.mutex);
  std::string text = StrCat("rank ", rank);
  if (HasLeft(rank)) return text + ", whose function has returned";
  if (a.now.empty() && a.last == nullptr) return text + ", which has not communicated yet";
  if (a.now.empty()) return StrCat(text, ", which is computing; its last call was ", a.last->ToString());
  for (size_t i = 0; i < a.now.size(); ++i)
    StrAppend(&text, i == 0 ? ", which is in " : " and in ", a.now[i]->ToString());
  return text;
}

}  // namespace twofold::host
