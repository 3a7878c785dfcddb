#include "sim/sharing/flow_blocks.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/hashes.h"

namespace twofold::sim {

void FlowBlocks::Flows::Add(std::span<const int> over, std::span<const int> own_weights, double limit) {
  links.insert(links.end(), over.begin(), over.end());
  weights.insert(weights.end(), own_weights.begin(), own_weights.end());
  first.push_back(links.size());
  limits.push_back(limit);
}

FlowBlocks::Network::Network(Flows flows) : flows_(std::move(flows)) {
  first_.assign(flows_.bandwidths.size() + 1, 0);
  for (const int link : flows_.links) ++first_[static_cast<size_t>(link) + 1];
  std::inclusive_scan(first_.begin(), first_.end(), first_.begin());
  on_.resize(flows_.links.size());
  std::vector<size_t> next(first_.begin(), first_.end() - 1);
  for (size_t f = 0; f < flows_.size(); ++f) {
    for (const int link : LinksOf(static_cast<int>(f))) on_[next[static_cast<size_t>(link)]++] = static_cast<int>(f);
  }
}

FlowBlocks::FlowBlocks(std::shared_ptr<const Network> network, std::vector<int> blocks)
    : network_(std::move(network)),
      flows_(network_->flows()),
      block_of_(std::move(blocks)),
      kind_of_(flows_.bandwidths.size(), -1) {
  MakeBlocks(block_of_.empty() ? 0 : static_cast<size_t>(*std::max_element(block_of_.begin(), block_of_.end())) + 1);
  MakeKinds();
  seen_.assign(flows_.size(), 0), weights_.assign(flows_.bandwidths.size(), 0);
}

namespace {

// Sorts things by their numbers, and keeps their order otherwise. Those with -1 are left out.
void SortByNumber(const std::vector<int>& numbers, size_t count, std::vector<int>& order, std::vector<size_t>& at,
                  std::vector<size_t>& begin, std::vector<size_t>& end) {
  begin.assign(count, 0);
  size_t all = 0;
  for (const int n : numbers) {
    if (n >= 0) ++begin[static_cast<size_t>(n)], ++all;
  }
  std::exclusive_scan(begin.begin(), begin.end(), begin.begin(), size_t{0});
  end = begin;
  order.resize(all), at.assign(numbers.size(), 0);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0) continue;
    at[i] = end[static_cast<size_t>(numbers[i])]++;
    order[at[i]] = static_cast<int>(i);
  }
}

}  // namespace

void FlowBlocks::MakeBlocks(size_t blocks) {
  SortByNumber(block_of_, blocks, flow_order_, flow_at_, block_begin_, block_end_);
  crossed_.resize(blocks);
}

// Links of one kind have the same sum of a hash of their flows' blocks.
void FlowBlocks::MakeKinds() {
  std::vector<uint64_t> sums(flows_.bandwidths.size());
  std::vector<bool> used(sums.size());
  for (size_t f = 0; f < flows_.size(); ++f) {
    if (block_of_[f] < 0) continue;
    const uint64_t own = HashMix(static_cast<uint64_t>(block_of_[f]));
    for (size_t i = flows_.first[f]; i < flows_.first[f + 1]; ++i) {
      const auto link = static_cast<size_t>(flows_.links[i]);
      sums[link] += own * static_cast<uint64_t>(flows_.weights[i]);
      used[link] = true;
    }
  }
  absl::flat_hash_map<uint64_t, int> numbers;
  std::vector<int> examples;
  for (size_t l = 0; l < sums.size(); ++l) {
    if (!used[l]) continue;
    const uint64_t hash = HashMix(sums[l], std::bit_cast<uint64_t>(flows_.bandwidths[l]));
    kind_of_[l] = numbers.try_emplace(hash, static_cast<int>(examples.size())).first->second;
    if (static_cast<size_t>(kind_of_[l]) == examples.size()) examples.push_back(static_cast<int>(l));
  }
  SortByNumber(kind_of_, examples.size(), link_order_, link_at_, kind_begin_, kind_end_);
  on_.resize(examples.size()), place_.resize(examples.size());
  std::vector<double> weights(blocks());
  for (size_t k = 0; k < examples.size(); ++k) {
    for (const int flow : network_->FlowsOn(examples[k])) {
      const auto f = static_cast<size_t>(flow);
      if (block_of_[f] < 0) continue;
      const auto block = static_cast<size_t>(block_of_[f]);
      if (weights[block] == 0) on_[k].push_back({block_of_[f], 0});
      for (size_t w = flows_.first[f]; w < flows_.first[f + 1]; ++w)
        if (flows_.links[w] == examples[k]) weights[block] += flows_.weights[w];
    }
    for (On& on : on_[k]) {
      on.weight = std::exchange(weights[static_cast<size_t>(on.block)], 0);
      crossed_[static_cast<size_t>(on.block)].push_back({static_cast<int>(k), on.weight});
    }
  }
}

