// The control plane's exchanges of bytes.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_join.h"
#include "backends/control/plane.h"
#include "core/base/duration.h"
#include "core/base/rank_list.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

constexpr size_t kMostExchanges = 1 << 16;  // in progress: more means a process that gives and never takes part

FromHub TakenOf(int generation, uint64_t number) {
  FromHub message;
  message.mutable_taken()->set_generation(generation);
  message.mutable_taken()->set_number(number);
  return message;
}

FromHub FaultOf(int generation, uint64_t number, const absl::Status& why) {
  FromHub message = TakenOf(generation, number);
  message.mutable_taken()->mutable_fault()->set_code(static_cast<int>(why.code()));
  message.mutable_taken()->mutable_fault()->set_message(std::string(why.message()));
  return message;
}

}  // namespace

void Plane::Take(int number, const Give& give, Time now) {
  if (state_ == kGathering || (state_ == kFailed && give.generation() == 0)) return;
  std::vector<int> members(static_cast<size_t>(options_.size));
  std::iota(members.begin(), members.end(), 0);
  if (give.generation() != 0) {
    const Generations* const generations = hub_.generations();
    const bool current = generations != nullptr && generations->number() == give.generation();
    members = current ? generations->members() : std::vector<int>();
  }
  if (std::find(members.begin(), members.end(), number) == members.end() || exchanges_.size() >= kMostExchanges) {
    return SendTo(number, FaultOf(give.generation(), give.number(),
                                  FailedPrecondition("fabric.rendezvous: member ", number, " is not in generation ",
                                                     Reported(give.generation()), ", or that is over")));
  }
  const ExchangeKey key(give.generation(), give.number());
  auto [it, first] = exchanges_.try_emplace(key);
  Exchange& exchange = it->second;
  if (first) {
    exchange = {.deadline = now + DurationOf(options_.timeout_s),
                .broadcast = give.broadcast(),
                .first = number,
                .members = std::move(members)};
  }
  if (exchange.broadcast != give.broadcast()) {
    auto kind = [](bool broadcast) { return broadcast ? "a broadcast" : "an all-gather"; };
    return Fail(absl::StatusCode::kInternal,
                StrCat("exchange ", give.number(), " is ", kind(exchange.broadcast), " for ", At(exchange.first).Text(),
                       " but ", kind(give.broadcast()), " for ", At(number).Text()));
  }
  exchange.given[number] = give.bytes();
  if (exchange.given.size() < exchange.members.size()) return CheckExchanges(now);
  FromHub message = TakenOf(give.generation(), give.number());
  for (const int member : exchange.members) {
    if (member == exchange.members.front() || !exchange.broadcast)
      message.mutable_taken()->add_bytes(exchange.given[member]);
  }
  const std::vector<int> takers = exchange.members;
  exchanges_.erase(it);
  for (const int member : takers) SendTo(member, message);
}

// Fails exchanges that wait for a member that is gone or silent, or have waited too long.
void Plane::CheckExchanges(Time now) {
  for (auto it = exchanges_.begin(); it != exchanges_.end();) {
    const absl::Status why = Trouble(it->first, it->second, now);
    if (why.ok()) {
      ++it;
      continue;
    }
    const auto [generation, number] = it->first;
    const std::vector<int> members = it->second.members;
    it = exchanges_.erase(it);
    const bool elastic = hub_.generations() != nullptr;  // then those who met are its first generation
    if (generation == 0 && !elastic) return exchanges_.clear(), Fail(why.code(), std::string(why.message()));
    const absl::Status named(why.code(), StrCat("fabric.rendezvous: generation ", Reported(std::max(generation, 1)),
                                                ": ", std::string(why.message())));
    for (const int member : members) SendTo(member, FaultOf(generation, number, named));
  }
}

absl::Status Plane::Trouble(const ExchangeKey& key, const Exchange& exchange, Time now) {
  const auto& [generation, number] = key;
  const Generations* const generations = hub_.generations();
  if (generations != nullptr ? generations->number() != std::max(generation, 1) : generation != 0)
    return Unavailable("it ended while members waited in exchange ", number);
  std::vector<int> missing;
  for (const int m : exchange.members) {
    if (exchange.given.contains(m)) continue;
    missing.push_back(m);
    const Member& member = At(m);
    if (member.state == Member::kHere && !IsSilent(m, now)) continue;
    const std::string what =
        member.state != Member::kLeft
            ? StrCat("lost ", member.Text(), ": it has ended or is stopped, or its host is unreachable; this happened")
            : StrCat(member.Text(), " left");
    return Unavailable(what, " while others waited for it in exchange ", number, " of the bootstrap");
  }
  if (now < exchange.deadline) return absl::OkStatus();
  std::vector<std::string> who;
  for (size_t i = 0; i < std::min<size_t>(missing.size(), 4); ++i) who.push_back(At(missing[i]).Text());
  return absl::DeadlineExceededError(StrCat(
      RankList(missing), " did not take part in exchange ", number, " of the bootstrap within ", options_.timeout_s,
      " s (timeout_s): ", absl::StrJoin(who, ", "), missing.size() > who.size() ? ", ..." : ""));
}

}  // namespace twofold::control
