#include "backends/control/observer.h"

#include <utility>

#include "core/base/duration.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

constexpr std::chrono::milliseconds kProgressEvery(200), kClaimTime(1000);

// What this process's rank is doing now, for the other ranks.
Call Describe(const host::Call& call, int rank) {
  Call out;
  out.set_text(call.ToString());
  out.set_collective(call.split || call.communication.is_collective());
  if (call.identity == nullptr) return out;
  const host::GroupIdentity& group = *call.identity;
  out.set_group(group.id);
  out.set_sequence(call.sequence);
  auto everyone_else = [&] {
    for (int r : group.ranks) {
      if (r != rank) out.add_awaited(r);
    }
  };
  auto peer = [&](int p) {
    if (p != kAnySource) return out.add_awaited(group.ranks[static_cast<size_t>(p)]);
    out.set_any(true);
    everyone_else();
  };
  if (out.collective()) {
    everyone_else();
  } else if (call.communication.kind == Communication::kBatch) {
    for (const P2p& m : call.communication.batch) peer(m.peer);
  } else {
    peer(call.communication.peer);
  }
  return out;
}

}  // namespace

// ---- A run ----

void Observer::Begin(host::RunState* run, int rank, double timeout_s) {
  rank_ = rank;
  run_ = run;
  timeout_s_ = timeout_s;
  accused_ = false;
  claimed_since_ = {};
  waiting_.clear();
  told_doing_.clear();
}

void Observer::End(int rank, const absl::Status& status) {
  if (!status.ok() && run_ != nullptr) run_->Fail(rank, FailureKind(status), std::string(status.message()));
  Release();
}

void Observer::Release() {
  run_ = nullptr;
  waiting_.clear();
}

void Observer::Look(Time now) {
  if (run_ == nullptr) return;
  if (!accused_) LookForFailure(now);
  if (!accused_) LookForTimeOut(now);
  if (now - reported_ < kProgressEvery) return;
  reported_ = now;
  Report();
}

void Observer::LookForFailure(Time now) {
  if (!run_->ending()) return;
  ToHub message;
  if (const auto failure = run_->failure()) {
    // An exception is on its way out; its message will be known in a moment.
    if (claimed_since_ == Time()) claimed_since_ = now;
    if (failure->claimed && now - claimed_since_ < kClaimTime) return;
    message.mutable_trouble()->set_kind(static_cast<int>(failure->kind));
    message.mutable_trouble()->set_message(failure->message);
  } else {
    message.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kInterrupted));
    message.mutable_trouble()->set_message(StrCat("rank ", rank_, ": interrupted by a signal"));
  }
  accused_ = true;
  tell_(std::move(message));
}

void Observer::LookForTimeOut(Time now) {
  std::map<const host::Call*, Waiting> still;
  for (const auto& call : run_->CallsOf(rank_).now) {
    const auto known = waiting_.find(call.get());
    const auto since = known == waiting_.end() ? now : known->second.since;
    still.emplace(call.get(), Waiting{call, since});
    if (accused_ || now - since < DurationOf(timeout_s_)) continue;
    accused_ = true;
    ToHub message;
    message.mutable_trouble()->set_kind(static_cast<int>(RankFailure::Kind::kTimedOut));
    message.mutable_trouble()->set_message(StrCat("rank ", rank_, ": ", call->ToString(), " has taken too long"));
    *message.mutable_trouble()->mutable_waiting() = Describe(*call, rank_);
    tell_(std::move(message));
  }
  waiting_ = std::move(still);  // keeps the calls alive, so that no new one gets the address of an old one
}

void Observer::Report() {
  ToHub message;
  Progress& progress = *message.mutable_progress();
  {
    std::lock_guard lock(mutex_);
    for (const auto& log : logs_) log->TakePoints(*progress.mutable_points());
  }
  const std::string doing = Doing();
  if (progress.points().empty() && doing == told_doing_) return;
  told_doing_ = doing;
  progress.set_doing(doing);
  tell_(std::move(message));
}

void Observer::Reply() {
  if (run_ == nullptr) return;
  ToHub message;
  Answer& answer = *message.mutable_answer();
  for (const auto& call : run_->CallsOf(rank_).now) *answer.add_now() = Describe(*call, rank_);
  answer.set_doing(Doing());
  {
    std::lock_guard lock(mutex_);
    for (const auto& log : logs_) *answer.add_logs() = log->Records();
  }
  tell_(std::move(message));
}

// ---- Logs ----

void Observer::AddLog(std::shared_ptr<CallLog> log) {
  std::lock_guard lock(mutex_);
  logs_.push_back(std::move(log));
}

void Observer::ForgetLogs() {
  std::lock_guard lock(mutex_);
  logs_.clear();
}

void Observer::AddEnds(google::protobuf::RepeatedPtrField<Point>& points) const {
  std::lock_guard lock(mutex_);
  for (const auto& log : logs_) *points.Add() = log->LastPoint();
}

}  // namespace twofold::control