// ---- Splits ----

// The flows of the block that cross a link of the kind.
void FlowBlocks::FindCrossing(int block, int kind) {
  crossing_.clear();
  ++search_;
  size_t crossings = 0;
  for (const int link : LinksOf(kind)) crossings += network_->FlowsOn(link).size();
  const std::span<const int> flows = FlowsOf(block);
  if (flows.size() * 4 < crossings) {
    for (const int f : flows) {
      const std::span<const int> links = network_->LinksOf(f);
      const auto of_kind = [&](int link) { return kind_of_[static_cast<size_t>(link)] == kind; };
      if (std::any_of(links.begin(), links.end(), of_kind))
        crossing_.push_back(f), seen_[static_cast<size_t>(f)] = search_;
    }
    return;
  }
  for (const int link : LinksOf(kind)) {
    for (const int flow : network_->FlowsOn(link)) {
      const auto f = static_cast<size_t>(flow);
      if (block_of_[f] == block && std::exchange(seen_[f], search_) != search_) crossing_.push_back(flow);
    }
  }
}

// Those that were found to cross, or the others, become a block of their own.
int FlowBlocks::TakeApart(int block, bool crossing) {
  const auto b = static_cast<size_t>(block);
  if (!crossing) {
    crossing_.clear();
    for (const int f : FlowsOf(block)) {
      if (seen_[static_cast<size_t>(f)] != search_) crossing_.push_back(f);
    }
  }
  const int fresh = static_cast<int>(blocks());
  size_t& end = block_end_[b];
  const size_t before = end;
  for (const int flow : crossing_) {
    const auto f = static_cast<size_t>(flow);
    --end;
    const int other = flow_order_[end];
    std::swap(flow_order_[flow_at_[f]], flow_order_[end]);
    flow_at_[static_cast<size_t>(other)] = flow_at_[f], flow_at_[f] = end;
    block_of_[f] = fresh;
  }
  const size_t begin = end;
  block_begin_.push_back(begin), block_end_.push_back(before);
  crossed_.emplace_back();
  return fresh;
}

FlowBlocks::Parts FlowBlocks::Split(int block, int kind, Made& made) {
  made.clear();
  FindCrossing(block, kind);
  const size_t all = FlowsOf(block).size();
  if (crossing_.size() == all) return {block, -1};
  const bool crossing = crossing_.size() * 2 <= all;
  const int fresh = TakeApart(block, crossing);
  SplitKinds(block, fresh, made);
  return crossing ? Parts{fresh, block} : Parts{block, fresh};
}

