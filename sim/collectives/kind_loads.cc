#include "sim/collectives/kind_loads.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/check.h"
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

// Of one node: how many flows of each kind its ranks and NICs carry.
class NodeCount {
 public:
  NodeCount(const NodeFlows& flows, int node, const Places& places)
      : flows_(flows),
        node_(node),
        places_(places),
        sent_(Size(flows.each)),
        within_(2 * Size(flows.each)),
        between_(2 * Size(places.rails)) {
    for (const NodeFlows::Within& w : flows.within) {
      if (!flows.Has(w, node)) continue;
      const int kind = NodeFlows::KindOf(w, node);
      Add(sent_, Size(w.from), kind), Add(within_, 2 * Size(w.from), kind), Add(within_, 2 * Size(w.to) + 1, kind);
    }
  }
  // A flow between nodes, one of which is this, on all rails.
  void Add(const NodeFlows::Between& flow) {
    for (size_t r = 0; r < flows_.rails.size(); ++r) {
      if (!flows_.Has(flow, r)) continue;
      const NodeFlows::Rail& rail = flows_.rails[r];
      const int kind = NodeFlows::KindOf(flow, r);
      if (flow.from == node_) Add(sent_, Size(rail.from), kind), Add(between_, 2 * NicOf(rail.from), kind);
      if (flow.to == node_) Add(between_, 2 * NicOf(rail.to) + 1, kind);
    }
  }
  void Tell(KindLoads& all) const { Tell(sent_, all.sent), Tell(within_, all.within), Tell(between_, all.between); }

 private:
  using Counts = std::vector<std::map<int, int>>;  // by carrier and kind
  static size_t Size(int n) { return static_cast<size_t>(n); }
  size_t NicOf(int local) const { return Size(places_.rail[Size(flows_.RankAt(node_, local))]); }
  static void Add(Counts& counts, size_t carrier, int kind) { ++counts[carrier][kind]; }
  static void Tell(const Counts& counts, std::vector<KindLoads::Load>& to) {
    for (const std::map<int, int>& own : counts) {
      KindLoads::Load load(own.begin(), own.end());
      if (!load.empty() && std::find(to.begin(), to.end(), load) == to.end()) to.push_back(std::move(load));
    }
  }

  const NodeFlows& flows_;
  const int node_;
  const Places& places_;
  Counts sent_, within_, between_;
};

// Nodes that send and receive equally many flows of each kind carry alike: one of them is counted.
KindLoads AddUpByNode(const NodeFlows& flows, size_t kinds, const Places& places) {
  KindLoads all;
  all.kinds.resize(kinds);
  const auto add = [&all](int kind, bool between, size_t number) {
    KindLoads::Kind& of = all.kinds[static_cast<size_t>(kind)];
    of.between = between, of.flows += static_cast<int>(number);
  };
  for (const NodeFlows::Within& w : flows.within)
    add(w.first, false, flows.Has(w, 0)), add(w.others, false, flows.Others(w));
  for (const NodeFlows::Between& b : flows.between)
    add(b.first, true, flows.Has(b, 0)), add(b.others, true, flows.Others(b));
  // A node whose ranks have other NICs is counted on its own.
  std::vector<int> alike = flows.AlikeTo();
  for (int v = 0; v < flows.nodes(); ++v) {
    int& like = alike[static_cast<size_t>(v)];
    for (int local = 0; local < flows.each && like != v; ++local) {
      const auto nic = [&](int node) { return places.rail[static_cast<size_t>(flows.RankAt(node, local))]; };
      if (nic(v) != nic(like)) like = v;
    }
  }
  std::map<int, NodeCount> counts;  // by node
  for (int v = 0; v < flows.nodes(); ++v)
    if (alike[static_cast<size_t>(v)] == v) counts.try_emplace(v, flows, v, places);
  for (const NodeFlows::Between& b : flows.between) {
    for (const int node : {b.from, b.to})
      if (alike[static_cast<size_t>(node)] == node) counts.at(node).Add(b);
  }
  for (const auto& [node, count] : counts) count.Tell(all);
  return all;
}

// Teams are nodes: all ranks of one send and receive equally much.
KindLoads AddUpByPair(const PairFlows& flows, size_t kinds, const Places& places) {
  KindLoads all;
  all.kinds.resize(kinds);
  const auto kind = [&all](int k) -> KindLoads::Kind& { return all.kinds[static_cast<size_t>(k)]; };
  if (const size_t within = flows.FlowsWithin(); within > 0) kind(flows.kind_within).flows += static_cast<int>(within);
  if (const size_t between = flows.FlowsBetween(); between > 0)
    kind(flows.kind_between).flows += static_cast<int>(between), kind(flows.kind_between).between = true;
  TWOFOLD_CHECK(flows.teams->size() == static_cast<size_t>(places.nodes), "teams are the ranks of each node");
  TWOFOLD_CHECK(flows.size() <= static_cast<size_t>(std::numeric_limits<int>::max()), "flows of a phase are counted");
  std::set<KindLoads::Load> sent, own, nics;
  const auto load = [](std::initializer_list<std::pair<int, size_t>> counts) {
    KindLoads::Load carried;
    for (const auto& [k, number] : counts)
      if (number > 0) carried.emplace_back(k, static_cast<int>(number));
    std::sort(carried.begin(), carried.end());
    return carried;
  };
  std::pair<size_t, size_t> last = {0, 0};  // of the team before, if it has one rank
  for (size_t t = 0; t < flows.teams->size(); ++t) {
    const std::vector<int>& team = (*flows.teams)[t];
    const size_t peers = flows.within && !team.empty() ? team.size() - 1 : 0;
    const size_t sends = flows.SendsTo(t), receives = flows.ReceivesFrom(t);
    if (team.size() == 1 && last == std::pair(sends, receives)) continue;
    last = team.size() == 1 ? std::pair(sends, receives) : std::pair<size_t, size_t>();
    sent.insert(load({{flows.kind_within, peers}, {flows.kind_between, sends}}));
    own.insert(load({{flows.kind_within, peers}}));
    std::map<int, size_t> ranks;  // by NIC
    for (const int rank : team) ++ranks[places.rail[static_cast<size_t>(rank)]];
    for (const auto& [nic, number] : ranks) {
      nics.insert(load({{flows.kind_between, number * sends}}));
      nics.insert(load({{flows.kind_between, number * receives}}));
    }
  }
  for (const auto& [from, to] : {std::pair(&sent, &all.sent), {&own, &all.within}, {&nics, &all.between}}) {
    from->erase(KindLoads::Load());
    to->assign(from->begin(), from->end());
  }
  return all;
}

KindLoads AddUp(const FlowPattern& pattern, size_t kinds, const Places& places) {
  if (pattern.by_node() != nullptr) return AddUpByNode(*pattern.by_node(), kinds, places);
  if (pattern.pairs() != nullptr) return AddUpByPair(*pattern.pairs(), kinds, places);
  KindLoads all;
  all.kinds.resize(kinds);
  std::vector<uint64_t> mixed;
  for (size_t k = 0; k < kinds; ++k) mixed.push_back(Mixed(static_cast<int>(k)));
  // Carriers with the same sum of their flows' hashes carry alike.
  const Carriers carriers(places);
  std::vector<uint64_t> sums(carriers.size());
  for (const FlowPattern::Ends& flow : pattern.flows()) {
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
  for (const FlowPattern::Ends& flow : pattern.flows()) {
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
