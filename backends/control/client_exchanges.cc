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

absl::Status Torn() { return Unavailable("fabric.rendezvous: a member was lost from this generation"); }

}  // namespace

// Why nothing more will come.
absl::Status Client::WhyEnded() const {
  if (end_) return StatusOf(*end_);
  const std::string hub = welcome_ ? welcome_->hub() : std::string("unknown");
  if (link_ended_ && absl::IsAborted(*link_ended_)) return *link_ended_;
  if (farewell_) {
    return Unavailable("fabric.rendezvous: rank 0 (", hub, ") has closed the store while ", Me(), " still needed it");
  }
  return Unavailable("fabric.rendezvous: lost rank 0 (", hub, "), which served the store at ", Place(),
                     ": it has ended or is stopped, or its host is unreachable; its own output may say why");
}

absl::StatusOr<Taken> Client::Exchange(std::string bytes, bool broadcast) {
  std::unique_lock lock(mutex_);
  ToHub message;
  message.mutable_give()->set_generation(exchange_generation_);
  message.mutable_give()->set_number(++exchanges_);
  message.mutable_give()->set_broadcast(broadcast);
  message.mutable_give()->set_bytes(std::move(bytes));
  taken_.reset();
  lock.unlock();
  link_->Send(std::move(message));
  waits_ = true;
  lock.lock();
  const bool in_time = Await(lock, Clock::now() + DurationOf(options_.timeout_s) + kLastWord,
                             [this] { return taken_.has_value() || torn_ == generation_; });
  waits_ = false;
  if (taken_ && taken_->has_fault()) return StatusOf(taken_->fault());
  if (torn_ == generation_) return Torn();  // though all gave before: the caller would go on in vain
  if (taken_) return *std::exchange(taken_, std::nullopt);
  if (in_time) return WhyEnded();
  return absl::DeadlineExceededError(StrCat("fabric.rendezvous: ", Me(), " heard nothing from the store at ", Place(),
                                            " (rank 0, ", welcome_->hub(), ") in exchange ", exchanges_,
                                            " of the bootstrap within ", options_.timeout_s, " s (timeout_s)"));
}

absl::StatusOr<std::vector<std::string>> Client::AllGather(std::string bytes) {
  absl::StatusOr<Taken> taken = Exchange(std::move(bytes), false);
  if (!taken.ok()) return taken.status();
  return std::vector<std::string>(std::make_move_iterator(taken->mutable_bytes()->begin()),
                                  std::make_move_iterator(taken->mutable_bytes()->end()));
}

absl::StatusOr<std::string> Client::Broadcast(std::string bytes) {
  absl::StatusOr<Taken> taken = Exchange(std::move(bytes), true);
  if (!taken.ok()) return taken.status();
  return std::move(*taken->mutable_bytes(0));
}

absl::StatusOr<Value> Client::Request(ToHub message, uint64_t number, double timeout_s) {
  link_->Send(std::move(message));
  waits_ = true;
  std::unique_lock lock(mutex_);
  const bool in_time = Await(lock, Clock::now() + DurationOf(timeout_s),
                             [this, number] { return values_.contains(number) || torn_ == generation_; });
  waits_ = false;
  if (auto found = values_.extract(number)) {
    if (found.mapped().has_fault()) return StatusOf(found.mapped().fault());
    return std::move(found.mapped());
  }
  if (torn_ == generation_) return Torn();
  if (in_time) return WhyEnded();
  return absl::DeadlineExceededError(StrCat("fabric.rendezvous: nobody has set the key within ", timeout_s, " s"));
}

absl::Status Client::Set(const std::string& key, std::string bytes) {
  ToHub message;
  message.mutable_set()->set_number(++requests_);
  message.mutable_set()->set_key(key);
  message.mutable_set()->set_bytes(std::move(bytes));
  return Request(std::move(message), requests_, options_.timeout_s).status();
}

absl::StatusOr<std::string> Client::Get(const std::string& key) {
  ToHub message;
  message.mutable_get()->set_number(++requests_);
  message.mutable_get()->set_key(key);
  absl::StatusOr<Value> value = Request(std::move(message), requests_, options_.timeout_s);
  if (!value.ok()) return value.status();
  if (!value->found()) return NotFound("fabric.rendezvous: no process has set the key \"", key, "\"");
  return std::move(*value->mutable_bytes());
}

absl::StatusOr<std::string> Client::Wait(const std::string& key, double timeout_s) {
  ToHub message;
  message.mutable_get()->set_number(++requests_);
  message.mutable_get()->set_key(key);
  message.mutable_get()->set_wait(true);
  absl::StatusOr<Value> value = Request(std::move(message), requests_, timeout_s);
  if (!value.ok()) return value.status();
  return std::move(*value->mutable_bytes());
}

}  // namespace twofold::control