// Links of a kind remain alike if equally many flows of the fresh block cross them.
void FlowBlocks::SplitKinds(int block, int fresh, Made& made) {
  touched_.clear();
  for (const int flow : FlowsOf(fresh)) {
    const auto f = static_cast<size_t>(flow);
    for (size_t i = flows_.first[f]; i < flows_.first[f + 1]; ++i) {
      int64_t& weight = weights_[static_cast<size_t>(flows_.links[i])];
      if (weight == 0) touched_.push_back(flows_.links[i]);
      weight += flows_.weights[i];
    }
  }
  const auto key = [this](int link) {
    return std::pair(kind_of_[static_cast<size_t>(link)], weights_[static_cast<size_t>(link)]);
  };
  std::sort(touched_.begin(), touched_.end(), [&key](int a, int b) { return key(a) < key(b); });
  const std::vector<Crossed>& crossed = crossed_[static_cast<size_t>(block)];
  for (size_t c = 0; c < crossed.size(); ++c) place_[static_cast<size_t>(crossed[c].kind)] = c;
  for (size_t i = 0; i < touched_.size();) {
    const int kind = key(touched_[i]).first;
    size_t end = i;
    while (end < touched_.size() && kind_of_[static_cast<size_t>(touched_[end])] == kind) ++end;
    bool stays = LinksOf(kind).size() == end - i;  // none of its links is as before
    while (i < end) {
      const int64_t weight = key(touched_[i]).second;
      const size_t from = i;
      while (i < end && weights_[static_cast<size_t>(touched_[i])] == weight) ++i;
      int own = kind;
      if (!std::exchange(stays, false)) {
        own = MakeKind(kind, std::span<const int>(touched_).subspan(from, i - from));
        made.emplace_back(own, kind);
        place_[static_cast<size_t>(own)] = crossed.size() - 1;
      }
      // The links that stay are divided last, since others are made from what they carry.
      if (own != kind)
        Divide(own, block, fresh, static_cast<double>(weight));
      else
        kept_ = {kind, static_cast<double>(weight)};
    }
    if (kept_.kind >= 0) Divide(kept_.kind, block, fresh, kept_.weight);
    kept_ = {-1, 0};
  }
  for (const int link : touched_) weights_[static_cast<size_t>(link)] = 0;
}

// Takes these links out of a kind.
int FlowBlocks::MakeKind(int from, std::span<const int> links) {
  const int fresh = static_cast<int>(kinds());
  size_t& end = kind_end_[static_cast<size_t>(from)];
  const size_t before = end;
  for (const int link : links) {
    const auto l = static_cast<size_t>(link);
    --end;
    const int other = link_order_[end];
    std::swap(link_order_[link_at_[l]], link_order_[end]);
    link_at_[static_cast<size_t>(other)] = link_at_[l], link_at_[l] = end;
    kind_of_[l] = fresh;
  }
  const size_t begin = end;
  kind_begin_.push_back(begin), kind_end_.push_back(before), place_.push_back(0);
  for (On& on : on_[static_cast<size_t>(from)]) on.all = false;
  on_.push_back(std::vector<On>(on_[static_cast<size_t>(from)]));
  for (const On& on : on_.back()) crossed_[static_cast<size_t>(on.block)].push_back({fresh, on.weight});
  return fresh;
}

// `weight` of the block's flows on each link of the kind are the fresh block's.
void FlowBlocks::Divide(int kind, int block, int fresh, double weight) {
  std::vector<On>& on = on_[static_cast<size_t>(kind)];
  std::vector<Crossed>& crossed = crossed_[static_cast<size_t>(block)];
  const size_t place = place_[static_cast<size_t>(kind)];
  const auto own = std::find_if(on.begin(), on.end(), [block](const On& o) { return o.block == block; });
  crossed_[static_cast<size_t>(fresh)].push_back({kind, weight});
  if (own->weight > weight) {
    own->weight -= weight, crossed[place].weight -= weight;
    on.push_back({fresh, weight, own->all});
    return;
  }
  own->block = fresh;
  crossed[place] = crossed.back();
  place_[static_cast<size_t>(crossed[place].kind)] = place;
  crossed.pop_back();
}

}  // namespace twofold::sim
