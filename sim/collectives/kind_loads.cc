#include "sim/collectives/kind_loads.h"

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {
namespace {

// What carries: ranks as senders, ranks within nodes (out, in), NICs (out, in), one after another.
struct Carriers {
  explicit Carriers(const Places& p) : places(p), ranks(p.node.size()) {}
  size_t size() const { return 3 * ranks + 2 * static_cast<size_t>(places.nodes) * static_cast<size_t>(places.rails); }
  size_t Within(int rank) const { return ranks + 2 * static_cast<size_t>(rank); }
  size_t Nic(int rank) const {
    const auto r = static_cast<size_t>(rank);
    return 3 * ranks + 2 * static_cast<size_t>(places.node[r] * places.rails + places.rail[r]);
  }
  // Calls visit(carrier, kind) for all that carry a flow.
  template <class Visit>
  void For(const FlowPattern::Ends& flow, bool between, Visit&& visit) const {
    visit(static_cast<size_t>(flow.from), flow.kind);
    visit(between ? Nic(flow.from) : Within(flow.from), flow.kind);
    visit((between ? Nic(flow.to) : Within(flow.to)) + 1, flow.kind);
  }

  const Places& places;
  const size_t ranks;
};

uint64_t Mixed(int kind) {  // splitmix64's finaliser
  uint64_t z = (static_cast<uint64_t>(kind) + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

KindLoads AddUp(const FlowPattern& pattern, size_t kinds, const Places& places) {
  KindLoads all;
  all.kinds.resize(kinds);
  std::vector<uint64_t> mixed;
  for (size_t k = 0; k < kinds; ++k) mixed.push_back(Mixed(static_cast<int>(k)));
  // Carriers with the same sum of their flows' hashes carry alike.
  const Carriers carriers(places);
  std::vector<uint64_t> sums(carriers.size());
  for (const FlowPattern::Ends& flow : pattern.flows) {
    KindLoads::Kind& kind = all.kinds[static_cast<size_t>(flow.kind)];
    if (kind.flows++ == 0)
      kind.between = places.node[static_cast<size_t>(flow.from)] != places.node[static_cast<size_t>(flow.to)];
    carriers.For(flow, kind.between, [&](size_t c, int k) { sums[c] += mixed[static_cast<size_t>(k)]; });
  }
  struct Example {
    std::vector<KindLoads::Load>* to;
    std::vector<int> counts;  // by kind
  };
  std::vector<Example> examples;
  std::vector<int> example_of(sums.size(), -1);  // by carrier
  absl::flat_hash_map<std::pair<const void*, uint64_t>, size_t> known;
  uint64_t last = 0;
  const void* last_of = nullptr;
  for (size_t c = 0; c < sums.size(); ++c) {
    std::vector<KindLoads::Load>* to = c < carriers.ranks       ? &all.sent
                                       : c < 3 * carriers.ranks ? &all.within
                                                                : &all.between;
    if (sums[c] == 0 || (sums[c] == last && to == last_of)) continue;  // neighbours are often alike
    last = sums[c], last_of = to;
    if (!known.try_emplace({to, sums[c]}, c).second) continue;
    example_of[c] = static_cast<int>(examples.size());
    examples.push_back({to, std::vector<int>(kinds)});
  }
  for (const FlowPattern::Ends& flow : pattern.flows) {
    carriers.For(flow, all.kinds[static_cast<size_t>(flow.kind)].between, [&](size_t c, int k) {
      if (example_of[c] >= 0) ++examples[static_cast<size_t>(example_of[c])].counts[static_cast<size_t>(k)];
    });
  }
  for (const Example& example : examples) {
    KindLoads::Load& load = example.to->emplace_back();
    for (size_t k = 0; k < example.counts.size(); ++k)
      if (example.counts[k] > 0) load.emplace_back(static_cast<int>(k), example.counts[k]);
  }
  return all;
}

}  // namespace

const KindLoads& KindLoadsOf(const FlowPattern& pattern, size_t kinds, const Places& places) {
  if (pattern.loads == nullptr) pattern.loads = std::make_shared<const KindLoads>(AddUp(pattern, kinds, places));
  return *pattern.loads;
}

double LargestOf(const std::vector<KindLoads::Load>& loads, const std::vector<Flow>& kinds) {
  double most = 0;
  for (const KindLoads::Load& load : loads) {
    double bytes = 0;
    for (const auto& [kind, flows] : load) bytes += flows * kinds[static_cast<size_t>(kind)].bytes;
    most = std::max(most, bytes);
  }
  return most;
}

}  // namespace twofold::sim
