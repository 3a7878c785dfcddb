#include "sim/collectives/nccl_call_costs.h"

#include <algorithm>

namespace twofold::sim {
namespace {

// Bytes of payload of one chunk, by protocol: NCCL's buffers over its 8 steps (src/include/device.h, src/init.cc).
constexpr double kChunk[3] = {32 << 10, 576000, 512 << 10};
// More steps of a ring than this make a NIC's messages queue up, where they do at all: four times NCCL's credits.
constexpr int kMostStepsAtOnce = 4 * NcclTuner::kSteps;

}  // namespace

int NcclCall::Multiprocessors(const NcclWay& way) const {
  if (way.algorithm != NcclAlgorithm::kDirect) return tuner_.Channels(way.algorithm, way.protocol, shape_.bytes);
  if (shape_.kind == Communication::kSend) return tuner_.Message(shape_.bytes, places_.nodes > 1).channels;
  return std::min(tuner_.message_channels(),
                  (shape_.ranks - 1) * tuner_.Message(shape_.bytes / shape_.ranks, places_.nodes > 1).channels);
}

// Between nodes, a hop within a node is no shorter than the host takes to post a message (three in Simple), and the
// transfer of a step hides as much of the next hop between nodes as it takes itself, except for the wire.
void NcclCall::AddRing(const NcclWay& way, const NcclRoute& route, int channels, NcclCallCosts& c) const {
  const auto [a, p] = way;
  const double part = shape_.bytes / shape_.ranks, carried = channels * costs_.Channel(a, p);
  if (route.step_share > 0) c.seconds += part / (p == NcclProtocol::kSimple ? costs_.local : carried);
  if (places_.nodes == 1 || route.step_share == 0) return;
  if (p != NcclProtocol::kLL128) c.hop[0] = std::max(c.hop[0], costs_.post * (p == NcclProtocol::kLL ? 1 : 3));
  const double step = shape_.bytes * route.step_share / (places_.bandwidth * costs_.Share(a, p, true));
  c.hop[1] = std::max(std::min(c.hop[1], places_.alpha), c.hop[1] - step);
  const int steps = shape_.kind == Communication::kAllReduce ? 2 * (shape_.ranks - 1) : shape_.ranks - 1;
  if (!costs_.serial_posts || steps <= kMostStepsAtOnce) return;
  const int far = steps / (shape_.ranks - 1) * (places_.nodes - 1);
  c.at_least = c.seconds + channels * ((steps - far) * 3 * costs_.post + far * 14e-6);
}

void NcclCall::AddMessages(const NcclWay& way, const NcclRoute& route, NcclCallCosts& c) const {
  double message = shape_.bytes / shape_.ranks;
  for (const std::vector<double>& row : shape_.matrix) {
    for (const double bytes : row) message = std::max(message, bytes);
  }
  c.all_messages = shape_.kind != Communication::kSend;
  const double more = message < costs_.short_message_bytes ? costs_.short_message : 0;
  c.seconds += route.node_peers * c.hop[0] + route.network_peers * (std::max(c.hop[1], 3 * costs_.post) + more);
  const int channels = tuner_.Message(message, false).channels;
  const double carried = costs_.Channel(way.algorithm, way.protocol);
  if (route.node_peers > 0 && way.protocol == NcclProtocol::kSimple) {
    c.seconds += std::min(message / channels, kChunk[2]) / carried;  // copied out of the buffer at last
  }
  const bool keeps = shape_.kind == Communication::kAllToAll || shape_.kind == Communication::kAllToAllV;
  if (keeps) c.seconds += message / (costs_.generation().message_local * 1e9);
  c.message_rate = {channels * carried, tuner_.Message(message, true).channels * NcclTuner::kNetworkChannel};
}

NcclCallCosts NcclCall::Costs(const NcclWay& way, const NcclRoute& route) const {
  const auto [a, p] = way;
  const NcclHops& hops = costs_.Latency(a, p);
  const int channels = tuner_.Channels(a, p, shape_.bytes);
  NcclCallCosts c{.seconds = costs_.call + hops.base, .hop = {hops.node, hops.network}, .payload = shape_.bytes};
  if (const int all = Multiprocessors(way); all > 1)
    c.seconds += costs_.version->several_channels + (all - 1) * costs_.version->each_channel;
  switch (a) {
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
      c.payload += costs_.generation().nvls_fills *
                   std::min(shape_.bytes,
                            tuner_.Channels(a, p, shape_.bytes) * tuner_.nvls_heads() * tuner_.NvlsChunk(shape_.bytes));
      break;
    case NcclAlgorithm::kDirect: AddMessages(way, route, c); break;
    case NcclAlgorithm::kPat: c.seconds += shape_.ranks * 2.8e-6; break;  // NCCL: "still a linear part"
    case NcclAlgorithm::kRing:
    case NcclAlgorithm::kTree: {
      c.most = channels * costs_.Channel(a, p);
      if (route.step_share == 0) {  // trees and chains hand on a whole chunk at a time
        const double chunk = a == NcclAlgorithm::kTree
                                 ? tuner_.TreeChunk(p, shape_.bytes)
                                 : std::min(shape_.bytes / channels, kChunk[static_cast<size_t>(p)]);
        if (shape_.follows && a == NcclAlgorithm::kRing) c.hidden = {true, p == NcclProtocol::kLL};
        c.hop[0] += chunk / costs_.Channel(a, p);
        // Between nodes the channels of a NIC hand on theirs one after the other.
        const double nic = places_.bandwidth * costs_.Share(NcclAlgorithm::kRing, p, true);
        c.hop[1] += std::max(chunk / costs_.Channel(a, p), channels * chunk / (tuner_.heads() * nic));
      }
      AddRing(way, route, channels, c);
      break;
    }
  }
  return c;
}

double NcclCall::Estimate(const NcclWay& way, NcclCallRoutes::Made& made, const NcclCallCosts& c) const {
  const auto [a, p] = way;
  double seconds = c.seconds;
  for (const NcclPhaseSums& sums : made.SumsOf(places_)) {
    double longest = 0;
    for (const size_t at : {0, 1}) {
      if (!c.hidden[at]) seconds += sums.crossings[at] * c.hop[at];
      longest = std::max(longest, c.payload * sums.most_share[at] / c.message_rate[at]);
    }
    seconds +=
        std::max({longest, c.payload * sums.busiest.device / (places_.node_bandwidth * costs_.Share(a, p, false)),
                  c.payload * sums.busiest.nic / (places_.bandwidth * costs_.Share(a, p, true))});
  }
  return std::max(seconds, c.payload * made.route.device_share / c.most);
}

}  // namespace twofold::sim
