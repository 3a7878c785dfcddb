// The losses and arrivals of members that a spec makes happen (train.elastic.events).
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold::host {

class MembershipEvents {
 public:
  MembershipEvents() = default;
  // `ranks`: the members of generation 0.
  MembershipEvents(const spec::Elastic& elastic, int ranks);

  // When a member is lost: at its first call after `at_s` seconds of the run, or when it begins the step after `steps`
  // steps. Never, if there is no such event.
  struct Loss {
    double at_s = std::numeric_limits<double>::infinity();
    int64_t steps = std::numeric_limits<int64_t>::max();
  };
  Loss LossOf(int member) const;
  // When the run had done so many steps, for those that it was asked about.
  using Reached = std::map<int64_t, double>;
  // Newcomers that have come `seconds` after the run began. They are ready `delay` seconds after their event.
  int Arrived(double seconds, const Reached& reached, double delay = 0) const;
  // Members that there can ever be, newcomers included.
  int most_members() const { return most_members_; }

 private:
  std::vector<spec::MembershipEvent> events_;
  int most_members_ = 0;
};

// The failure of a member that an event has ended: "rank 3: lost, as train.elastic.events says".
std::string LostByEvent(int member);

}  // namespace twofold::host
