#include "core/comm/work.h"

#include "core/base/check.h"

namespace twofold {

size_t Work::WaitAny(std::span<const Work> works) {
  TWOFOLD_CHECK(!works.empty(), "WaitAny needs something to wait for");
  std::vector<State*> states;
  states.reserve(works.size());
  for (size_t i = 0; i < works.size(); ++i) {
    if (works[i].state_ == nullptr) return i;
    states.push_back(works[i].state_.get());
  }
  return states[0]->WaitAny(states);
}

}  // namespace twofold
