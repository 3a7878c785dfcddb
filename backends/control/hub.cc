#include "backends/control/hub.h"

#include <algorithm>
#include <utility>

#include "core/base/duration.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

constexpr std::chrono::milliseconds kAnswerTime(1000), kAnswerTimeAfterLoss(250);
constexpr std::chrono::milliseconds kGrace(3000), kGraceAfterLoss(350), kGraceOfInterrupted(700);
constexpr size_t kMostCompared = 100000;  // limit of points that not all ranks have reported yet
constexpr size_t kMostEarly = 100000;     // limit of messages of a run that has not begun here

bool EndsAnElasticRun(const Verdict& verdict) {
  return !IsSurvivable(FailureKind(absl::Status(static_cast<absl::StatusCode>(verdict.code()), "")));
}

}  // namespace

std::chrono::milliseconds Hub::GraceOf(const Verdict& verdict) {
  if (verdict.lost()) return kGraceAfterLoss;
  return verdict.code() == static_cast<int>(absl::StatusCode::kCancelled) ? kGraceOfInterrupted : kGrace;
}

// ---- A run ----

void Hub::Begin(uint64_t run, const control::Begin& begin, Time now) {
  const bool possible = begin.world_size() >= 1 && begin.world_size() <= initial_;
  if ((state_ != kIdle && state_ != kClosed) || run <= run_ || !possible) return;
  state_ = kRunning;
  run_ = run;
  elastic_ = begin.elastic();
  timeout_s_ = begin.timeout_s();
  generations_.Start(begin.world_size());
  compared_.clear();
  ends_.clear();
  accusation_.reset();
  verdict_ = {};
  for (Process& p : processes_) {
    p = {.seen = std::move(p.seen), .heard = now};
    p.seen.last_doing.clear();
    p.seen.answer.reset();
  }
  if (!elastic_) SayTheRunIsOver();  // to newcomers, who have no place in it
  for (auto& [member, message] : std::exchange(early_, {})) Hear(member, message, now);
  for (int m = 0; m < initial_ && state_ == kRunning; ++m) {
    if (At(m).seen.lost) Lose(m, now, At(m).seen.how);
  }
  if (generations_.waiting() > 0) ShowWaiting();
}

void Hub::Hear(int member, const ToHub& message, Time now) {
  At(member).heard = now;
  if (message.what_case() == ToHub::WHAT_NOT_SET) return;
  if (message.run() > run_ || state_ == kIdle) {
    if (early_.size() < kMostEarly) early_.emplace_back(member, message);
    return;
  }
  if (message.run() == run_ && !At(member).seen.lost) Handle(member, message, now);
}

void Hub::Handle(int member, const ToHub& message, Time now) {
  if (message.has_reform()) return HandleReform(member, message.reform(), now);
  if (message.has_depart()) return HandleDepart(member, message.depart(), now);
  Process& p = At(member);
  if (message.has_partial() && state_ == kDecided) {
    p.handed_in = true;
    p.result = message.partial().result();
    return MaybeClose(now);
  }
  if (!IsMember(member)) return;  // it stands by, or waits
  if (elastic_ && message.generation() != generations_.number()) return;
  switch (message.what_case()) {
    case ToHub::kProgress:
      p.seen.last_doing = message.progress().doing();
      return Compare(member, message.progress().points(), now);
    case ToHub::kTrouble: return Accuse(member, message.trouble(), now);
    case ToHub::kAnswer: p.seen.answer = message.answer(); return MaybeDecide(now);
    case ToHub::kRelayed: return PassOn(member, message.relayed());
    case ToHub::kFinished:
      p.finished = true;
      p.result = message.finished().result();
      generations_.Remove(member);
      CompareEnds(member, message.finished().points(), now);
      return FinishWell(now);
    default: return;
  }
}

void Hub::PassOn(int member, const Relayed& relayed) {
  if (!IsMember(relayed.to()) || At(relayed.to()).seen.lost) return;
  FromHub passed_on = Message();
  *passed_on.mutable_relayed() = relayed;
  passed_on.mutable_relayed()->set_from(member);  // regardless of what the message says
  send_(relayed.to(), passed_on);
}

// ---- Comparing ----

void Hub::Compare(int member, const Points& points, Time now) {
  for (const Point& point : points) {
    const std::pair key(point.group(), point.sequence());
    Compared& c = compared_[key];
    if (!Agrees(point, c)) return Accuse(member, std::nullopt, now);
    if (c.heard == point.ranks()) compared_.erase(key);
  }
  // Fast and slow ranks pick different points. Those that will never be complete are dropped, oldest first.
  while (compared_.size() > kMostCompared) compared_.erase(compared_.begin());
}

void Hub::CompareEnds(int member, const Points& points, Time now) {
  for (const Point& point : points) {
    if (!Agrees(point, ends_[point.group()])) return Accuse(member, std::nullopt, now);
  }
}

bool Hub::Agrees(const Point& point, Compared& c) {
  const bool first = c.heard++ == 0;
  const bool same = first || (c.sequence == point.sequence() && c.digest == point.digest());
  c.sequence = point.sequence();
  c.digest = point.digest();
  c.balance += point.balance();
  return same && (c.heard < point.ranks() || c.balance == 0);
}

// ---- How it ends ----

void Hub::FinishWell(Time now) {
  if (state_ == kDecided) return MaybeClose(now);
  if (elastic_) return Settle(now);
  if (state_ == kRunning && All([](const Process& p) { return p.finished; })) Close();
}

