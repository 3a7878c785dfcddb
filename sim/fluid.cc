#include "sim/fluid.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

constexpr double kTogether = 1e-12;

std::vector<double> Bandwidths(const Topology& topology) {
  std::vector<double> bandwidths;
  bandwidths.reserve(topology.links().size());
  for (const Link& link : topology.links()) bandwidths.push_back(link.bandwidth.value());
  return bandwidths;
}

}  // namespace

Fluid::Fluid(const Topology& topology) : Fluid(Bandwidths(topology)) {}

Fluid::Fluid(std::vector<double> bandwidths)
    : bandwidths_(std::move(bandwidths)), real_links_(bandwidths_.size()), local_(real_links_, -1) {}

void Fluid::Clear() {
  bandwidths_.resize(real_links_);
  local_.resize(real_links_);
  links_.clear();
  first_.assign(1, 0);
  left_.clear();
}

int Fluid::Add(std::span<const int> links, double bytes, double rate) {
  TWOFOLD_CHECK_GE(bytes, 0);
  links_.insert(links_.end(), links.begin(), links.end());
  if (rate < kNoLimit) {
    links_.push_back(static_cast<int>(bandwidths_.size()));
    bandwidths_.push_back(rate);
    local_.push_back(-1);
  }
  const bool at_once = links_.size() == first_.back();
  first_.push_back(links_.size());
  left_.push_back(at_once ? 0 : bytes);
  return flows() - 1;
}

std::span<const int> Fluid::LinksOf(int flow) const {
  const auto f = static_cast<size_t>(flow);
  return {links_.data() + first_[f], first_[f + 1] - first_[f]};
}

// Union-find over links; then flows in the order of their sets (a counting sort, so that results do not hang on addresses).
void Fluid::FindSets() {
  std::vector<int>& parent = local_;  // by link, while sets are sought
  auto root = [&parent](int link) {
    auto at = [&parent](int l) -> int& { return parent[static_cast<size_t>(l)]; };
    while (at(link) != link) link = at(link) = at(at(link));
    return link;
  };
  for (int link : links_) parent[static_cast<size_t>(link)] = link;
  for (int f = 0; f < flows(); ++f) {
    if (left_[static_cast<size_t>(f)] == 0) continue;
    const std::span<const int> links = LinksOf(f);
    const int first = root(links[0]);
    for (int link : links.subspan(1)) parent[static_cast<size_t>(root(link))] = first;
  }
  std::vector<int> number(bandwidths_.size(), -1);  // by root
  sets_.assign(left_.size(), -1);
  set_ends_.clear();
  for (int f = 0; f < flows(); ++f) {
    if (left_[static_cast<size_t>(f)] == 0) continue;
    int& n = number[static_cast<size_t>(root(LinksOf(f)[0]))];
    if (n < 0) n = static_cast<int>(set_ends_.size()), set_ends_.push_back(0);
    sets_[static_cast<size_t>(f)] = n;
    ++set_ends_[static_cast<size_t>(n)];
  }
  std::exclusive_scan(set_ends_.begin(), set_ends_.end(), set_ends_.begin(), size_t{0});
  order_.assign(left_.size(), 0);
  for (int f = 0; f < flows(); ++f) {
    const int set = sets_[static_cast<size_t>(f)];
    if (set >= 0) order_[set_ends_[static_cast<size_t>(set)]++] = f;
  }
  for (int link : links_) local_[static_cast<size_t>(link)] = -1;
}

const std::vector<double>& Fluid::Solve() {
  ends_.assign(left_.size(), 0);
  rates_.assign(left_.size(), 0);
  FindSets();
  size_t begin = 0;
  for (size_t end : set_ends_) {
    SettleSet(std::span<const int>(order_).subspan(begin, end - begin));
    begin = end;
  }
  return ends_;
}

// From end to end. What is left after each is in front.
void Fluid::SettleSet(std::span<const int> set) {
  std::vector<int> going(set.begin(), set.end());
  double time = 0;
  while (!going.empty()) {
    SetRates(going);
    double next = kNoLimit;
    for (int f : going) next = std::min(next, left_[static_cast<size_t>(f)] / rates_[static_cast<size_t>(f)]);
    const double together = kTogether * (time + next);
    time += next;
    std::erase_if(going, [&](int flow) {
      const auto f = static_cast<size_t>(flow);
      const bool ends = left_[f] <= rates_[f] * (next + together);
      if (ends) ends_[f] = time;
      left_[f] = ends ? 0 : left_[f] - rates_[f] * next;
      return ends;
    });
  }
}

// Filling: of all links in use, the one that leaves its flows the least settles them. A link's share never falls as others
// are settled, so an outdated one in the queue is too small and is put back.
void Fluid::SetRates(std::span<const int> set) {
  if (set.size() == 1) {
    double& rate = rates_[static_cast<size_t>(set[0])] = kNoLimit;
    for (int link : LinksOf(set[0])) rate = std::min(rate, bandwidths_[static_cast<size_t>(link)]);
    return;
  }
  used_.clear(), counts_.clear(), free_.clear();
  for (int f : set) {
    rates_[static_cast<size_t>(f)] = 0;
    for (int link : LinksOf(f)) {
      int& n = local_[static_cast<size_t>(link)];
      if (n < 0) {
        n = static_cast<int>(used_.size());
        used_.push_back(link), counts_.push_back(0), free_.push_back(bandwidths_[static_cast<size_t>(link)]);
      }
      ++counts_[static_cast<size_t>(n)];
    }
  }
  carried_first_.resize(used_.size() + 1);
  carried_first_[0] = 0;
  std::inclusive_scan(counts_.begin(), counts_.end(), carried_first_.begin() + 1, std::plus<>(), size_t{0});
  carried_.resize(carried_first_.back());
  for (int f : set) {
    for (int link : LinksOf(f)) carried_[carried_first_[static_cast<size_t>(local_[static_cast<size_t>(link)])]++] = f;
  }
  using Share = std::pair<double, int>;
  std::vector<Share> shares;
  for (size_t n = 0; n < used_.size(); ++n) shares.emplace_back(free_[n] / counts_[n], static_cast<int>(n));
  std::priority_queue queue(std::greater<Share>(), std::move(shares));
  for (size_t unsettled = set.size(); unsettled > 0;) {
    const auto [share, number] = queue.top();
    const auto n = static_cast<size_t>(number);
    queue.pop();
    if (counts_[n] == 0) continue;
    const double now = free_[n] / counts_[n];
    if (now > share) {
      queue.emplace(now, number);
      continue;
    }
    const size_t begin = n == 0 ? 0 : carried_first_[n - 1];  // as the filling above has moved them on
    for (size_t i = begin; i < carried_first_[n]; ++i) {
      const int f = carried_[i];
      if (rates_[static_cast<size_t>(f)] > 0) continue;
      rates_[static_cast<size_t>(f)] = share;
      --unsettled;
      for (int link : LinksOf(f)) {
        const auto l = static_cast<size_t>(local_[static_cast<size_t>(link)]);
        --counts_[l];
        free_[l] = std::max(0.0, free_[l] - share);
      }
    }
  }
  for (int link : used_) local_[static_cast<size_t>(link)] = -1;
}

}  // namespace twofold::sim
