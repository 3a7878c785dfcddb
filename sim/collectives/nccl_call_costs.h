// What an NCCL call costs by one algorithm and protocol; nccl.h says how.
#pragma once

#include <array>
#include <limits>

#include "sim/collectives/nccl_call_routes.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/nccl_tuner.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

struct NcclWay {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
};

// What one call costs by one way, apart from what its links take.
struct NcclCallCosts {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  double seconds = 0;                                         // at the beginning of the call
  std::array<double, 2> hop;                                  // of a hop in a node, between nodes; includes the wire
  double payload = 0;                                         // bytes, instead of the call's
  double most = kNoLimit;                                     // payload per second that a device's channels carry
  std::array<double, 2> message_rate = {kNoLimit, kNoLimit};  // direct: of a message, in a node and between nodes
  bool all_messages = false;                                  // direct: the hops are all the messages of their NICs
  double at_least = 0;                                        // seconds of the whole call
  std::array<bool, 2> hidden = {false, false};                // such hops of the path cost nothing
};

// A call of some shape among some places.
class NcclCall {
 public:
  // All must outlive it.
  NcclCall(const NcclCosts& costs, const NcclTuner& tuner, const CollectiveShape& shape, const Places& places)
      : costs_(costs), tuner_(tuner), shape_(shape), places_(places) {}
  const NcclTuner& tuner() const { return tuner_; }
  const CollectiveShape& shape() const { return shape_; }
  const Places& places() const { return places_; }

  NcclCallCosts Costs(const NcclWay& way, const NcclRoute& route) const;
  // Seconds of the whole call, alone on its links, but for `c.at_least`.
  double Estimate(const NcclWay& way, NcclCallRoutes::Made& made, const NcclCallCosts& c) const;
  int Multiprocessors(const NcclWay& way) const;  // of each device, one for each channel of the call

 private:
  void AddRing(const NcclWay& way, const NcclRoute& route, int channels, NcclCallCosts& c) const;
  void AddMessages(const NcclWay& way, const NcclRoute& route, NcclCallCosts& c) const;

  const NcclCosts& costs_;
  const NcclTuner& tuner_;
  const CollectiveShape& shape_;
  const Places& places_;
};

}  // namespace twofold::sim
