// What NCCL's steps cost: latencies by algorithm and protocol, the payload that links and channels carry, and the
// constants by which NCCL itself chooses (nccl_tuner.h).
//
// Law of a ring (n ranks, c channels, parts of S/n): NCCL's primitives are send, n - 2 times receive-and-send (twice of
// it for all_reduce), receive (src/device/all_gather.h, reduce_scatter.h, all_reduce.h). So a call takes its base, a
// latency per step, the parts over the links or over what c channels carry, and at last each device copies one part
// alone: S/n over `local`. Laws of trees, NVLS and messages: nccl.h.
// Calibrated from: GPUs of one node, nccl-tests (github.com/ai-dynamo/aiconfigurator at 095f58a: A100 with NCCL 2.27.3,
// H100 with 2.23 to 2.29.2, B200 with 2.27.5 to 2.29.2; fitted to logarithms of times, experiments/studies/
// collective_sweeps says how). Channels in Simple: H100's from send_recv of 8 (h100_cluster there); A100's in Simple
// and LL128 as NCCL believes of LL128, since rings of one node, which have all channels, tell their sum alone; B200's
// at least as its rings over four nodes need (p6_b200 there). Volta: as Ampere. RCCL (cdna2, cdna3): bandwidth of a
// link and latencies by its source (github.com/ROCm/rccl at 0cbce2a7: src/graph/topo.h MI200_XGMI_WIDTH,
// GFX94X_XGMI_WIDTH; src/graph/tuning.cc baseLat, tuning_model_5). Between nodes: hops in LL, and of trees in LL128,
// are NCCL's own constants. Simple moves chunks through NCCL's proxy and takes five times NCCL's 14 us in a ring on AWS
// P6-B200 (EFA) and Polaris (Slingshot), three times in a tree on Polaris: all networks are assumed to be alike in
// this, and rings in LL128 to take five times NCCL's 4 us, which no calibration shows. TCP: Polaris without its plugin
// (argonne-lcf/alcf-nccl-tests at 385be33, env1, two nodes). Slingshot: Polaris, two nodes. A NIC carries 96 % of its
// rate (NCCL's 12 of 12.5 GB/s), a tree 92 % of what a ring does (NCCL's tuning.cc). NCCL has no constants for
// `direct`: messages to several peers overlap, so a peer on another node costs a hop of ring LL, or the posts of its
// message. Ignores: user tuner plugins; that small tensors stay in a device's L2 cache.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/device/estimate.h"
#include "core/proto/cluster.pb.h"
#include "sim/collectives/nccl_versions.h"

namespace twofold::sim {

enum class NcclAlgorithm { kRing, kTree, kNvls, kNvlsTree, kPat, kDirect };
enum class NcclProtocol { kLL, kLL128, kSimple };
inline constexpr std::array<std::string_view, 6> kNcclAlgorithms = {"ring",      "tree", "nvls",
                                                                    "nvls_tree", "pat",  "direct"};
inline constexpr std::array<std::string_view, 3> kNcclProtocols = {"LL", "LL128", "Simple"};
std::string Names(std::span<const std::string_view> names);  // "ring, tree"
std::optional<NcclAlgorithm> NcclAlgorithmNamed(std::string_view name);
std::optional<NcclProtocol> NcclProtocolNamed(std::string_view name);

// Of measured over predicted times of 1 MiB and more, the 10th and the 90th percentile over rows that no constant was
// fitted to: 628 within a node, 101 between nodes (experiments/studies/collective_sweeps, which checks these figures).
inline constexpr Range kSpreadWithinNode{0.91, 1.11}, kSpreadBetweenNodes{0.89, 1.38};

// Constants of a GPU generation. By protocol where there are three; GB/s and microseconds.
struct NcclGeneration {
  std::string_view name;
  bool rccl;
  int age;  // 0: Volta, 1: Ampere, 2: Hopper, 3: Blackwell
  // ---- What NCCL believes (nccl_tuner.h). By nodes: one, two, more ----
  double link, link_data_sheet;  // of one NVLink
  int nvls_channels, nvls_channels_between;
  double nvls_efficiency;
  std::array<double, 3> ll, ring_ll128, tree, tree_ll128, nvls_tree;
  // ---- What is measured ----
  std::array<double, 3> base, hop;  // of a ring in a node
  std::array<double, 3> share;      // payload over a device's links in a node, by data sheet
  std::array<double, 3> channel;    // payload of one channel
  double local;                     // at which a device copies its last part
  double nvls_base, nvls_share;     // of a call; of the links by data sheet
  double nvls_fills;                // how many times its chunks pass alone before the pipeline is full
  // Of direct. `message_local`: at which a device copies the part of all_to_all that it keeps
  std::array<double, 3> message_base, message_channel;
  double message_share, message_local;
};

struct NcclHops {
  double base, node, network;
};  // seconds: per call, per hop inside a node, per hop between nodes

struct NcclCosts {
  const NcclGeneration* row;                       // never null
  const NcclVersion* version;                      // likewise
  std::array<std::array<NcclHops, 3>, 6> latency;  // by algorithm and protocol
  std::array<std::array<double, 3>, 6> channel;    // bytes of payload a second that one channel carries within a node
  int channels;                                    // 0: what NCCL's search finds
  double nvlink_share, nvls_share, network_share, messages_network_share, ll_network_share;
  double local;  // bytes per second
  double call;   // seconds
  double post;   // seconds of the host to post one network message
  // Whether a NIC's messages wait for each other in the host's library (libfabric's on Slingshot)
  bool serial_posts;
  bool ll128_between_nodes, pat;
  // direct: a message between nodes of fewer bytes costs so many seconds more.
  double short_message_bytes, short_message;

  const NcclGeneration& generation() const { return *row; }
  const NcclHops& Latency(NcclAlgorithm a, NcclProtocol p) const {
    return latency[static_cast<size_t>(a)][static_cast<size_t>(p)];
  }
  double Channel(NcclAlgorithm a, NcclProtocol p) const {
    return channel[static_cast<size_t>(a)][static_cast<size_t>(p)];
  }
  // Payload over bytes on the wire, on links inside a node or between nodes.
  double Share(NcclAlgorithm a, NcclProtocol p, bool between) const;
};

// Errors name the field below library.nccl, its value and what would be right. `rccl`: of library rccl.
absl::StatusOr<NcclCosts> ReadNcclCosts(const cluster::Nccl& nccl, bool rccl);

}  // namespace twofold::sim
