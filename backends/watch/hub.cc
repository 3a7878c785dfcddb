#include "backends/watch/hub.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/duration.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::watch {
namespace {

constexpr std::chrono::milliseconds kAnswerTime(1000), kAnswerTimeAfterLoss(250);
constexpr std::chrono::milliseconds kGrace(3000), kGraceAfterLoss(350), kGraceOfInterrupted(700);
constexpr size_t kMostCompared = 100000;  // limit of points that not all ranks have reported yet

}  // namespace

std::chrono::milliseconds Hub::GraceOf(const control::Verdict& verdict) {
  if (verdict.lost()) return kGraceAfterLoss;
  return verdict.code() == static_cast<int>(absl::StatusCode::kCancelled) ? kGraceOfInterrupted : kGrace;
}

void Hub::Begin(uint64_t run, int world_size, double timeout_s, Time now) {
  TWOFOLD_CHECK(state_ == kIdle || state_ == kClosed, "one run at a time");
  state_ = kRunning;
  run_ = run;
  timeout_s_ = timeout_s;
  participants_.assign(static_cast<size_t>(world_size), {});
  compared_.clear();
  ends_.clear();
  accusation_.reset();
  verdict_ = {};
  for (Process& p : processes_) p.heard = now;
  for (auto& [rank, message] : std::exchange(early_, {})) Hear(rank, message, now);
  for (size_t r = 0; r < processes_.size(); ++r) {
    if (!Alive(r)) return Accuse({.rank = static_cast<int>(r), .trouble = {}}, now);
  }
}

void Hub::Hear(int rank, const control::ToHub& message, Time now) {
  processes_[static_cast<size_t>(rank)].heard = now;
  if (message.what_case() == control::ToHub::WHAT_NOT_SET) return;
  if (message.run() > run_ || state_ == kIdle) return early_.emplace_back(rank, message), void();
  if (message.run() == run_) Handle(rank, message, now);
}

void Hub::Handle(int rank, const control::ToHub& message, Time now) {
  if (static_cast<size_t>(rank) >= participants_.size()) return;  // the rank stands by
  Participant& p = participants_[static_cast<size_t>(rank)];
  switch (message.what_case()) {
    case control::ToHub::kProgress:
      p.doing = message.progress().doing();
      return Compare(rank, message.progress().points(), now);
    case control::ToHub::kTrouble: return Accuse({rank, message.trouble()}, now);
    case control::ToHub::kAnswer: p.answer = message.answer(); return MaybeDecide(now);
    case control::ToHub::kFinished:
      p.finished = true;
      p.result = message.finished().result();
      CompareEnds(rank, message.finished().points(), now);
      return FinishWell(now);
    case control::ToHub::kRelayed: {
      const int to = message.relayed().to();
      if (to < 0 || to >= static_cast<int>(participants_.size()) || !Alive(static_cast<size_t>(to))) return;
      control::FromHub passed_on;
      passed_on.set_run(run_);
      *passed_on.mutable_relayed() = message.relayed();
      passed_on.mutable_relayed()->set_from(rank);  // regardless of what the message says
      return send_(to, passed_on);
    }
    case control::ToHub::kPartial:
      p.handed_in = true;
      p.result = message.partial().result();
      return MaybeClose(now);
    default: return;
  }
}

void Hub::Compare(int rank, const Points& points, Time now) {
  for (const control::Point& point : points) {
    const std::pair key(point.group(), point.sequence());
    Compared& c = compared_[key];
    if (!Agrees(point, c)) return Accuse({.rank = rank, .trouble = {}}, now);
    if (c.heard == point.ranks()) compared_.erase(key);
  }
  // Fast and slow ranks pick different points. Those that will never be complete are dropped, oldest first.
  while (compared_.size() > kMostCompared) compared_.erase(compared_.begin());
}

void Hub::CompareEnds(int rank, const Points& points, Time now) {
  for (const control::Point& point : points) {
    if (!Agrees(point, ends_[point.group()])) return Accuse({.rank = rank, .trouble = {}}, now);
  }
}

bool Hub::Agrees(const control::Point& point, Compared& c) {
  const bool first = c.heard++ == 0;
  const bool same = first || (c.sequence == point.sequence() && c.digest == point.digest());
  c.sequence = point.sequence();
  c.digest = point.digest();
  c.balance += point.balance();
  return same && (c.heard < point.ranks() || c.balance == 0);
}

