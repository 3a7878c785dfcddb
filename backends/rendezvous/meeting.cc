#include "backends/rendezvous/meeting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/duration.h"
#include "core/base/rank_list.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::rendezvous {
namespace {

constexpr size_t kMostStrangers = 4;  // number of addresses that are remembered

Meeting::Time After(Meeting::Time now, double seconds) { return now + DurationOf(seconds); }

}  // namespace

std::string ProcessText(const Hello& hello) { return StrCat("process ", hello.process(), " on ", hello.host()); }

std::string Meeting::Member::Text() const { return StrCat("rank ", hello.rank(), " (", ProcessText(hello), ")"); }

Meeting::Meeting(Options options, Send send, Time now)
    : options_(std::move(options)),
      send_(std::move(send)),
      deadline_(After(now, options_.timeout_s)),
      members_(static_cast<size_t>(options_.size)) {}

absl::Status Meeting::Hear(Connection from, const FromMember& message, Time now) {
  if (message.has_hello()) return Greet(from, message.hello(), now);
  const auto known = ranks_.find(from);
  if (known == ranks_.end()) return InvalidArgument("fabric.rendezvous: a process must introduce itself first");
  if (message.has_give() && state_ == kMet) Take(known->second, message.give(), now);
  if (message.has_leave()) {
    members_[static_cast<size_t>(known->second)].state = Member::kLeft;
    if (state_ == kGathering) {
      Fail(absl::StatusCode::kUnavailable,
           StrCat(members_[static_cast<size_t>(known->second)].Text(), " left before all ranks had joined"));
    }
    CheckExchanges(now);
  }
  return absl::OkStatus();
}

// ---- Gathering ----

absl::Status Meeting::Greet(Connection from, const Hello& hello, Time now) {
  if (state_ == kFailed) return send_(from, end_), absl::OkStatus();
  const std::string wrong = Contradiction(from, hello);
  if (!wrong.empty() && state_ == kMet) return FailedPrecondition("fabric.rendezvous: ", wrong);
  if (!wrong.empty()) {
    Fail(absl::StatusCode::kFailedPrecondition, wrong);
    return send_(from, end_), absl::OkStatus();
  }
  Member& member = members_[static_cast<size_t>(hello.rank())];
  member.state = Member::kHere;
  member.connection = from;
  member.hello = hello;
  ranks_[from] = hello.rank();
  deadline_ = std::min(deadline_, After(now, hello.patience_s()));
  FromStore message;
  message.mutable_welcome()->set_store(options_.process);
  send_(from, message);
  if (ranks_.size() == members_.size()) Seat();
  return absl::OkStatus();
}