void Hub::Close() {
  state_ = kClosed;
  FromHub message = Message();
  *message.mutable_verdict() = verdict_;
  if (verdict_.code() == 0) TellAll(message);
  SayTheRunIsOver();
}

void Hub::Lose(int member, Time now, std::string how) {
  At(member).seen.lost = true;
  At(member).seen.how = std::move(how);
  const bool takes_part = IsMember(member), was_done = At(member).finished || At(member).departed;
  generations_.Remove(member);
  if (elastic_ && (!takes_part || was_done)) {
    ShowWaiting();
    return MaybeClose(now);
  }
  if (state_ == kRunning && !takes_part) {
    Trouble trouble;
    trouble.set_kind(static_cast<int>(RankFailure::Kind::kPeerLost));
    trouble.set_message(StrCat("lost ", At(member).seen.process, ", process ", member, " of ", processes_.size(),
                               ", which was on standby"));
    return Accuse(member, std::move(trouble), now);
  }
  if (state_ == kRunning) return Accuse(member, std::nullopt, now);
  Settle(now);
  MaybeDecide(now);
  MaybeClose(now);
}

void Hub::Accuse(int member, std::optional<Trouble> trouble, Time now) {
  const bool in_run = state_ == kRunning || state_ == kInquest || state_ == kBroken;
  if (in_run && trouble && trouble->kind() == static_cast<int>(RankFailure::Kind::kRunOver)) {
    // It needs no witnesses, and others that are lost meanwhile change nothing.
    return End(Decide({}, {.rank = member, .trouble = std::move(trouble)}, timeout_s_), now);
  }
  if (state_ != kRunning) return;
  const bool lost = std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.seen.lost; });
  state_ = kInquest;
  accusation_ = {.rank = member, .trouble = std::move(trouble)};
  deadline_ = now + (lost ? kAnswerTimeAfterLoss : kAnswerTime);
  FromHub question = Message();
  question.mutable_query();
  for (const int m : generations_.members()) {
    if (At(m).takes_part()) send_(m, question);
  }
  MaybeDecide(now);
}

void Hub::Tick(Time now) {
  MissTheSilent(now);
  Settle(now);
  MaybeDecide(now);
  MaybeClose(now);
}

void Hub::MissTheSilent(Time now) {
  if (state_ != kRunning && state_ != kBroken) return;
  const double most_s = std::max(least_silence_s_, timeout_s_);
  for (int m = 1; m < static_cast<int>(processes_.size()); ++m) {
    const Process& p = At(m);
    const bool awaited = generations_.IsWaiting(m) || (IsMember(m) && !p.finished);
    if (!awaited || !p.takes_part() || now - p.heard < DurationOf(most_s)) continue;
    const std::string how =
        StrCat("has sent no heartbeat for ", most_s, " s; it is stopped, or its host hangs or is unreachable");
    Lose(m, now, how);
    hang_up_(m, absl::AbortedError(StrCat("the run went on without this process, which ", how)));
  }
}

void Hub::MaybeDecide(Time now) {
  if (state_ != kInquest) return;
  if (now < deadline_ && !All([](const Process& p) { return !p.takes_part() || p.seen.answer.has_value(); })) return;
  std::vector<Witness> witnesses;
  for (size_t m = 0; m < processes_.size(); ++m) {
    Process& p = processes_[m];
    std::optional<Answer> answer = std::exchange(p.seen.answer, std::nullopt);  // long: not to be copied
    Witness& witness = witnesses.emplace_back(p.seen);
    witness.takes_part = IsMember(static_cast<int>(m));
    witness.answer = std::move(answer);
    if (elastic_ && (p.finished || p.departed)) witness.lost = false;
  }
  Verdict verdict = Decide(witnesses, *accusation_, timeout_s_);
  if (!elastic_ || EndsAnElasticRun(verdict)) return End(std::move(verdict), now);
  Break(verdict.rank(), static_cast<absl::StatusCode>(verdict.code()), verdict.message(), now);
}

void Hub::End(Verdict verdict, Time now) {
  verdict_ = std::move(verdict);
  verdict_.set_message(StrCat(InGeneration(), verdict_.message()));
  state_ = kDecided;
  deadline_ = now + GraceOf(verdict_) + std::chrono::milliseconds(200);
  FromHub message = Message();
  *message.mutable_verdict() = verdict_;
  TellAll(message);
  MaybeClose(now);
}

void Hub::MaybeClose(Time now) {
  if (state_ != kDecided) return;
  if (now >= deadline_ || All([](const Process& p) { return !p.takes_part() || p.handed_in; })) Close();
}

FromHub Hub::Message() const {
  FromHub message;
  message.set_run(run_);
  if (elastic_) {
    message.set_generation(generations_.number());
    message.set_waiting(generations_.waiting());
  }
  return message;
}

void Hub::TellAll(const FromHub& message) {
  for (size_t m = 0; m < processes_.size(); ++m) {
    if (!processes_[m].seen.lost) send_(static_cast<int>(m), message);
  }
}

Results Hub::TakeResults() {
  Results results;
  const size_t count = elastic_ ? processes_.size() : generations_.members().size();
  for (size_t m = 0; m < count; ++m) results.add_results(std::move(processes_[m].result));
  return results;
}

}  // namespace twofold::control
