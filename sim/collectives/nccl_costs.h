// What NCCL's steps cost: latency by algorithm and protocol, the share of a link that a protocol leaves for payload,
// and the maximum throughput of the GPUs' channels.
//
// Assumes: the constants by which NCCL itself chooses are its costs (github.com/NVIDIA/nccl at 5067397c:
// src/graph/tuning.cc baseLat, hwLat, llMaxBws, perChMaxRingLL128Bws, perChMaxTreeBws, perChMaxTreeLL128Bws,
// nvlsEfficiency; src/graph/topo.h LOC_BW ... SM*_NVLINK_BW), unless a cluster file says otherwise. NCCL has no
// constants for `direct`: messages to several peers overlap, so a peer in the node costs a hop of ring Simple, and a
// peer on another node only a hop of ring LL. Between nodes a tree reaches half of the NIC bandwidth of a ring: NCCL
// assumes half a ring's algorithm bandwidth for trees, and a tree over two nodes has half a ring's bytes.
// Ignores: the table of corrections for trees by size, PCIe as the path between GPUs of a node, user tuner plugins.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"

namespace twofold::sim {

enum class NcclAlgorithm { kRing, kTree, kNvls, kNvlsTree, kDirect };
enum class NcclProtocol { kLL, kLL128, kSimple };
inline constexpr std::array<std::string_view, 5> kNcclAlgorithms = {"ring", "tree", "nvls", "nvls_tree", "direct"};
inline constexpr std::array<std::string_view, 3> kNcclProtocols = {"LL", "LL128", "Simple"};
std::string Names(std::span<const std::string_view> names);  // "ring, tree"
std::optional<NcclAlgorithm> NcclAlgorithmNamed(std::string_view name);
std::optional<NcclProtocol> NcclProtocolNamed(std::string_view name);

struct NcclHops {
  double base, node, network;
};  // seconds: per call, per hop inside a node, per hop between nodes

struct NcclCosts {
  std::array<std::array<NcclHops, 3>, 5> latency;  // by algorithm and protocol
  int channels;
  double nvlink_share, nvls_share, network_share, messages_network_share, ll_network_share;
  double call;  // seconds
  // direct: a message between nodes of fewer bytes costs so many seconds more.
  double short_message_bytes, short_message;
  // Bytes per second of payload, over all channels; by the number of nodes: one, two or three, more.
  std::array<double, 3> ll_bandwidth, ring_ll128_bandwidth, tree_bandwidth, tree_ll128_bandwidth;

  const NcclHops& Latency(NcclAlgorithm a, NcclProtocol p) const {
    return latency[static_cast<size_t>(a)][static_cast<size_t>(p)];
  }
  // Payload over bytes on the wire, on links inside a node or between nodes.
  double Share(NcclAlgorithm a, NcclProtocol p, int nodes, bool between) const;
  // The maximum payload per second that a GPU's channels send; infinite if no limit is known.
  double Most(NcclAlgorithm a, NcclProtocol p, int nodes) const;
};

// Errors name the field below library.nccl, its value and what would be right.
absl::StatusOr<NcclCosts> ReadNcclCosts(const cluster::Nccl& nccl);

}  // namespace twofold::sim
