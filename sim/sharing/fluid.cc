#include "sim/sharing/fluid.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <utility>

#include "core/base/check.h"

namespace twofold::sim {
namespace {

constexpr double kTogether = 1e-12;
constexpr double kLeft = 1e-9;  // of a bandwidth: a link with no more left is full

std::vector<double> BandwidthsOf(const Topology& topology) {
  std::vector<double> bandwidths;
  bandwidths.reserve(topology.link_count());
  for (size_t l = 0; l < topology.link_count(); ++l)
    bandwidths.push_back(topology.RatesOf(static_cast<int>(l)).bandwidth.value());
  return bandwidths;
}

}  // namespace

Fluid::Fluid(const Topology& topology) : Fluid(BandwidthsOf(topology)) {}

Fluid::Fluid(std::vector<double> bandwidths)
    : bandwidths_(std::move(bandwidths)), real_links_(bandwidths_.size()), local_(real_links_, -1) {}

void Fluid::Clear() {
  bandwidths_.resize(real_links_);
  local_.resize(real_links_);
  links_.clear(), weights_.clear();
  first_.assign(1, 0);
  left_.clear();
}

int Fluid::Add(std::span<const int> links, double bytes, double rate, std::span<const int> weights) {
  TWOFOLD_CHECK_GE(bytes, 0);
  links_.insert(links_.end(), links.begin(), links.end());
  weights_.insert(weights_.end(), weights.begin(), weights.end());
  weights_.resize(links_.size() + (rate < kNoLimit ? 1 : 0), 1);
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

std::span<const int> Fluid::WeightsOf(int flow) const {
  const auto f = static_cast<size_t>(flow);
  return {weights_.data() + first_[f], first_[f + 1] - first_[f]};
}

// Union-find over links; then sorts flows by their sets (a counting sort, so that results do not depend on addresses).
void Fluid::FindSets() {
  std::vector<int>& parent = local_;  // by link, while sets are computed
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
  std::vector<int> number(bandwidths_.size(), -1);  // set number by root
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

std::span<const int> Fluid::Set(size_t number) const {
  const size_t begin = number == 0 ? 0 : set_ends_[number - 1];
  return std::span<const int>(order_).subspan(begin, set_ends_[number] - begin);
}

void Fluid::Begin() {
  ends_.assign(left_.size(), 0), rates_.assign(left_.size(), 0);
  since_.assign(left_.size(), 0), projected_.assign(left_.size(), 0);
  loads_.assign(bandwidths_.size(), 0);
  lists_.clear();
  FindSets();
}

const std::vector<double>& Fluid::Solve() {
  Begin();
  for (size_t set = 0; set < set_ends_.size(); ++set) SettleSet(Set(set));
  return ends_;
}

const std::vector<double>& Fluid::Rates() {
  Begin();
  for (size_t set = 0; set < set_ends_.size(); ++set) SetRates(Set(set));
  return rates_;
}

const std::vector<double>& Fluid::Solve(std::vector<Change>& changes) {
  changes.clear();
  changes_ = &changes;
  Solve();
  changes_ = nullptr;
  // Sets are solved one after another, each from start to end.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  return ends_;
}

void Fluid::Ends(int flow, double time) {
  ends_[static_cast<size_t>(flow)] = time;
  if (changes_ != nullptr) changes_->push_back({time, flow, 0});
}

// Flows whose rates do not change keep their projected ends, too.
void Fluid::Share(std::span<const int> flows, double time) {
  before_.clear();
  for (int f : flows) {
    before_.push_back(rates_[static_cast<size_t>(f)]);
    AddLoad(f, -before_.back());
  }
  SetRates(flows);
  for (size_t i = 0; i < flows.size(); ++i) {
    const auto f = static_cast<size_t>(flows[i]);
    const double before = before_[i];
    if (std::abs(rates_[f] - before) <= kTogether * before) {
      rates_[f] = before;
    } else {
      left_[f] = std::max(0.0, left_[f] - before * (time - since_[f]));
      since_[f] = time;
      projected_[f] = time + left_[f] / rates_[f];
    }
    AddLoad(flows[i], rates_[f]);
  }
}

void Fluid::TellRates(std::span<const int> flows, double time) {
  if (changes_ == nullptr) return;
  for (int flow : flows) changes_->push_back({time, flow, rates_[static_cast<size_t>(flow)]});
}

void Fluid::AddLoad(int flow, double rate) {
  const std::span<const int> links = LinksOf(flow), weights = WeightsOf(flow);
  for (size_t i = 0; i < links.size(); ++i) loads_[static_cast<size_t>(links[i])] += weights[i] * rate;
}

// Goes from end to end, the earliest first. Skips ends that a change of rates has made obsolete.
void Fluid::SettleSet(std::span<const int> set) {
  Share(set, 0);
  TellRates(set, 0);
  std::vector<End> pending;
  for (int f : set) pending.emplace_back(projected_[static_cast<size_t>(f)], f);
  const auto [first, last] = std::minmax_element(pending.begin(), pending.end());
  const double all = first->first;
  if (last->first <= all * (1 + kTogether)) {
    for (int f : set) Ends(f, all);
    return;
  }
  if (lists_.empty()) ListFlows();
  Ending queue(std::greater<End>(), std::move(pending));
  for (size_t going = set.size(); going > 0;) going -= EndNext(queue);
}

// Ends the flows that are next, and shares what they leave. Returns how many ended: none if the first end in the queue
// is obsolete.
size_t Fluid::EndNext(Ending& pending) {
  const double time = pending.top().first, until = time * (1 + kTogether);
  std::vector<int> ended;
  for (; !pending.empty() && pending.top().first <= until; pending.pop()) {
    const auto [end, flow] = pending.top();
    const auto f = static_cast<size_t>(flow);
    if (ends_[f] > 0 || end != projected_[f]) continue;
    Ends(flow, time);
    ended.push_back(flow);
  }
  if (ended.empty()) return 0;
  std::vector<int> touched = ShareRest(ended, time);
  std::erase_if(touched, [&](int f) { return since_[static_cast<size_t>(f)] != time; });  // these go on as before
  TellRates(touched, time);
  for (int f : touched) pending.emplace(projected_[static_cast<size_t>(f)], f);
  return ended.size();
}

void Fluid::Start(std::vector<Change>& changes) {
  Begin();
  changes_ = &changes;
  std::vector<End> pending;
  for (size_t s = 0; s < set_ends_.size(); ++s) {
    const std::span<const int> set = Set(s);
    Share(set, 0);
    TellRates(set, 0);
    for (int f : set) pending.emplace_back(projected_[static_cast<size_t>(f)], f);
  }
  going_ = pending.size();
  pending_ = Ending(std::greater<End>(), std::move(pending));
  ListFlows();
  changes_ = nullptr;
}

bool Fluid::Advance(std::vector<Change>& changes) {
  changes_ = &changes;
  size_t ended = 0;
  while (ended == 0 && going_ > 0) ended = EndNext(pending_);
  going_ -= ended;
  changes_ = nullptr;
  return ended > 0;
}

void Fluid::ListFlows() {
  lists_first_.assign(bandwidths_.size() + 1, 0);
  for (int link : links_) ++lists_first_[static_cast<size_t>(link) + 1];
  std::inclusive_scan(lists_first_.begin(), lists_first_.end(), lists_first_.begin());
  lists_.resize(links_.size());
  std::vector<size_t> next(lists_first_.begin(), lists_first_.end() - 1);
  for (int f = 0; f < flows(); ++f) {
    for (int link : LinksOf(f)) lists_[next[static_cast<size_t>(link)]++] = f;
  }
  seen_flow_.assign(left_.size(), 0), seen_link_.assign(bandwidths_.size(), 0);
  look_ = 0;
}

// `ended` have ended; those that share anew are returned.
//
// Progressive filling does not change up to the lowest rate r of the ended flows, because their links are not full
// below it: slower flows keep their rates. Among the others it is, at first, those that are on full links with the
// ended ones, directly or indirectly. If their new rates fill a link on which a faster flow is, which had another
// bottleneck, that flow shares, too. In the end every flow has a full link on which none is faster, which makes rates
// max-min fair (Bertsekas and Gallager, section 6.5.2, the proposition).
std::vector<int> Fluid::ShareRest(std::span<const int> ended, double time) {
  double least = kNoLimit;
  for (int f : ended) least = std::min(least, rates_[static_cast<size_t>(f)]);
  least *= 1 - kTogether;
  ++look_;
  std::vector<int> touched, links;
  const auto full = [this](int link) {
    return loads_[static_cast<size_t>(link)] >= bandwidths_[static_cast<size_t>(link)] * (1 - kLeft);
  };
  const auto look = [&](int flow) {
    for (int link : LinksOf(flow)) {
      if (full(link) && std::exchange(seen_link_[static_cast<size_t>(link)], look_) != look_) links.push_back(link);
    }
  };
  const auto touch = [&](int flow) {
    const auto f = static_cast<size_t>(flow);
    if (ends_[f] > 0 || rates_[f] < least || std::exchange(seen_flow_[f], look_) == look_) return;
    touched.push_back(flow);
    look(flow);
  };
  const auto follow = [&] {
    while (!links.empty()) {
      const auto link = static_cast<size_t>(links.back());
      links.pop_back();
      for (size_t i = lists_first_[link]; i < lists_first_[link + 1]; ++i) touch(lists_[i]);
    }
  };
  for (int f : ended) look(f);
  follow();
  for (int f : ended) AddLoad(f, -rates_[static_cast<size_t>(f)]);
  for (size_t before = 0; before < touched.size();) {
    before = touched.size();
    Share(touched, time);
    for (size_t t = 0; t < before; ++t) look(touched[t]);  // at links that are full only now
    follow();
  }
  return touched;
}

// Progressive filling: among all links in use, the one with the smallest share fixes the rates of its flows. A link's
// share never decreases as other flows are fixed, so an obsolete share in the queue is too small and is put back.
void Fluid::SetRates(std::span<const int> set) {
  if (set.size() == 1) {
    double& rate = rates_[static_cast<size_t>(set[0])] = kNoLimit;
    const std::span<const int> links = LinksOf(set[0]), weights = WeightsOf(set[0]);
    for (size_t i = 0; i < links.size(); ++i) rate = std::min(rate, Free(links[i]) / weights[i]);
    return;
  }
  used_.clear(), counts_.clear(), free_.clear();
  carried_first_.assign(1, 0);
  for (int f : set) {
    rates_[static_cast<size_t>(f)] = 0;
    const std::span<const int> links = LinksOf(f), weights = WeightsOf(f);
    for (size_t i = 0; i < links.size(); ++i) {
      int& n = local_[static_cast<size_t>(links[i])];
      if (n < 0) {
        n = static_cast<int>(used_.size());
        used_.push_back(links[i]), counts_.push_back(0), free_.push_back(Free(links[i])), carried_first_.push_back(0);
      }
      counts_[static_cast<size_t>(n)] += weights[i];
      ++carried_first_[static_cast<size_t>(n) + 1];
    }
  }
  std::inclusive_scan(carried_first_.begin(), carried_first_.end(), carried_first_.begin());
  carried_.resize(carried_first_.back());
  for (int f : set) {
    for (int link : LinksOf(f)) carried_[carried_first_[static_cast<size_t>(local_[static_cast<size_t>(link)])]++] = f;
  }
  using Share = std::pair<double, int>;
  std::vector<Share> shares;
  shares.reserve(used_.size());
  for (size_t n = 0; n < used_.size(); ++n)
    shares.emplace_back(free_[n] / static_cast<double>(counts_[n]), static_cast<int>(n));
  std::priority_queue queue(std::greater<Share>(), std::move(shares));
  for (size_t unsettled = set.size(); unsettled > 0;) {
    const auto [share, number] = queue.top();
    const auto n = static_cast<size_t>(number);
    queue.pop();
    if (counts_[n] == 0) continue;
    const double now = free_[n] / static_cast<double>(counts_[n]);
    if (now > share) {
      queue.emplace(now, number);
      continue;
    }
    const size_t begin = n == 0 ? 0 : carried_first_[n - 1];  // the filling above has advanced these
    for (size_t i = begin; i < carried_first_[n]; ++i) {
      const int f = carried_[i];
      if (rates_[static_cast<size_t>(f)] > 0) continue;
      rates_[static_cast<size_t>(f)] = share;
      --unsettled;
      const std::span<const int> links = LinksOf(f), weights = WeightsOf(f);
      for (size_t k = 0; k < links.size(); ++k) {
        const auto l = static_cast<size_t>(local_[static_cast<size_t>(links[k])]);
        counts_[l] -= weights[k];
        free_[l] = std::max(0.0, free_[l] - weights[k] * share);
      }
    }
  }
  for (int link : used_) local_[static_cast<size_t>(link)] = -1;
}

}  // namespace twofold::sim
