// The generations of an elastic run of processes (core/run/membership.h), as one of them sees it: members ask the
// control plane for the next one, and connect anew.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/control/client.h"
#include "backends/host/membership_events.h"
#include "backends/host/rank.h"
#include "backends/processes/group.h"
#include "backends/processes/lost_at.h"
#include "backends/processes/session.h"
#include "core/run/membership.h"

namespace twofold::processes {

// Connects this process with the other members of a new generation, of which it has rank `rank`. Collective over them,
// on the rank's thread. `world` has the members' numbers. Throws PeerLost if some member cannot be reached within
// `timeout_s`, or Session::Disconnect is called meanwhile.
using Reconnect = std::function<std::unique_ptr<Group>(
    Session& session, std::shared_ptr<const host::GroupIdentity> world, int rank, double timeout_s,
    const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats)>;

// The group of all members of a generation.
std::shared_ptr<const host::GroupIdentity> WorldOf(const control::Generation& generation);
// More than any member's number.
int NumbersOf(const control::Generation& generation);

// One per process and run. Used from the rank's thread, apart from the constructor.
class Generations {
 public:
  // `first`: the generation in which this process begins. All arguments must outlive it.
  Generations(Session& session, host::Process& process, host::Rank& rank, control::Generation first,
              Reconnect reconnect, host::MembershipEvents events);

  // The rank's group of all members; to be made by the caller in the run's first generation.
  std::unique_ptr<Group> world;
  // For a process that came late: connects it with the members of the generation that let it in, or of a later one if
  // some are lost meanwhile. Throws PeerLost if there is none.
  void Come(const ReformOptions& options);
  RankContext::Parts::Membership Membership();
  int member() const { return session_.control().member(); }

 private:
  RankContext::Parts::Membership::Next Reform(const ReformOptions& options);
  void Enter(control::Generation next);
  bool Connects(double timeout_s);
  void TellTime();
  int rank() const;
  bool EndsAfter(int64_t step);
  std::vector<std::string> Exchange(std::string bytes);
  void BeginStep(int64_t step);
  void ExpectLoss();
  host::RunState& run() const { return rank_.state()->run; }
  [[noreturn]] void Throw(const absl::Status& why, const char* doing);

  Session& session_;
  host::Process& process_;
  host::Rank& rank_;
  control::Generation generation_;
  const Reconnect reconnect_;
  const host::MembershipEvents events_;
  std::vector<std::unique_ptr<host::RunState>> runs_;  // of later generations: threads may still look at old ones
  std::unique_ptr<Group> previous_;                    // groups that are about to be destroyed may refer to it
  std::vector<int> unconnected_;                       // members of the last generation that could not connect
  bool expects_loss_ = false;                          // the events have been looked at
  LostAt loss_;
};

}  // namespace twofold::processes
