// How NCCL chooses: its own estimate of a call's time, and how many channels a call gets. What a call then takes is
// nccl_costs.h's: NCCL's choice is often not the fastest.
//
// Source: github.com/NVIDIA/nccl at 5067397c (2.29): src/graph/tuning.cc (ncclTopoTuneModel, ncclTopoGetAlgoTime and
// their tables: LL and per-channel maxima, nvlsEfficiency, the correction of trees by size, the plateau of ring Simple
// between nodes, getNetOverhead; what differs by version: nccl_versions.h), src/graph/search.cc (speeds that the search
// tries per channel, duplicated channels), src/graph/connect.cc (twice the searched channels), src/graph/topo.h
// (bandwidth of an NVLink), src/enqueue.cc (topoGetAlgoInfo: channels by size; scheduleP2pTasksToPlan, addP2pToPlan:
// channels of a message), src/graph/paths.cc (channels per peer), src/transport/nvls.cc (channels and chunks of NVLS),
// src/include/comm.h (thread thresholds). RCCL (github.com/ROCm/rccl at 0cbce2a7) decides with other tables, per
// system: library rccl takes what costs least instead.
//
// Assumes: the search finds as many channels as links and NICs allow; hosts of several nodes count as Intel's in NCCL's
// table of LL if a message costs them 1 us, as AMD's if 2; NICs report no latency of their own.
//
// Ignores: CollNet, tuner plugins, environment variables, versions before 2.8, what versions before 2.18 had for Hopper
// (NVLS and its own plateau and trees).
#pragma once

#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

class NcclTuner {
 public:
  NcclTuner(const NcclCosts& costs, const Places& places);
  // NCCL's estimate in seconds; negative: NCCL would not consider it for this call.
  double Seconds(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind, double bytes) const;
  // Channels of a collective of so many bytes.
  int Channels(NcclAlgorithm a, NcclProtocol p, double bytes) const;
  // Channels of one message, and its protocol: LL or Simple.
  struct MessagePlan {
    int channels;
    NcclProtocol protocol;
  };
  MessagePlan Message(double bytes, bool between) const;
  int message_channels() const { return message_channels_; }  // of a device, for all its messages
  // NVLS: bytes of a chunk, by the bytes of the call.
  double NvlsChunk(double bytes) const;
  // Trees: bytes of payload that a hop hands on at a time.
  double TreeChunk(NcclProtocol p, double bytes) const;
  int heads() const { return heads_; }                // NICs of a node that the group uses, of the node with the fewest
  int nvls_heads() const;                             // devices of a node among which NVLS splits the data
  static constexpr int kSteps = 8;                    // NCCL_STEPS: chunks in flight on a connection
  static constexpr double kNetworkChunk = 128 << 10;  // bytes; NCCL_P2P_NET_CHUNKSIZE
  // Bytes per second that NCCL expects of one channel of messages between nodes; NCCL_P2P_PER_CHANNEL_NET_BW
  static constexpr double kNetworkChannel = 14e9;

 private:
  double BusBandwidth(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind) const;  // GB/s
  double Latency(NcclAlgorithm a, NcclProtocol p, Communication::Kind kind) const;       // microseconds
  double ChainLatency(NcclProtocol p) const;                                             // microseconds
  double SimplePlateau(double bytes) const;

  const NcclCosts& costs_;
  const Places& places_;
  int ranks_, per_node_, heads_;
  double ring_, tree_;  // GB/s, over all searched channels
  int searched_, channels_, message_channels_, node_message_channels_, network_message_channels_;
};

}  // namespace twofold::sim
