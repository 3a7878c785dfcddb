#include "backends/control/plane.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/duration.h"
#include "core/base/rank_list.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

constexpr size_t kMostStrangers = 4;  // number of addresses that are remembered
constexpr size_t kMostMembers = 1 << 20;
constexpr double kUnreachable = 2.5;  // signs of life that were due, after which a broken connection means a lost host

double Seconds(std::chrono::steady_clock::duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace

std::string ProcessText(const Hello& hello) { return StrCat("process ", hello.process(), " on ", hello.host()); }

std::string Plane::Member::Text() const {
  return StrCat(hello.newcomer() ? "newcomer " : "rank ", hello.rank(), " (", ProcessText(hello), ")");
}

Plane::Plane(Options options, Send send, HangUp hang_up, Time now)
    : options_(std::move(options)),
      send_(std::move(send)),
      hang_up_(std::move(hang_up)),
      deadline_(now + DurationOf(options_.timeout_s)),
      gave_signs_(now),
      members_(static_cast<size_t>(options_.size)),
      values_([this](int number, const FromHub& message) { SendTo(number, message); }),
      hub_(
          options_.size, options_.least_silence_s,
          [this](int number, const FromHub& message) { SendTo(number, message); },
          [this](int number, const absl::Status& why) { HangUpOn(number, why); }) {}

absl::Status Plane::Hear(Connection from, const ToHub& message, Time now) {
  if (message.has_hello()) return Greet(from, message.hello(), now);
  const auto known = numbers_.find(from);
  if (known == numbers_.end()) return InvalidArgument("fabric.rendezvous: a process must introduce itself first");
  const int number = known->second;
  At(number).heard = now;
  if (message.has_leave()) return HandleLeave(number, now), absl::OkStatus();
  if (message.has_begin() && number != 0)
    return InvalidArgument("fabric.rendezvous: ", At(number).Text(), " tried to begin a run, which only rank 0 does");
  if (message.has_give()) Take(number, message.give(), now);
  if (message.has_set()) values_.Hear(number, message.set());
  if (message.has_get()) values_.Hear(number, message.get());
  if (message.has_begin()) {
    hub_.Begin(message.run(), message.begin(), now);
    told_results_ = false;
  } else if (state_ != kGathering) {
    const bool is_sign = message.has_give() || message.has_set() || message.has_get();
    hub_.Hear(number, is_sign ? ToHub() : message, now);
  }
  TellResults();
  return absl::OkStatus();
}

void Plane::SendTo(int number, const FromHub& message) {
  if (At(number).state == Member::kHere) send_(At(number).connection, message);
}

void Plane::HangUpOn(int number, const absl::Status& why) {
  if (At(number).state != Member::kHere) return;
  At(number).state = Member::kLost;
  values_.Forget(number);
  hang_up_(At(number).connection, why);
}

// ---- Gathering ----

absl::Status Plane::Greet(Connection from, const Hello& hello, Time now) {
  if (state_ == kFailed) return send_(from, end_), absl::OkStatus();
  const std::string wrong = Contradiction(from, hello);
  if (!wrong.empty() && (state_ == kMet || hello.newcomer())) return FailedPrecondition("fabric.rendezvous: ", wrong);
  if (!wrong.empty()) {
    Fail(absl::StatusCode::kFailedPrecondition, wrong);
    return send_(from, end_), absl::OkStatus();
  }
  const int number = hello.newcomer() ? static_cast<int>(members_.size()) : hello.rank();
  if (hello.newcomer()) members_.emplace_back();
  At(number) = {.state = Member::kHere, .connection = from, .hello = hello, .heard = now};
  At(number).hello.set_rank(number);
  numbers_[from] = number;
  FromHub message;
  message.mutable_welcome()->set_hub(options_.process);
  message.mutable_welcome()->set_member(number);
  send_(from, message);
  if (hello.newcomer()) return hub_.Join(number, ProcessText(hello), now), absl::OkStatus();
  hub_.Connected(number, ProcessText(hello));
  deadline_ = std::min(deadline_, now + DurationOf(hello.patience_s()));
  if (std::all_of(members_.begin(), members_.begin() + options_.size,
                  [](const Member& m) { return m.state == Member::kHere; }))
    Seat();
  return absl::OkStatus();
}

// Why this process cannot be admitted; empty if it can.
std::string Plane::Contradiction(Connection from, const Hello& hello) const {
  const std::string who = Member{.hello = hello}.Text();
  if (const auto known = numbers_.find(from); known != numbers_.end()) {
    return StrCat(At(known->second).Text(), " introduced itself a second time on one connection, now as ", who,
                  "; start the same build of the program everywhere");
  }
  if (std::isnan(hello.patience_s())) {
    return StrCat(who, " would wait ", hello.patience_s(),
                  " s for the others; fabric.rendezvous.timeout_s must be a number of seconds");
  }
  if (hello.version() != kVersion) {
    return StrCat(who, " uses version ", hello.version(), " of the control protocol, but rank 0 (", options_.process,
                  ") uses version ", kVersion, "; start the same build of the program everywhere");
  }
  if (hello.newcomer()) {
    const absl::Status may = members_.size() < kMostMembers ? hub_.MayJoin() : FailedPrecondition("too many have come");
    return may.ok() ? "" : StrCat(ProcessText(hello), ": ", std::string(may.message()));
  }
  if (hello.size() != options_.size) {
    return StrCat(who, " was told that there are ", hello.size(), " ranks, but rank 0 (", options_.process,
                  ") was told that there are ", options_.size,
                  "; WORLD_SIZE, or the variable that the launcher sets instead, must be the same for all ranks");
  }
  if (hello.rank() < 0 || hello.rank() >= options_.size) {
    return StrCat(who, ": there are ", options_.size, " ranks, 0 to ", options_.size - 1,
                  "; correct RANK, or the variable that the launcher sets instead");
  }
  const Member& before = At(hello.rank());
  if (before.state == Member::kAwaited) return "";
  return StrCat("rank ", hello.rank(), " joined twice: ", ProcessText(before.hello), ", then ", ProcessText(hello),
                "; give each process its own RANK, and end processes left over from earlier runs");
}

// All have come: tells each process its place among those of its host.
void Plane::Seat() {
  state_ = kMet;
  std::map<std::string, std::vector<int>> machines;
  for (int r = 0; r < options_.size; ++r) machines[At(r).hello.machine()].push_back(r);
  for (const auto& [machine, here] : machines) {
    for (size_t i = 0; i < here.size(); ++i) {
      FromHub message;
      message.mutable_seat()->set_local_rank(static_cast<int>(i));
      message.mutable_seat()->set_local_size(static_cast<int>(here.size()));
      SendTo(here[i], message);
    }
  }
}

// ---- Losing ----

void Plane::Lose(Connection from, Time now) {
  const auto known = numbers_.find(from);
  if (known == numbers_.end() || At(known->second).state != Member::kHere) return;
  const double silent_s = Seconds(now - At(known->second).heard);
  const bool cut_off = silent_s > kUnreachable * options_.least_silence_s / kSignsInSilence;
  LoseMember(known->second,
             cut_off ? StrCat("is unreachable: its host does not answer (no heartbeat for ", std::lround(silent_s),
                              " s, then the connection broke)")
                     : "has ended",
             now);
}

void Plane::LoseMember(int number, const std::string& how, Time now) {
  Member& member = At(number);
  member.state = Member::kLost;
  member.how = how;
  values_.Forget(number);
  if (state_ == kGathering && number < options_.size) {
    Fail(absl::StatusCode::kUnavailable,
         StrCat("lost ", member.Text(),
                " before all ranks had joined: it has ended or is stopped, or its host is unreachable; ",
                "its own output may say why. ", WhoHasCome()));
  }
  hub_.Lose(number, now, how);
  CheckExchanges(now);
}

void Plane::HandleLeave(int number, Time now) {
  At(number).state = Member::kLeft;
  values_.Forget(number);
  if (state_ == kGathering && number < options_.size)
    Fail(absl::StatusCode::kUnavailable, StrCat(At(number).Text(), " left before all ranks had joined"));
  if (number != 0) hub_.Lose(number, now);  // with rank 0's process goes the plane, which the others notice
  CheckExchanges(now);
}

void Plane::RefusedStranger(const std::string& from) {
  if (strangers_.size() < kMostStrangers) strangers_.push_back(from);
}

void Plane::Tick(Time now) {
  if (now - gave_signs_ >= DurationOf(options_.least_silence_s / kSignsInSilence)) {
    gave_signs_ = now;
    TellAll({});
  }
  if (state_ == kGathering) MissTheSilent(now);
  if (state_ == kGathering && now >= deadline_) MissTheLate(now);
  CheckExchanges(now);
  hub_.Tick(now);
  TellResults();
}

void Plane::TellResults() {
  if (!hub_.closed() || std::exchange(told_results_, true)) return;
  FromHub message;
  *message.mutable_results() = hub_.TakeResults();
  SendTo(0, message);
}

bool Plane::IsSilent(int number, Time now) const {
  return number != 0 && At(number).state == Member::kHere &&
         now - At(number).heard >= DurationOf(options_.least_silence_s);
}

void Plane::MissTheSilent(Time now) {
  for (int r = 1; r < options_.size && state_ == kGathering; ++r) {
    if (IsSilent(r, now)) LoseMember(r, "has sent no heartbeat", now);
  }
}

void Plane::MissTheLate(Time) {
  std::vector<int> missing;
  for (int r = 0; r < options_.size; ++r) {
    if (At(r).state == Member::kAwaited) missing.push_back(r);
  }
  std::string message =
      StrCat(RankList(missing), " of ", options_.size, " did not reach the store at ", options_.place, " (rank 0, ",
             options_.process, ") within ", options_.timeout_s, " s (timeout_s). ", WhoHasCome(), ". ");
  if (!strangers_.empty()) {
    StrAppend(&message,
              "These processes were refused because their job token differs: ", absl::StrJoin(strangers_, ", "), ". ");
  }
  Fail(
      absl::StatusCode::kDeadlineExceeded,
      StrCat(message, "Were they all started with this address? Can their hosts reach ", options_.place, " over TCP?"));
}

// "Joined: ranks 0, 1 on node1, rank 3 on node2"
std::string Plane::WhoHasCome() const {
  std::map<std::string, std::vector<int>> hosts;
  for (int r = 0; r < options_.size; ++r) {
    if (At(r).state == Member::kHere) hosts[At(r).hello.host()].push_back(r);
  }
  std::vector<std::string> parts;
  for (const auto& [host, ranks] : hosts) parts.push_back(StrCat(RankList(ranks), " on ", host));
  return parts.empty() ? "No rank has joined" : StrCat("Joined: ", absl::StrJoin(parts, ", "));
}

void Plane::Fail(absl::StatusCode code, const std::string& message) {
  state_ = kFailed;
  end_.mutable_end()->set_code(static_cast<int>(code));
  end_.mutable_end()->set_message(StrCat("fabric.rendezvous: ", message));
  TellAll(end_);
}

void Plane::TellAll(const FromHub& message) {
  for (size_t m = 0; m < members_.size(); ++m) SendTo(static_cast<int>(m), message);
}

}  // namespace twofold::control
