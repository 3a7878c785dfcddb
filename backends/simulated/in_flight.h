// The unfinished calls of a simulated rank, for messages that explain why it waits.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // "rank 1": the ranks that have yet to come; empty: none. Called while the call is not done.
  std::function<std::string()> missing;
  // "all_reduce(sum) of f32[10] (40 bytes), collective 1 of group world (missing: rank 1)"
  std::string ToString() const;
};
using InFlightPtr = std::shared_ptr<const InFlight>;

// One per rank. A group's calls are done in the order issued, so the first unfinished one blocks the others.
class CallsInFlight {
 public:
  void Add(InFlightPtr call);
  void RemoveGroup(const std::string* label);
  // A hash of what is unfinished: groups, kinds and sizes, in order.
  uint64_t Fingerprint() const;
  // What a rank that waits for `call` is blocked by: the first unfinished call of its group, "..., before <call>".
  // Another group's call may be the reason why that one has not begun, so adds "..., with <the first of each other
  // group> in flight".
  std::string WaitingFor(const InFlight& call) const;
  // What blocks a rank that waits for a group's stream.
  std::string FirstOf(const std::string* label) const;
  // The first unfinished call of each group except `but`, joined by "and"; empty: none.
  std::string FirstOfEach(const std::string* but = nullptr) const;

 private:
  std::vector<InFlightPtr> calls_;  // finished calls are removed from time to time
  size_t sweep_at_ = 64;
};

}  // namespace twofold
