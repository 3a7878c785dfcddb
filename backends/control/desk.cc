#include "backends/control/desk.h"

#include <utility>

namespace twofold::control {
namespace {

constexpr std::chrono::milliseconds kLook(20);  // at the clock
constexpr std::chrono::seconds kFarewellTime(5);

class LinkHere final : public Link {
 public:
  LinkHere(std::shared_ptr<Desk> desk, Events events)
      : desk_(std::move(desk)), events_(std::move(events)), connection_(desk_->Open(events_)) {}
  ~LinkHere() override { desk_->Close(connection_); }

  void Send(ToHub message) override {
    if (const absl::Status refused = desk_->Hear(connection_, message); !refused.ok()) events_.ended(refused);
  }
  void Leave() override {
    ToHub message;
    message.mutable_leave();
    Send(std::move(message));
    desk_->Close(connection_);
  }

 private:
  const std::shared_ptr<Desk> desk_;
  const Events events_;
  const Plane::Connection connection_;
};

}  // namespace

std::unique_ptr<Link> ConnectHere(std::shared_ptr<Desk> desk, Link::Events events) {
  return std::make_unique<LinkHere>(std::move(desk), std::move(events));
}

Desk::Desk(Plane::Options options)
    : clock_(std::chrono::steady_clock::now()),
      plane_(
          std::move(options),
          [this](Plane::Connection to, const FromHub& message) {
            if (const auto visitor = visitors_.find(to); visitor != visitors_.end()) visitor->second.heard(message);
          },
          [this](Plane::Connection to, const absl::Status& why) {
            if (const auto visitor = visitors_.find(to); visitor != visitors_.end()) visitor->second.ended(why);
          },
          clock_.now()),
      loop_(kLook, [this] { Tick(); }) {}

Plane::Connection Desk::Open(Link::Events visitor) {
  std::lock_guard lock(mutex_);
  visitors_[++last_] = std::move(visitor);
  return last_;
}

absl::Status Desk::Hear(Plane::Connection from, const ToHub& message) {
  std::lock_guard lock(mutex_);
  return visitors_.contains(from) ? plane_.Hear(from, message, clock_.now()) : absl::OkStatus();
}

void Desk::Close(Plane::Connection connection) {
  std::lock_guard lock(mutex_);
  if (visitors_.erase(connection) == 0) return;
  plane_.Lose(connection, clock_.now());
  changed_.notify_all();
}

void Desk::RefusedStranger(const std::string& from) {
  std::lock_guard lock(mutex_);
  plane_.RefusedStranger(from);
}

void Desk::SayFarewell() {
  std::unique_lock lock(mutex_);
  FromHub farewell;
  farewell.mutable_farewell();
  for (const auto& [connection, visitor] : visitors_) visitor.heard(farewell);
  changed_.wait_for(lock, kFarewellTime, [this] { return visitors_.empty(); });
}

void Desk::Tick() {
  std::lock_guard lock(mutex_);
  clock_.Look(std::chrono::steady_clock::now());
  plane_.Tick(clock_.now());
}

}  // namespace twofold::control