void Hub::FinishWell(Time now) {
  if (state_ != kRunning) return MaybeClose(now);
  if (!std::all_of(participants_.begin(), participants_.end(), [](const Participant& p) { return p.finished; })) return;
  Tell(now);
  state_ = kClosed;
}

void Hub::Lose(int rank, Time now, std::string how) {
  processes_[static_cast<size_t>(rank)].lost = true;
  processes_[static_cast<size_t>(rank)].how = std::move(how);
  if (state_ == kRunning && static_cast<size_t>(rank) >= participants_.size()) {
    control::Trouble trouble;
    trouble.set_kind(static_cast<int>(RankFailure::Kind::kPeerLost));
    trouble.set_message(StrCat("lost ", processes_[static_cast<size_t>(rank)].name, ", process ", rank, " of ",
                               processes_.size(), ", which was on standby"));
    return Accuse({rank, trouble}, now);
  }
  if (state_ == kRunning) return Accuse({.rank = rank, .trouble = {}}, now);
  MaybeDecide(now);
  MaybeClose(now);
}

void Hub::Accuse(Accusation accusation, Time now) {
  if (state_ != kRunning) return;
  const bool lost = std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.lost; });
  state_ = kInquest;
  accusation_ = std::move(accusation);
  deadline_ = now + (lost ? kAnswerTimeAfterLoss : kAnswerTime);
  control::FromHub question;
  question.set_run(run_);
  question.mutable_query();
  for (size_t r = 0; r < participants_.size(); ++r) {
    if (Alive(r)) send_(static_cast<int>(r), question);
  }
}

void Hub::Tick(Time now) {
  MissTheSilent(now);
  MaybeDecide(now);
  MaybeClose(now);
}

// Needed because a process that is stopped, or whose host hangs, keeps its connection.
void Hub::MissTheSilent(Time now) {
  if (state_ != kRunning) return;
  const double most_s = std::max(least_silence_s_, timeout_s_);
  for (size_t r = 1; r < participants_.size(); ++r) {
    const Participant& p = participants_[r];
    if (p.finished || now - processes_[r].heard < DurationOf(most_s)) continue;
    control::Trouble trouble;
    trouble.set_kind(static_cast<int>(RankFailure::Kind::kPeerLost));
    trouble.set_message(StrCat("lost rank ", r, ": its process (", processes_[r].name, ") has sent no heartbeat for ",
                               most_s, " s; it is stopped, or its host hangs or is unreachable",
                               p.doing.empty() ? "" : StrCat("; last known state: ", p.doing)));
    return Accuse({.rank = static_cast<int>(r), .trouble = trouble}, now);
  }
}

void Hub::MaybeDecide(Time now) {
  if (state_ != kInquest) return;
  bool all = true;
  for (size_t r = 0; r < participants_.size(); ++r) all = all && (!Alive(r) || participants_[r].answer.has_value());
  if (!all && now < deadline_) return;
  std::vector<Witness> witnesses(participants_.size());
  for (size_t r = 0; r < witnesses.size(); ++r) {
    witnesses[r] = {.lost = !Alive(r),
                    .how = processes_[r].how,
                    .process = processes_[r].name,
                    .last_doing = participants_[r].doing,
                    .answer = std::move(participants_[r].answer)};
  }
  verdict_ = Decide(witnesses, *accusation_, timeout_s_);
  state_ = kDecided;
  deadline_ = now + GraceOf(verdict_) + std::chrono::milliseconds(200);
  Tell(now);
  MaybeClose(now);
}

void Hub::Tell(Time) {
  control::FromHub message;
  message.set_run(run_);
  *message.mutable_verdict() = verdict_;
  for (size_t r = 0; r < processes_.size(); ++r) {
    if (Alive(r)) send_(static_cast<int>(r), message);
  }
}

void Hub::MaybeClose(Time now) {
  if (state_ != kDecided) return;
  bool all = true;
  for (size_t r = 0; r < participants_.size(); ++r) all = all && (!Alive(r) || participants_[r].handed_in);
  if (all || now >= deadline_) state_ = kClosed;
}

std::vector<std::string> Hub::TakeResults() {
  std::vector<std::string> results;
  for (Participant& p : participants_) results.push_back(std::move(p.result));
  return results;
}

}  // namespace twofold::watch
