// The generations of an in-memory run (core/run/membership.h): which threads are members, and how they form the next
// generation.
//
//   together   members work; the generation may have failed already
//   reforming  a member has called Reform; ends when all live members have, or the first one's time-out has passed
//
// Thread-safe. Members are named by their numbers.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/host/membership_events.h"
#include "backends/host/run_state.h"
#include "backends/in_memory/group_state.h"
#include "core/run/membership.h"

namespace twofold::in_memory {

class Generations {
 public:
  // A generation with what its members share. Kept until the run has ended, because members that were lost may still
  // use it.
  struct Shared {
    Generation generation;
    host::RunState* run = nullptr;
    std::shared_ptr<GroupState> everyone;
    int RankOf(int member) const;  // -1: not a member
  };

  // Generation 0 has the members 0 to ranks - 1 and the run's first state, which must outlive this object. `links` as
  // in GroupState. `start` starts a newcomer's thread; it is called with the lock held and must not wait.
  Generations(host::RunState& first, int ranks, bool elastic, host::MembershipEvents events,
              std::shared_ptr<Links> links, std::function<void(int member)> start);

  std::shared_ptr<const Shared> Of(int member) const;  // the generation that it belongs to, or belonged to last
  std::shared_ptr<const Shared> Present() const;
  int members() const;  // that there ever were

  // Called by a live member. Blocks until the next generation has begun. Throws PeerLost if it is not in it.
  std::shared_ptr<const Shared> Reform(int member, const ReformOptions& options);
  bool EndsAfter(int member, int64_t step);
  std::vector<std::string> Exchange(int member, std::string bytes);
  // The member begins the step after `steps` steps. Throws if an event says that it is lost by now.
  void BeginStep(int member, int64_t steps);
  // Throws if an event says that the member is lost at this time. Call before each of its calls.
  void ThrowIfLost(int member) const;
  void Leave(int member, bool fine);  // its function has ended; `fine`: it has returned a result

  // Of the run, once all members have left. In elastic runs it is fine if some member has returned a result: losses
  // before or after that were survived.
  absl::Status status() const;
  // For the report: which members were lost or came, in words.
  std::vector<std::string> Notes() const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  void ThrowIfDue(int member, int64_t steps) const;
  bool AllHaveAsked() const;
  int Arriving() const;
  void Commit();
  [[noreturn]] void ThrowLeftOut(int member) const;

  const host::MembershipEvents events_;
  const std::shared_ptr<Links> links_;
  const std::function<void(int)> start_;
  const host::RunState& first_;  // generation 0's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Shared> present_;
  std::vector<std::unique_ptr<host::RunState>> runs_;    // of all generations but the first
  std::map<int, std::shared_ptr<const Shared>> latest_;  // by member
  const bool elastic_;
  bool fine_ = false;                                   // some member has returned a result
  std::set<int> asked_, left_;                          // members of the present generation; of all
  double deadline_ = 0;                                 // on the run's clock; while `asked_` is not empty
  int least_members_ = 1;                               // what those who asked need
  int newcomers_ = 0;                                   // that have been let in
  std::map<std::pair<int, int64_t>, bool> ends_after_;  // by generation and step: decided by the first who asked
  int64_t begun_ = -1;                                  // the latest step that some member has begun
  host::MembershipEvents::Reached reached_;             // by the steps asked about
  struct Exchanged {
    std::map<int, std::string> bytes;  // by member
    size_t taken = 0;
  };
  std::map<std::pair<int, uint64_t>, Exchanged> exchanges_;  // by generation and number
  std::map<int, uint64_t> exchanged_;                        // by member: exchanges begun in its generation
  std::vector<std::string> notes_;
};

}  // namespace twofold::in_memory
