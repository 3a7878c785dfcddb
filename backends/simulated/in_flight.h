// What a simulated rank has issued and what is not done yet: for those who must be told why it waits.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/host/call.h"
#include "sim/timeline.h"

namespace twofold {

struct InFlight {
  std::shared_ptr<const host::Call> call;
  sim::TimePointPtr done;
  std::function<std::string()> missing;  // "rank 1": who has yet to come; empty: nobody. Asked while it is not done
  // "all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world (missing: rank 1)"
  std::string ToString() const;
};
using InFlightPtr = std::shared_ptr<const InFlight>;

// One a rank. A group's calls are done in the order issued, so that the first which is not done holds up the others.
class CallsInFlight {
 public:
  void Add(InFlightPtr call);
  void RemoveGroup(const std::string* label);
  // What a rank that waits for `call` waits for: the first of its group, "..., before <call>"; and, since the call may not
  // have begun for the sake of another group's, "..., with <the first of each other group> in flight".
  std::string WaitingFor(const InFlight& call) const;
  // What a rank waits for that waits for a group's stream to be done.
  std::string FirstOf(const std::string* label) const;
  // The first of each group but one, joined by "and"; empty: none.
  std::string FirstOfEach(const std::string* but = nullptr) const;

 private:
  std::vector<InFlightPtr> calls_;  // those that are done are swept out now and then
  size_t sweep_at_ = 64;
};

}  // namespace twofold
