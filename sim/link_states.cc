#include "sim/link_states.h"

#include <algorithm>

#include "core/base/check.h"

namespace twofold::sim {

void LinkStates::Start(std::vector<double> sizes) {
  TWOFOLD_CHECK_LE(sizes.size(), kMostSizes);
  for (const int link : crossed_) of_[static_cast<size_t>(link)] = 0;
  crossed_.clear(), known_.clear(), empty_.assign(bandwidths_.size(), 0);
  states_.assign(1, State{.bandwidth = 0});
  sizes_ = std::move(sizes), last_ = 0;
}

int LinkStates::Find(double bandwidth, const Counts& flows) {
  const auto [known, fresh] = known_.try_emplace({bandwidth, flows}, static_cast<int>(states_.size()));
  if (fresh) states_.push_back({.bandwidth = bandwidth, .flows = flows});
  return known->second;
}

int LinkStates::Empty(int link) {
  int& rate = rates_[static_cast<size_t>(link)];
  if (rate == 0) {
    const double bandwidth = topology_.RatesOf(link).bandwidth.value();
    const auto known = std::find(bandwidths_.begin(), bandwidths_.end(), bandwidth);
    rate = static_cast<int>(known - bandwidths_.begin()) + 1;
    if (known == bandwidths_.end()) bandwidths_.push_back(bandwidth), empty_.push_back(0);
  }
  const auto at = static_cast<size_t>(rate) - 1;
  if (empty_[at] == 0) empty_[at] = Find(bandwidths_[at], {});
  return empty_[at];
}

int LinkStates::After(int state, size_t size) {
  State& before = states_[static_cast<size_t>(state)];
  if (const int known = before.next[size]; known != 0) return known;
  Counts flows = before.flows;
  ++flows[size];
  const int next = Find(before.bandwidth, flows);  // may move `before`
  return states_[static_cast<size_t>(state)].next[size] = next;
}

void LinkStates::Cross(std::span<const int> links, double bytes) {
  if (sizes_[last_] != bytes) {
    last_ = static_cast<size_t>(std::find(sizes_.begin(), sizes_.end(), bytes) - sizes_.begin());
    TWOFOLD_CHECK_LT(last_, sizes_.size());
  }
  for (const int link : links) {
    int& state = of_[static_cast<size_t>(link)];
    if (state == 0) {
      crossed_.push_back(link);
      state = Empty(link);
    } else {
      --states_[static_cast<size_t>(state)].links;
    }
    state = After(state, last_);
    ++states_[static_cast<size_t>(state)].links;
  }
}

std::vector<LinkStates::Load> LinkStates::Loads() const {
  std::vector<Load> loads;
  for (const State& state : states_)
    if (state.links > 0) loads.push_back({state.bandwidth, state.flows});
  return loads;
}

LinkUse UseOf(const LinkStates::Load& load, std::span<const double> sizes) {
  LinkUse use{.bandwidth = load.bandwidth};
  for (size_t s = 0; s < sizes.size(); ++s) {
    if (load.flows[s] == 0) continue;
    use.most = use.count == 0 ? sizes[s] : std::max(use.most, sizes[s]);
    use.least = use.count == 0 ? sizes[s] : std::min(use.least, sizes[s]);
    use.count += load.flows[s], use.bytes += load.flows[s] * sizes[s];
  }
  return use;
}

}  // namespace twofold::sim
