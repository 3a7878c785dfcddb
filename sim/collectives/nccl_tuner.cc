#include "sim/collectives/nccl_tuner.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <span>

namespace twofold::sim {
namespace {

// Microseconds.
constexpr double kNvlsNode = 25, kNvlsNetwork = 18, kNvlsTreeNetwork = 20.9;

// By log2 of the size over 64 bytes.
constexpr double kTreeCorrection[3][24] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}};

// Likewise of LL128, up to 2.9.
constexpr double kOldTreeCorrection[24] = {1,  1,  1,  1,  1,  .9, .8, .8, .8, .7,  .6,  .6,
                                           .6, .5, .6, .6, .7, .7, .8, .9, .9, .92, .92, 1};

// GB/s per channel that the search tries: between devices of a node, and of a NIC.
constexpr double kOldNode[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kOldNic[] = {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, .24, .12};
constexpr double kHopperNode[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kHopperNic[] = {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, .24, .12};
constexpr double kBlackwellNode[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double kBlackwellNic[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,  22,
                                    20, 17.5, 15, 12, 6,    3,  2.4, 1.2, .24, .12};

std::span<const double> Speeds(int age, bool nic) {
  if (age >= 3) return nic ? std::span<const double>(kBlackwellNic) : kBlackwellNode;
  if (age == 2) return nic ? std::span<const double>(kHopperNic) : kHopperNode;
  return nic ? std::span<const double>(kOldNic) : kOldNode;
}

double FastestUpTo(std::span<const double> speeds, double most) {
  for (const double s : speeds) {
    if (s <= most) return s;
  }
  return speeds.back();
}

constexpr double kMostChannels = 32;  // in the search
constexpr double kPcieLimit = 12;     // GB/s; PCI_BW
constexpr int kThreads[3] = {512, 640, 512};
constexpr int kThresholds[3] = {8, 8, 64};  // bytes a thread

size_t P(NcclProtocol p) { return static_cast<size_t>(p); }
size_t Row(NcclAlgorithm a) { return a == NcclAlgorithm::kTree ? 1 : 0; }
size_t NodeClass(int nodes) { return nodes <= 2 ? static_cast<size_t>(nodes - 1) : 2; }
int Log2(int n) { return std::bit_width(static_cast<unsigned>(n)) - 1; }
double DivideUp(double a, double b) { return std::ceil(a / b); }
bool IsChain(Communication::Kind kind) { return kind == Communication::kBroadcast || kind == Communication::kReduce; }
// Of a channel in LL128, as NcclVersion::ll128 has them.
size_t Function(Communication::Kind kind) {
  switch (kind) {
    case Communication::kBroadcast: return 0;
    case Communication::kReduce: return 1;
    case Communication::kAllGather: return 2;
    case Communication::kReduceScatter: return 3;
    default: return 4;
  }
}

// GB/s of all links of a device within its node, by data sheet; without cables, of the narrowest path to another.
double DeviceLinks(const Places& places) {
  double narrowest = places.node_bandwidth / 1e9, cables = 0;
  if (places.joints.empty()) return narrowest * (places.pair_cables ? std::max(1, places.RanksPerNode() - 1) : 1);
  for (const Places::Joint& joint : places.joints[0]) {
    if (joint.bandwidth > 0) narrowest = std::min(narrowest, joint.bandwidth / 1e9);
    if (joint.direct) cables += joint.bandwidth / 1e9;
  }
  return cables > 0 ? cables : narrowest;
}

}  // namespace

NcclTuner::NcclTuner(const NcclCosts& costs, const Places& places) : costs_(costs), places_(places) {
  ranks_ = places.ranks(), per_node_ = std::max(1, ranks_ / places.nodes);
  std::vector<std::set<int>> rails(static_cast<size_t>(places.nodes));
  for (size_t r = 0; r < places.rail.size(); ++r) rails[static_cast<size_t>(places.node[r])].insert(places.rail[r]);
  heads_ = std::numeric_limits<int>::max();  // of the node that has the fewest: src/init.cc, initTransportsRank
  for (const std::set<int>& of_node : rails) heads_ = std::min(heads_, static_cast<int>(of_node.size()));
  const NcclGeneration& g = costs.generation();
  const double device = DeviceLinks(places) * g.link / g.link_data_sheet;
  const auto node_speeds = Speeds(g.age, false), nic_speeds = Speeds(g.age, true);
  double speed = 0;  // of one searched channel
  searched_ = 1;
  if (places.nodes == 1) {
    for (const double s : node_speeds) {
      const int fit = std::min(static_cast<int>(kMostChannels), static_cast<int>(device / s + 1e-9));
      if (fit >= 1 && fit * s > searched_ * speed) searched_ = fit, speed = s;
    }
    if (speed == 0) speed = std::min(device, node_speeds.back());
  } else {
    searched_ = heads_;
    const double inside = per_node_ > 1 ? device / heads_ : 1e9;
    speed = FastestUpTo(nic_speeds, std::min(inside, places.bandwidth / 1e9 + 1e-9));
  }
  ring_ = tree_ = searched_ * speed;
  // A tree over two nodes may use more of the links inside than its NICs carry.
  if (places.nodes == 2 && per_node_ > 1) tree_ = std::min({2 * ring_, device});
  const bool doubles = speed >= 25 && (g.age < 2 || speed >= 50 || searched_ <= 4);
  if (doubles) searched_ = std::min(static_cast<int>(kMostChannels), 2 * searched_);
  channels_ = costs.channels > 0 ? costs.channels : std::min(64, 2 * searched_);
  message_channels_ = static_cast<int>(std::bit_ceil(static_cast<unsigned>(std::min(32, channels_))));
  const double pair = DeviceLinks(places) / (places.pair_cables ? std::max(1, per_node_ - 1) : 1);
  const int wanted = places.pcie_in_node ? 2 : 2 * std::max(1, static_cast<int>(pair / g.link_data_sheet + 1e-9));
  node_message_channels_ = std::min(message_channels_, static_cast<int>(std::bit_ceil(static_cast<unsigned>(wanted))));
  network_message_channels_ = std::max(2, static_cast<int>(DivideUp(places.bandwidth / 1e9, 14)));
  network_message_channels_ =
      std::min(message_channels_, static_cast<int>(std::bit_ceil(static_cast<unsigned>(network_message_channels_))));
  while (network_message_channels_ > 1 && network_message_channels_ * DivideUp(ranks_, 8) > message_channels_)
    network_message_channels_ /= 2;
}

double NcclTuner::BusBandwidth(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind) const {
  const NcclGeneration& g = costs_.generation();
  const NcclVersion& v = *costs_.version;
  const size_t nodes = NodeClass(places_.nodes);
  const bool all_reduce = kind == Communication::kAllReduce;
  const double most = g.age == 1 ? v.ampere_most : 1e9, ring = std::min(ring_, most);
  const double ll128 = v.ll128[Function(kind)];
  const double ring_ll128 = ll128 > 0 ? ll128 : g.ring_ll128[nodes],
               tree_ll128 = ll128 > 0 ? ll128 : g.tree_ll128[nodes];
  const double tree_channel = g.age == 1 && v.ampere_tree[nodes] > 0 ? v.ampere_tree[nodes] : g.tree[nodes];
  // Between nodes NCCL looks at the vendor of the host: Intel's row is Volta's, AMD's Ampere's.
  const double ll = places_.nodes == 1     ? g.ll[0]
                    : costs_.post > 1.5e-6 ? std::array{0., 22.5, 19.0}[nodes]
                                           : std::array{0., 39.0, 20.4}[nodes];
  switch (a) {
    case NcclAlgorithm::kRing:
      if (p == NcclProtocol::kLL) {
        const bool copies = places_.nodes == 1 && !all_reduce && kind != Communication::kReduce;
        return std::min(ll, ring * (copies ? v.ring_ll_copies : v.ring_ll));
      }
      if (p == NcclProtocol::kLL128)
        return std::min(ring * (per_node_ == 1 ? v.ring_ll128_alone : 0.92), searched_ * ring_ll128);
      return ring;
    case NcclAlgorithm::kTree: {
      const double tree = std::min(std::min(tree_, most) * 0.92, searched_ * tree_channel);
      if (p == NcclProtocol::kLL) return std::min(tree / 3.8, ll);
      if (p == NcclProtocol::kLL128)
        return std::min(tree * (places_.nodes == 1 ? 7.0 / 9 : v.tree_between), searched_ * tree_ll128);
      return tree;
    }
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree: {
      const int heads = nvls_heads();
      if (heads < 2) return 0;
      const double device = DeviceLinks(places_) * g.link / g.link_data_sheet;
      const double total = device * per_node_ / std::max(1, per_node_ - 1);
      double inside = FastestUpTo(Speeds(g.age, false), std::min(device, total / heads));
      inside *= g.nvls_efficiency * (heads - 1) / heads;
      inside *= all_reduce ? 2 : (per_node_ - 1.0) / per_node_;
      if (a == NcclAlgorithm::kNvls) return heads * inside;
      const double nic = FastestUpTo(Speeds(g.age, true), places_.bandwidth / 1e9 + 1e-9) * heads_ / heads;
      return heads * std::min({inside, nic * (places_.nodes <= 2 ? 2 : 1), g.nvls_tree[nodes]});
    }
    case NcclAlgorithm::kPat: return ring * 0.75;
    case NcclAlgorithm::kDirect: return 0;
  }
  return 0;
}

// Between nodes of several NICs each channel begins at its own, so channels differ in their order of devices: NCCL then
// counts every hop of a chain, and chunks as long as a tree's in Simple. Else it expects successive chunks to hide all
// hops but one.
double NcclTuner::ChainLatency(NcclProtocol p) const {
  const NcclVersion& v = *costs_.version;
  const bool differ = places_.nodes > 1 && heads_ > 1;
  const auto& of = places_.nodes > 1 ? v.network : places_.pcie_in_node ? v.pcie : v.nvlink;
  const double hop = of[differ && p == NcclProtocol::kSimple ? 1 : 0][P(p)];
  return v.base[0][P(p)] + (differ ? ranks_ : 1) * hop;
}

double NcclTuner::Latency(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind) const {
  const int nodes = places_.nodes;
  const bool all_reduce = kind == Communication::kAllReduce;
  const NcclVersion& v = *costs_.version;
  const auto& inside_of = places_.pcie_in_node ? v.pcie : v.nvlink;
  const double times = nodes > 1 && p == NcclProtocol::kLL ? v.node_ll_times : 1;
  const double inside = inside_of[Row(a)][P(p)] * times;
  const double network = v.network[v.posts && per_node_ == 1 ? 1 : Row(a)][P(p)];
  switch (a) {
    case NcclAlgorithm::kRing: {
      if (IsChain(kind)) return ChainLatency(p);
      const int steps = all_reduce ? 2 * (ranks_ - 1) : ranks_ - 1, far = nodes == 1 ? 0
                                                                          : all_reduce && v.ring_counts_nodes
                                                                              ? 2 * nodes
                                                                              : steps / (ranks_ - 1) * (nodes - 1);
      const double post = nodes == 1 || !v.posts ? 0 : costs_.post * 1e6 * (p == NcclProtocol::kSimple ? 3 : 1);
      return v.base[0][P(p)] + (steps - far) * std::max(inside, post) + far * network;
    }
    case NcclAlgorithm::kTree: return v.base[1][P(p)] + 2 * ((per_node_ - 1) * inside + Log2(nodes) * network);
    case NcclAlgorithm::kNvls: return kNvlsNode + (nodes > 1 ? kNvlsNetwork : 0);
    case NcclAlgorithm::kNvlsTree: return kNvlsNode + 2 * Log2(nodes) * kNvlsTreeNetwork;
    case NcclAlgorithm::kPat: return 8 + Log2(nodes) * v.network[1][2] / 3.5 + ranks_ * 2.8;
    case NcclAlgorithm::kDirect: return 0;
  }
  return 0;
}

double NcclTuner::SimplePlateau(double bytes) const {
  const NcclVersion& v = *costs_.version;
  const double least = v.plateau_by_ranks ? 4096.0 * ranks_ : 64.0 * channels_ * ranks_;
  if (places_.nodes == 1 || bytes < least) return 1;
  return costs_.generation().age < 1 ? 1.9 : v.plateau;
}

double NcclTuner::Seconds(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind, double bytes) const {
  const bool all_reduce = kind == Communication::kAllReduce;
  const bool gathers = kind == Communication::kAllGather || kind == Communication::kReduceScatter;
  if (p == NcclProtocol::kLL128 && (places_.pcie_in_node || (places_.nodes > 1 && !costs_.ll128_between_nodes)))
    return -1;
  const bool nvls = a == NcclAlgorithm::kNvls || a == NcclAlgorithm::kNvlsTree;
  if (a == NcclAlgorithm::kPat && (!costs_.pat || !costs_.version->nvls || places_.nodes != ranks_)) return -1;
  if (nvls && !costs_.version->nvls) return -1;
  if (a == NcclAlgorithm::kNvls && gathers && per_node_ > 32) return -1;
  if (a != NcclAlgorithm::kRing && !all_reduce && !gathers) return -1;
  double bandwidth = BusBandwidth(a, p, kind), latency = Latency(a, p, kind);
  if (bandwidth <= 0) return -1;
  // From bus bandwidth to that of the algorithm; NCCL leaves it out where gathering algorithms are no rings.
  const double steps = all_reduce ? 2.0 * (ranks_ - 1) : gathers ? ranks_ - 1.0 : ranks_;
  if (a == NcclAlgorithm::kTree)
    bandwidth *= 0.5;
  else if (a == NcclAlgorithm::kRing || all_reduce)
    bandwidth *= ranks_ / steps;
  const auto size = static_cast<uint64_t>(bytes) >> 6;
  const int log_size = size == 0 ? -1 : std::bit_width(size) - 1;
  const bool corrected = a == NcclAlgorithm::kTree || (a == NcclAlgorithm::kNvlsTree && costs_.generation().age >= 3);
  if (corrected && all_reduce && log_size >= 0 && log_size < 23) {
    const bool old = p == NcclProtocol::kLL128 && costs_.version->minor < 10;
    bandwidth *= old ? kOldTreeCorrection[log_size] : kTreeCorrection[P(p)][log_size];
  }
  if (a == NcclAlgorithm::kRing && p == NcclProtocol::kSimple && all_reduce) latency *= SimplePlateau(bytes);
  return latency * 1e-6 + bytes / (bandwidth * 1e9);
}

int NcclTuner::Channels(NcclAlgorithm a, NcclProtocol p, double bytes) const {
  if (a == NcclAlgorithm::kNvls || a == NcclAlgorithm::kNvlsTree)
    return places_.nodes == 1 ? costs_.generation().nvls_channels : costs_.generation().nvls_channels_between;
  const bool slow = places_.nodes == 1 && ring_ <= kPcieLimit && p == NcclProtocol::kSimple;
  double each = (slow ? 256.0 : kThreads[P(p)]) * kThresholds[P(p)];
  if (a == NcclAlgorithm::kRing && p == NcclProtocol::kLL) each *= ranks_;
  return std::clamp(static_cast<int>(bytes / each), 1, channels_);
}

NcclTuner::MessagePlan NcclTuner::Message(double bytes, bool between) const {
  const int most = between ? network_message_channels_ : node_message_channels_;
  int least = most;
  while (least > 1 && least * ranks_ > message_channels_) least /= 2;
  // On NVLink chunks have 512 KiB, on PCIe and between nodes 128.
  const double chunk = places_.nodes > 1 || places_.pcie_in_node ? kNetworkChunk : 4 * kNetworkChunk;
  const double low = places_.nodes > 1 ? chunk / 2 : chunk / 8, high = places_.nodes > 1 ? chunk : chunk * 32;
  int channels = std::clamp(static_cast<int>(DivideUp(bytes, low)), 1, least);
  while (bytes / channels > high && channels <= most / 2) channels *= 2;
  // NCCL has LL buffers for messages within a node alone.
  const bool ll = !between && bytes <= channels * 16384.0;
  return {channels, ll ? NcclProtocol::kLL : NcclProtocol::kSimple};
}

double NcclTuner::TreeChunk(NcclProtocol p, double bytes) const {
  // NCCL's buffers over its 8 steps (src/include/device.h, src/init.cc).
  double chunk = std::array{32768.0, 576000.0, 524288.0}[P(p)];
  const double each = bytes / Channels(NcclAlgorithm::kTree, p, bytes);
  if (p == NcclProtocol::kLL128) {
    const double steps = (1 + Log2(places_.nodes) + 0.1 * per_node_) / per_node_;
    while (each / chunk < steps * 64 && chunk > 131072) chunk /= 2;
    while (each / chunk < steps * 16 && chunk > 32768) chunk /= 2;
  }
  return std::min(each, chunk);
}

int NcclTuner::nvls_heads() const { return std::min(32, per_node_); }

double NcclTuner::NvlsChunk(double bytes) const {
  const double at_once =
      nvls_heads() * static_cast<double>(Channels(NcclAlgorithm::kNvls, NcclProtocol::kSimple, bytes));
  double chunk = 128 << 10;
  for (const auto& [times, smaller] : {std::pair{64.0, 65536.0}, {8.0, 32768.0}, {2.0, 16384.0}}) {
    if (bytes < times * at_once * chunk && chunk > smaller) chunk = smaller;
  }
  return chunk;
}

}  // namespace twofold::sim
