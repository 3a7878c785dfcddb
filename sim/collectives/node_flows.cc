#include "sim/collectives/node_flows.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace twofold::sim {

size_t NodeFlows::Others(const Between& flow) const {
  size_t others = 0;
  for (size_t r = 1; r < rails.size(); ++r) others += Has(flow, r);
  return others;
}

size_t NodeFlows::Others(const Within& flow) const {
  return static_cast<size_t>(nodes()) - 1 - (root.node > 0 && !Has(flow, root.node));
}

size_t NodeFlows::size() const {
  size_t size = 0;
  for (const Within& w : within) size += Has(w, 0) + Others(w);
  for (const Between& b : between) size += Has(b, 0) + Others(b);
  return size;
}

std::vector<int> NodeFlows::LastPhase() const {
  std::vector<int> last(ranks.size(), -1);
  const auto takes_part = [&](int node, int local) { last[static_cast<size_t>(RankAt(node, local))] = 0; };
  for (int v = 0; v < nodes(); ++v) {
    for (const Within& w : within)
      if (Has(w, v)) takes_part(v, w.from), takes_part(v, w.to);
  }
  for (const Between& b : between) {
    for (size_t r = 0; r < rails.size(); ++r)
      if (Has(b, r)) takes_part(b.from, rails[r].from), takes_part(b.to, rails[r].to);
  }
  return last;
}

std::vector<int> NodeFlows::AlikeTo() const {
  std::vector<std::pair<int, int>> kinds;
  const auto number_of = [&kinds](const Between& b) {
    const std::pair own(b.first, b.others);
    const auto known = std::find(kinds.begin(), kinds.end(), own);
    const auto number = static_cast<size_t>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(own);
    return number;
  };
  for (const Between& b : between) number_of(b);
  const auto all = static_cast<size_t>(nodes());
  const size_t counts = 2 * kinds.size();  // of a node: sent, received
  std::vector<int> of(all * counts), alike(all);
  for (const Between& b : between) {
    const size_t kind = number_of(b);
    ++of[static_cast<size_t>(b.from) * counts + kind];
    ++of[static_cast<size_t>(b.to) * counts + kinds.size() + kind];
  }
  std::vector<bool> apart(all);
  apart[0] = true;
  if (root.node >= 0) apart[static_cast<size_t>(root.node)] = true;
  for (const Between& b : between) {
    if (b.from == root.node || b.to == root.node)
      apart[static_cast<size_t>(b.from)] = apart[static_cast<size_t>(b.to)] = true;
  }
  absl::flat_hash_map<absl::Span<const int>, int> known;
  for (size_t v = 0; v < all; ++v) {
    const auto own = static_cast<int>(v);
    const absl::Span<const int> numbers = absl::MakeConstSpan(of).subspan(v * counts, counts);
    alike[v] = apart[v] ? own : known.try_emplace(numbers, own).first->second;
  }
  return alike;
}

}  // namespace twofold::sim
