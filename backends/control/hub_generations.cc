// The hub's part in generations of an elastic run.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "backends/control/hub.h"
#include "core/base/rank_list.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {

namespace {
constexpr int kMostWaiting = 64;  // newcomers
}

absl::Status Hub::MayJoin() const {
  if (!elastic_ && state_ != kIdle && state_ != kClosed)
    return FailedPrecondition("the run in progress is not elastic, so nobody can join it");
  if (generations_.waiting() >= kMostWaiting)
    return FailedPrecondition(kMostWaiting, " processes wait already for the next generation");
  return absl::OkStatus();
}

void Hub::Join(int member, std::string process, Time now) {
  processes_.resize(std::max(processes_.size(), static_cast<size_t>(member) + 1));
  At(member) = {.seen = {.process = std::move(process)}, .heard = now};
  generations_.Wait(member);
  ShowWaiting();
  Settle(now);
}

void Hub::HandleReform(int member, const Reform& reform, Time now) {
  if (state_ == kDecided || state_ == kClosed) return;  // the sender will hear the verdict
  const absl::Status status =
      elastic_ ? generations_.Ask(member, reform, now) : FailedPrecondition("this run is not elastic");
  if (status.ok()) return Settle(now);
  FromHub message = Message();
  message.mutable_refused()->set_message(std::string(status.message()));
  send_(member, message);
}

void Hub::HandleDepart(int member, const Depart& depart, Time now) {
  if (state_ == kDecided || state_ == kClosed) return;
  Process& p = At(member);
  if (!elastic_ || member == 0 || !IsMember(member) || p.finished || p.departed) {
    FromHub message = Message();
    message.mutable_refused()->set_message(StrCat(
        "member ", member, " cannot leave: ",
        member == 0 ? "its process holds the control plane of all others" : "it is no live member of an elastic run"));
    return send_(member, message);
  }
  p.departed = true;
  p.result = depart.result();
  generations_.Remove(member);
  if (state_ == kRunning) {
    Break(member, absl::StatusCode::kUnavailable,
          StrCat("rank ", member, " (", p.seen.process, ") has left the run in order"), now);
  } else {
    Settle(now);
    MaybeDecide(now);
  }
}

// What goes before a message of a later generation.
std::string Hub::InGeneration() const {
  return generations_.number() <= 1 ? "" : StrCat("generation ", Reported(generations_.number()), ": ");
}

void Hub::Break(int member, absl::StatusCode code, const std::string& message, Time now) {
  state_ = kBroken;
  accusation_.reset();
  why_broken_ = StrCat(InGeneration(), message);
  FromHub told = Message();
  told.mutable_broken()->set_member(member);
  told.mutable_broken()->set_code(static_cast<int>(code));
  told.mutable_broken()->set_message(why_broken_);
  for (const int m : generations_.members()) {
    if (At(m).takes_part() && !At(m).finished) send_(m, told);
  }
  Settle(now);
}

void Hub::Settle(Time now) {
  if (!elastic_ || (state_ != kRunning && state_ != kBroken)) return;
  if (All([](const Process& p) { return !p.takes_part() || p.finished; })) {
    if (!All([](const Process& p) { return !p.finished; })) return Close();
    Verdict verdict = VerdictOf(absl::StatusCode::kUnavailable, StrCat("no member is left: ", why_broken_));
    verdict.set_lost(true);
    return End(std::move(verdict), now);
  }
  switch (generations_.Advance(now)) {
    case Generations::Step::kWait: return;
    case Generations::Step::kTooFew: return EndForTooFew(now);
    case Generations::Step::kCommitted: return Form(now);
  }
}

void Hub::Form(Time now) {
  const std::vector<int> late = generations_.late();
  if (std::find(late.begin(), late.end(), 0) != late.end()) {
    return End(VerdictOf(absl::StatusCode::kDeadlineExceeded,
                         StrCat("rank 0 (", At(0).seen.process,
                                "), whose process holds the control plane, did not ask for the next generation within ",
                                generations_.patience_s(), " s")),
               now);
  }
  for (const int m : generations_.members()) At(m).seen.answer.reset(), At(m).seen.last_doing.clear();
  state_ = kRunning;
  compared_.clear();
  ends_.clear();
  FromHub message = Message();
  Formed& formed = *message.mutable_formed();
  formed.set_number(generations_.number());
  formed.mutable_members()->Assign(generations_.members().begin(), generations_.members().end());
  formed.set_timeout_s(timeout_s_);
  for (const int m : generations_.members()) send_(m, message);
  for (const int m : late) {
    Expel(m, "was late",
          StrCat("generation ", Reported(generations_.number()),
                 " began without this process, which had not asked for it within ", generations_.patience_s(), " s"));
  }
}

void Hub::EndForTooFew(Time now) {
  std::vector<std::string> missing;
  for (const int m : generations_.members()) {
    const Process& p = At(m);
    if (generations_.HasAsked(m)) continue;
    missing.push_back(StrCat("rank ", m, " (", p.seen.process, ") ",
                             p.seen.lost  ? p.seen.how
                             : p.departed ? "has left"
                             : p.finished ? "has finished"
                                          : "did not ask"));
  }
  End(VerdictOf(absl::StatusCode::kUnavailable,
                StrCat("the next generation needs ", generations_.least(), " members, but within ",
                       generations_.patience_s(), " s only ", generations_.asked(), " asked for it and ",
                       generations_.waiting(), " newcomers came: ", absl::StrJoin(missing, "; "))),
      now);
}

// To newcomers that wait, who have no place in the run that begins or has ended.
void Hub::SayTheRunIsOver() {
  for (int m = initial_; m < static_cast<int>(processes_.size()); ++m) {
    if (!generations_.IsWaiting(m)) continue;
    generations_.Remove(m);
    Expel(m, "was not admitted", "the run ended, or a run that is not elastic began, before this process was admitted");
  }
}

void Hub::Expel(int member, std::string how, const std::string& why) {
  At(member).seen.lost = true;
  At(member).seen.how = std::move(how);
  hang_up_(member, absl::AbortedError(why));
}

void Hub::ShowWaiting() {
  if (!elastic_ || (state_ != kRunning && state_ != kInquest && state_ != kBroken)) return;
  for (const int m : generations_.members()) {
    if (At(m).takes_part()) send_(m, Message());
  }
}

}  // namespace twofold::control
