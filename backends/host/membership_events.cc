#include "backends/host/membership_events.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold::host {

MembershipEvents::MembershipEvents(const spec::Elastic& elastic, int ranks)
    : events_(elastic.events().begin(), elastic.events().end()), most_members_(ranks) {
  for (const spec::MembershipEvent& event : events_) most_members_ += static_cast<int>(event.join());
}

MembershipEvents::Loss MembershipEvents::LossOf(int member) const {
  Loss loss;
  for (const spec::MembershipEvent& event : events_) {
    if (std::find(event.lose().begin(), event.lose().end(), member) == event.lose().end()) continue;
    if (event.has_at_s()) loss.at_s = std::min(loss.at_s, event.at_s());
    if (event.has_step()) loss.steps = std::min(loss.steps, event.step());
  }
  return loss;
}

int MembershipEvents::Arrived(double seconds, const Reached& reached, double delay) const {
  int arrived = 0;
  for (const spec::MembershipEvent& event : events_) {
    double at = event.at_s();
    if (event.has_step()) {
      const auto then = reached.lower_bound(event.step());
      at = then != reached.end() ? then->second : std::numeric_limits<double>::infinity();
    }
    if (at + delay <= seconds) arrived += static_cast<int>(event.join());
  }
  return arrived;
}

std::string LostByEvent(int member) { return StrCat("rank ", member, ": lost, as train.elastic.events says"); }

}  // namespace twofold::host
