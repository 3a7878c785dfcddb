// The least that a simulated rank's own work takes: operations and transfers as its device prices them, communications
// as they run alone on the network. For bounds on what a simulation will say without simulating (plan/bound.h).
//
// Nothing here has costs of its own. Operations take what the cost model of the simulation says, times the factor by
// which all its ranks are slowed. A collective takes the phases of the schedule that its library would choose, each at
// the shares of an otherwise idle network; on the network of a run, its flows meet others and take as long or longer,
// since no link carries more than its bandwidth. Where a library has several candidates, the fastest counts. A measured
// collective takes its measured time.
//
// Under adaptive routing, whose paths depend on the load, a phase takes what its flows need on the links that all
// routes of a pair share: those of the endpoints, their NICs' among them.
//
// What cannot be bounded so takes no time: all-to-all with uneven parts, and schedules that are not bulk-synchronous
// (Open MPI's).
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/comm/communication.h"
#include "core/device/cost_model.h"
#include "core/device/ops.h"
#include "core/proto/spec.pb.h"

namespace twofold {

class LeastTimes {
 public:
  virtual ~LeastTimes() = default;
  // The layout of the run whose communications are asked for next. Of its groups of tp, messages may be copies
  // (ring_copies.h).
  virtual void SetLayout(const spec::Parallel& /*parallel*/) {}
  virtual Seconds Operation(const ops::Op& op) = 0;
  // The standard deviation of the operation's time among devices, as a share of it (fabric.simulated.noise). 0 where
  // some ranks are slowed, which others wait for.
  virtual double Deviation(const ops::Op& op) = 0;
  virtual Seconds Launch(const ops::Op& op) = 0;  // of the host, for this operation; 0 if the host computes
  virtual Seconds Transfer(const Tensor& from, const Tensor& to) = 0;
  // Until the first of `ranks` (world ranks, in the group's order) is done with a collective of so many bytes
  // (Communication::bytes()).
  virtual Seconds Collective(const std::vector<int>& ranks, Communication::Kind kind, double bytes, int root) = 0;
  // What a communication takes of the device that computes beside it, and for how many seconds (sim/network.h:
  // Occupation). 0 seconds: nothing, or nothing that is known before the run.
  struct Occupation {
    double seconds = 0;
    BesideIt takes = {};
  };
  // `rank`: of the group.
  virtual Occupation Occupies(const std::vector<int>& ranks, int rank, const Communication& c) = 0;
  // Of a message of this group between these two: the seconds of its Occupation.
  virtual double MessageOccupies(const std::vector<int>& ranks, int from, int to, double bytes) = 0;
  virtual double Slowdown(const ops::Op& op, const BesideIt& takes) = 0;  // the factor of its time; at least 1
  // What a communication puts on links beside rank `rank` of the group: those on all routes of what this rank sends and
  // receives. In seconds of the link's whole bandwidth: what crosses a link within a time takes no more than that time.
  // Where a library has several candidates, the least counts. Nothing of measured collectives and of those that cannot
  // be bounded. Valid until the next call.
  struct Load {
    int link;
    double seconds;
  };
  virtual const std::vector<Load>& Loads(const std::vector<int>& ranks, int rank, const Communication& c) = 0;
  // Until the receiver, of the same group, has a message. The library may divide it as the group's places allow.
  virtual Seconds Message(const std::vector<int>& ranks, int from, int to, double bytes) = 0;
};

// For runs of specs with this one's fabric, device, framework and number of ranks; their layouts may differ. The same
// errors as MakeSimulatedFabric. Used by one thread.
absl::StatusOr<std::unique_ptr<LeastTimes>> MakeLeastTimes(const spec::Spec& spec);

}  // namespace twofold
