#include "sim/twins.h"

#include <utility>

#include "sim/latency.h"

namespace twofold::sim {

Twins::Twins(const Topology& topology, Router& router, std::vector<std::vector<int>> endpoints, int64_t number)
    : topology_(topology), router_(router), endpoints_(std::move(endpoints)) {
  links_->number = number;
  links_->others = endpoints_.size() - 1;
}

bool Twins::Possible(RoutingPolicy policy) {
  return policy == RoutingPolicy::kDeterministic || policy == RoutingPolicy::kSpray ||
         policy == RoutingPolicy::kValiant;
}

bool Twins::Cover(const Schedule& schedule) {
  for (const Phase& phase : schedule.phases) {
    for (const Flow& flow : phase.flows) {
      if (!twins_) return false;
      if (seen_.insert({flow.from, flow.to, flow.rail}).second) twins_ = Check(flow);
    }
  }
  return twins_;
}

bool Twins::Check(const Flow& flow) {
  const auto pair_of = [&flow](const std::vector<int>& endpoints) {
    return Pair{endpoints[static_cast<size_t>(flow.from)], endpoints[static_cast<size_t>(flow.to)], flow.rail};
  };
  const RoutingPolicy policy = router_.options().policy;
  const Pair first = pair_of(endpoints_[0]);
  router_.Choose(first, 0, 0, first_);
  const double latency = RouteLatency(topology_, policy, first, first_);
  for (const Path& path : first_)
    if (!Match(path.links, path.links, 0)) return false;
  for (size_t copy = 1; copy < endpoints_.size(); ++copy) {
    const Pair pair = pair_of(endpoints_[copy]);
    router_.Choose(pair, 0, 0, other_);
    if (other_.size() != first_.size() || RouteLatency(topology_, policy, pair, other_) != latency) return false;
    for (size_t p = 0; p < first_.size(); ++p)
      if (other_[p].share != first_[p].share || !Match(first_[p].links, other_[p].links, copy)) return false;
  }
  return true;
}

bool Twins::Match(const std::vector<int>& first, const std::vector<int>& other, size_t copy) {
  if (first.size() != other.size()) return false;
  for (size_t l = 0; l < first.size(); ++l) {
    const std::pair<size_t, int> own(copy, first[l]);
    const auto [known, fresh] = corresponds_.try_emplace(other[l], own);
    if (!fresh && known->second != own) return false;
    std::vector<int>& others = links_->of[first[l]];
    if (copy == 0) continue;
    if (others.size() < copy) {
      if (!fresh || others.size() + 1 != copy) return false;
      others.push_back(other[l]);
    }
    if (others[copy - 1] != other[l]) return false;
    if (topology_.RatesOf(first[l]).bandwidth != topology_.RatesOf(other[l]).bandwidth) return false;
  }
  return true;
}

}  // namespace twofold::sim
