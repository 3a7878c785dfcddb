// A process's exchanges and values.
#include <iterator>
#include <utility>

#include "backends/control/client.h"
#include "core/base/duration.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace {

using Clock = std::chrono::steady_clock;

absl::Status StatusOf(const Fault& fault) {
  return absl::Status(static_cast<absl::StatusCode>(fault.code()), fault.message());
}

}  // namespace

// Why nothing more will come.
absl::Status Client::WhyEnded() const {
  if (Has(FromHub::kEnd)) return StatusOf(replies_.at(FromHub::kEnd).end());
  if (link_ended_ && absl::IsAborted(*link_ended_)) return *link_ended_;
  if (Has(FromHub::kFarewell)) {
    return Unavailable("fabric.rendezvous: rank 0 (", hub_, ") has closed the store while ", Me(), " still needed it");
  }
  return Unavailable("fabric.rendezvous: lost rank 0 (", hub_, "), which served the store at ", Place(),
                     ": it has ended or is stopped, or its host is unreachable; its own output may say why");
}

absl::StatusOr<FromHub> Client::Ask(ToHub message, FromHub::WhatCase reply, Time deadline, const std::string& late) {
  link_->Send(std::move(message));
  std::unique_lock lock(mutex_);
  const bool in_time = Await(lock, deadline, [&] { return Has(reply) || torn_ == generation_; });
  const auto found = replies_.extract(reply);
  if (found) {
    const FromHub& told = found.mapped();
    const Fault& fault = told.has_taken() ? told.taken().fault() : told.value().fault();
    if (fault.code() != 0) return StatusOf(fault);
  }
  // Though the answer may be there: the caller would go on in vain.
  if (torn_ == generation_) return Unavailable("fabric.rendezvous: a member was lost from this generation");
  if (found) return std::move(found.mapped());
  return in_time ? WhyEnded() : absl::DeadlineExceededError(StrCat("fabric.rendezvous: ", late));
}

absl::StatusOr<FromHub> Client::Exchange(std::string bytes, bool broadcast) {
  ToHub message;
  {
    std::lock_guard lock(mutex_);
    message.mutable_give()->set_generation(exchange_generation_);
    message.mutable_give()->set_number(++exchanges_);
    replies_.erase(FromHub::kTaken);
  }
  message.mutable_give()->set_broadcast(broadcast);
  message.mutable_give()->set_bytes(std::move(bytes));
  return Ask(std::move(message), FromHub::kTaken, Clock::now() + DurationOf(options_.timeout_s) + kLastWord,
             StrCat(Me(), " heard nothing from the store at ", Place(), " (rank 0, ", hub_, ") in exchange ",
                    exchanges_, " of the bootstrap within ", options_.timeout_s, " s (timeout_s)"));
}

absl::StatusOr<std::vector<std::string>> Client::AllGather(std::string bytes) {
  absl::StatusOr<FromHub> all = Exchange(std::move(bytes), false);
  if (!all.ok()) return all.status();
  auto& given = *all->mutable_taken()->mutable_bytes();
  return std::vector<std::string>(std::make_move_iterator(given.begin()), std::make_move_iterator(given.end()));
}

absl::StatusOr<std::string> Client::Broadcast(std::string bytes) {
  absl::StatusOr<FromHub> first = Exchange(std::move(bytes), true);
  if (!first.ok()) return first.status();
  return std::move(*first->mutable_taken()->mutable_bytes(0));
}

absl::StatusOr<FromHub> Client::Request(ToHub message, double timeout_s) {
  {
    std::lock_guard lock(mutex_);
    ++requests_;
    replies_.erase(FromHub::kValue);
  }
  if (message.has_set())
    message.mutable_set()->set_number(requests_);
  else
    message.mutable_get()->set_number(requests_);
  return Ask(std::move(message), FromHub::kValue, Clock::now() + DurationOf(timeout_s),
             StrCat("nobody has set the key within ", timeout_s, " s"));
}

absl::Status Client::Set(const std::string& key, std::string bytes) {
  ToHub message;
  message.mutable_set()->set_key(key);
  message.mutable_set()->set_bytes(std::move(bytes));
  return Request(std::move(message), options_.timeout_s).status();
}

absl::StatusOr<std::string> Client::Get(const std::string& key) {
  ToHub message;
  message.mutable_get()->set_key(key);
  absl::StatusOr<FromHub> answer = Request(std::move(message), options_.timeout_s);
  if (!answer.ok()) return answer.status();
  if (!answer->value().found()) return NotFound("fabric.rendezvous: no process has set the key \"", key, "\"");
  return std::move(*answer->mutable_value()->mutable_bytes());
}

absl::StatusOr<std::string> Client::Wait(const std::string& key, double timeout_s) {
  ToHub message;
  message.mutable_get()->set_key(key);
  message.mutable_get()->set_wait(true);
  absl::StatusOr<FromHub> answer = Request(std::move(message), timeout_s);
  if (!answer.ok()) return answer.status();
  return std::move(*answer->mutable_value()->mutable_bytes());
}

}  // namespace twofold::control
