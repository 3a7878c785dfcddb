// The generations of a simulated run (core/run/membership.h): losses and arrivals are events of virtual time.
//
// A member's loss ends the generation at once: the others know of it when they next wait. They are all in the next one,
// which begins when the last of them asks for it, and no earlier than the loss. Only a member that hangs
// (fabric.simulated.faults) can be too late: then the others go on without it. fabric.simulated.membership says how
// long it takes until a loss is known, until members have agreed, and until newcomers are ready.
//
// Belongs to the simulating thread. Members are named by their numbers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/host/membership_events.h"
#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "core/run/membership.h"

namespace twofold {

class SimulatedGenerations {
 public:
  struct Shared {
    Generation generation;
    std::shared_ptr<SimulatedGroup> everyone;
    double begins = 0;  // virtual time
  };

  // `everyone`: of generation 0. `start` starts a newcomer's actor.
  SimulatedGenerations(SimulatedWorld& world, std::shared_ptr<SimulatedGroup> everyone, host::MembershipEvents events,
                       const spec::MembershipCosts& costs, std::function<void(int member)> start);

  std::shared_ptr<const Shared> Of(int member) const { return latest_.at(member); }
  // Some member may hang: those that have not asked ReformOptions::timeout_s after the first one are left behind.
  void ExpectHangs() { may_hang_ = true; }
  // The others form a generation that this member is not in: it came too late.
  bool HasGoneOnWithout(int member) const { return Of(member) != present_; }
  // Called by a live member. Returns when the next generation has begun. Throws PeerLost if there is none, or if it
  // began without this member.
  std::shared_ptr<const Shared> Reform(SimulatedRank& rank, const ReformOptions& options);
  bool EndsAfter(SimulatedRank& rank, int64_t step);
  std::vector<std::string> Exchange(SimulatedRank& rank, std::string bytes);
  // The member begins the step after `steps` steps. Throws if an event says that it is lost by now.
  void BeginStep(SimulatedRank& rank, int64_t steps);
  // Throws if an event says that the member is lost at this time. Call before each of its calls.
  void ThrowIfLost(SimulatedRank& rank) const;
  // Its function has ended at this time. `fine`: it has returned a result.
  void Leave(int member, double time, bool fine);

  bool fine() const { return fine_; }  // some member has returned a result
  // Why no further generation could be formed; empty: that was not tried, or one was.
  const std::string& over() const { return over_; }
  int members() const { return static_cast<int>(latest_.size()); }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void ThrowIfDue(SimulatedRank& rank, int64_t steps) const;
  bool AllHaveAsked() const;
  void LeaveBehind();
  int Arriving(double time) const { return events_.Arrived(time, reached_, costs_.arrive_s()) - newcomers_; }
  void Commit(double time);

  SimulatedWorld& world_;
  const host::MembershipEvents events_;
  const spec::MembershipCosts costs_;
  const std::function<void(int)> start_;
  std::shared_ptr<const Shared> present_;
  std::map<int, std::shared_ptr<const Shared>> latest_;  // by member
  std::set<int> asked_, left_, finished_;                // members of the present generation; of all; some of these
  double asked_at_ = 0;                                  // when the last of those who asked did, or a member was lost
  sim::TimePointPtr commits_;                            // while some have asked
  int newcomers_ = 0;                                    // that have been let in
  bool fine_ = false, may_hang_ = false;
  std::string over_;
  std::map<std::pair<int, int64_t>, bool> ends_after_;  // by generation and step: decided by the first who asked
  int64_t begun_ = -1;                                  // the latest step that some member has begun
  host::MembershipEvents::Reached reached_;             // by the steps asked about
  struct Exchanged {
    std::map<int, std::string> bytes;  // by member
    double latest = 0;
    sim::TimePointPtr all = std::make_shared<sim::TimePoint>();
  };
  std::map<std::pair<int, uint64_t>, std::shared_ptr<Exchanged>> exchanges_;  // by generation and number
  std::map<int, uint64_t> exchanged_;  // by member: exchanges begun in its generation
  std::vector<std::string> notes_;
};

}  // namespace twofold