// Why this process cannot be admitted; empty if it can.
std::string Meeting::Contradiction(Connection from, const Hello& hello) const {
  const std::string who = Member{.hello = hello}.Text();
  if (const auto known = ranks_.find(from); known != ranks_.end()) {
    return StrCat(members_[static_cast<size_t>(known->second)].Text(),
                  " introduced itself a second time on one connection, now as ", who,
                  "; start the same build of the program everywhere");
  }
  if (std::isnan(hello.patience_s())) {
    return StrCat(who, " would wait ", hello.patience_s(),
                  " s for the others; fabric.rendezvous.timeout_s must be a number of seconds");
  }
  if (hello.version() != kVersion) {
    return StrCat(who, " uses version ", hello.version(), " of the rendezvous protocol, but the store (",
                  options_.process, ") uses version ", kVersion, "; start the same build of the program everywhere");
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
  const Member& before = members_[static_cast<size_t>(hello.rank())];
  if (before.state == Member::kAwaited) return "";
  return StrCat("rank ", hello.rank(), " joined twice: ", ProcessText(before.hello), ", then ", ProcessText(hello),
                "; give each process its own RANK, and end processes left over from earlier runs");
}

// All have come: tells each process its place among those of its host.
void Meeting::Seat() {
  state_ = kMet;
  std::map<std::string, std::vector<const Member*>> machines;
  for (const Member& member : members_) machines[member.hello.machine()].push_back(&member);
  for (const auto& [machine, here] : machines) {
    for (size_t i = 0; i < here.size(); ++i) {
      FromStore message;
      message.mutable_seat()->set_local_rank(static_cast<int>(i));
      message.mutable_seat()->set_local_size(static_cast<int>(here.size()));
      send_(here[i]->connection, message);
    }
  }
}

void Meeting::Lose(Connection from) {
  const auto known = ranks_.find(from);
  if (known == ranks_.end()) return;
  Member& member = members_[static_cast<size_t>(known->second)];
  if (member.state != Member::kHere) return;
  member.state = Member::kLost;
  if (state_ == kGathering) {
    Fail(absl::StatusCode::kUnavailable,
         StrCat("lost ", member.Text(),
                " before all ranks had joined: it has ended or is stopped, or its host is unreachable; ",
                "its own output may say why. ", WhoHasCome()));
  }
  CheckExchanges({});
}

void Meeting::RefusedStranger(const std::string& from) {
  if (strangers_.size() < kMostStrangers) strangers_.push_back(from);
}

void Meeting::Tick(Time now) {
  if (state_ == kGathering && now >= deadline_) {
    std::vector<int> missing;
    for (size_t r = 0; r < members_.size(); ++r) {
      if (members_[r].state == Member::kAwaited) missing.push_back(static_cast<int>(r));
    }
    std::string message =
        StrCat(RankList(missing), " of ", options_.size, " did not reach the store at ", options_.place, " (rank 0, ",
               options_.process, ") within ", options_.timeout_s, " s (timeout_s). ", WhoHasCome(), ". ");
    if (!strangers_.empty()) {
      StrAppend(&message,
                "These processes were refused because their job token differs: ", absl::StrJoin(strangers_, ", "),
                ". ");
    }
    Fail(absl::StatusCode::kDeadlineExceeded,
         StrCat(message, "Were they all started with this address? Can their hosts reach ", options_.place,
                " over TCP?"));
  }
  if (state_ == kMet) CheckExchanges(now);
}

// "Joined: ranks 0, 1 on node1, rank 3 on node2"
std::string Meeting::WhoHasCome() const {
  std::map<std::string, std::vector<int>> hosts;
  for (const Member& member : members_) {
    if (member.state == Member::kHere) hosts[member.hello.host()].push_back(member.hello.rank());
  }
  std::vector<std::string> parts;
  for (const auto& [host, ranks] : hosts) parts.push_back(StrCat(RankList(ranks), " on ", host));
  return parts.empty() ? "No rank has joined" : StrCat("Joined: ", absl::StrJoin(parts, ", "));
}

// ---- Exchanging ----

void Meeting::Take(int rank, const Give& give, Time now) {
  auto [it, first] = exchanges_.try_emplace(give.number());
  Exchange& exchange = it->second;
  if (first) {
    exchange.deadline = After(now, options_.timeout_s);
    exchange.broadcast = give.broadcast();
    exchange.first = rank;
  }
  if (exchange.broadcast != give.broadcast()) {
    auto kind = [](bool broadcast) { return broadcast ? "a broadcast" : "an all-gather"; };
    return Fail(absl::StatusCode::kInternal,
                StrCat("exchange ", give.number(), " is ", kind(exchange.broadcast), " for ",
                       members_[static_cast<size_t>(exchange.first)].Text(), " but ", kind(give.broadcast()), " for ",
                       members_[static_cast<size_t>(rank)].Text()));
  }
  exchange.given[rank] = give.bytes();
  if (exchange.given.size() < members_.size()) return CheckExchanges(now);
  FromStore message;
  Taken& taken = *message.mutable_taken();
  taken.set_number(give.number());
  for (const auto& [giver, bytes] : exchange.given) {
    if (giver == 0 || !exchange.broadcast) taken.add_bytes(bytes);
  }
  exchanges_.erase(it);
  Tell(message);
}

// Fails exchanges that wait for a rank that is gone, or have waited too long.
void Meeting::CheckExchanges(Time now) {
  if (state_ != kMet) return;
  for (const auto& [number, exchange] : exchanges_) {
    std::vector<int> missing;
    for (size_t r = 0; r < members_.size(); ++r) {
      if (exchange.given.count(static_cast<int>(r)) != 0) continue;
      missing.push_back(static_cast<int>(r));
      const Member& member = members_[r];
      if (member.state == Member::kHere) continue;
      const std::string what = member.state == Member::kLost
                                   ? StrCat("lost ", member.Text(),
                                            ": it has ended or is stopped, or its host is unreachable; this happened")
                                   : StrCat(member.Text(), " left");
      return Fail(absl::StatusCode::kUnavailable,
                  StrCat(what, " while others waited for it in exchange ", number, " of the bootstrap"));
    }
    if (now < exchange.deadline) continue;
    std::vector<std::string> who;
    for (size_t i = 0; i < std::min<size_t>(missing.size(), 4); ++i)
      who.push_back(members_[static_cast<size_t>(missing[i])].Text());
    return Fail(absl::StatusCode::kDeadlineExceeded,
                StrCat(RankList(missing), " did not take part in exchange ", number, " of the bootstrap within ",
                       options_.timeout_s, " s (timeout_s): ", absl::StrJoin(who, ", "),
                       missing.size() > who.size() ? ", ..." : ""));
  }
}

void Meeting::Fail(absl::StatusCode code, const std::string& message) {
  state_ = kFailed;
  end_.mutable_end()->set_code(static_cast<int>(code));
  end_.mutable_end()->set_message(StrCat("fabric.rendezvous: ", message));
  Tell(end_);
}

void Meeting::Tell(const FromStore& message) {
  for (const Member& member : members_) {
    if (member.state == Member::kHere) send_(member.connection, message);
  }
}

}  // namespace twofold::rendezvous
