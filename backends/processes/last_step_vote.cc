#include "backends/processes/last_step_vote.h"

#include <algorithm>
#include <utility>

namespace twofold::processes {
namespace {

control::Relayed MessageTo(int rank, const control::LastStep& what) {
  control::Relayed message;
  message.set_to(rank);
  *message.mutable_last_step() = what;
  return message;
}

}  // namespace

LastStepVote::LastStepVote(int world_size, std::function<void(control::Relayed)> relay)
    : world_size_(world_size), relay_(std::move(relay)), last_step_(std::make_shared<host::LastStep>([relay = relay_] {
        control::LastStep ask;
        ask.set_ask(true);
        relay(MessageTo(0, ask));
      })) {}

void LastStepVote::ToAll(const control::LastStep& what) const {
  for (int rank = 0; rank < world_size_; ++rank) relay_(MessageTo(rank, what));
}

void LastStepVote::Hear(const control::Relayed& message) {
  const control::LastStep& heard = message.last_step();
  control::LastStep says;
  switch (heard.what_case()) {
    case control::LastStep::kAsk:
      if (std::exchange(holds_, true)) return;
      says.set_hold(true);
      return ToAll(says);
    case control::LastStep::kHold: says.set_begun(last_step_->Hold()); return relay_(MessageTo(0, says));
    case control::LastStep::kBegun: {
      begun_[message.from()] = heard.begun();
      if (static_cast<int>(begun_.size()) < world_size_) return;
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      says.set_last(std::max_element(begun_.begin(), begun_.end(), less)->second);
      return ToAll(says);
    }
    case control::LastStep::kLast: return last_step_->Decide(heard.last());
    case control::LastStep::WHAT_NOT_SET: return;
  }
}

}  // namespace twofold::processes
