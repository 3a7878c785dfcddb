// Groups of simulated ranks: a collective is a rendezvous of its ranks' streams.
//
// Each call waits until its stream reaches it. When all ranks have arrived, at the time of the latest arrival, the
// network decides when each of them is done. Mismatched calls end the run with an error that names both.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "backends/simulated/work.h"
#include "core/comm/process_group.h"
#include "core/comm/staging.h"

namespace twofold {

class SimulatedProcessGroup : public ProcessGroup {
 public:
  SimulatedProcessGroup(std::shared_ptr<SimulatedGroup> shared, SimulatedRank& rank, Device& device,
                        CommunicationStats& stats);
  // Waits for what was issued, unless the run has failed. If an exception is leaving the rank's function and issued
  // work cannot finish without this rank, ends the run.
  ~SimulatedProcessGroup() override;
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  // Takes no virtual time, since it waits for nobody.
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;
  void RanksDiffer(std::span<const int> kinds, const std::string& why) override { shared_->RanksDiffer(kinds, why); }
  bool RanksDifferInTime(std::span<const int> kinds, double share, const std::string& why) override {
    return shared_->RanksDifferInTime(kinds, share, why);
  }
  bool RanksDifferBriefly(std::span<const int> kinds, const std::string& why) override;
  void RanksDifferOver(ProcessGroup& others, std::span<const int> kinds, const std::string& why, bool brief) override;

  // For what runs on simulated ranks alone.
  const std::shared_ptr<SimulatedGroup>& shared() const { return shared_; }
  SimulatedRank& simulated_rank() { return rank_; }

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  std::shared_ptr<SimulatedWork> IssueCollective(std::shared_ptr<const host::Call> call,
                                                 CommunicationStats::Entry& entry);
  std::shared_ptr<SimulatedWork> IssueMessages(std::shared_ptr<const host::Call> call,
                                               CommunicationStats::Entry& entry);
  std::shared_ptr<SimulatedWork> NewWork(InFlight call);
  // In the rank's graph: its node there, or the first of several messages'.
  int64_t Note(const Communication& c, sim::TimePoint& done);
  void NoteMessages(int64_t first_node, const std::vector<P2p>& messages);  // in its GOAL schedule
  double LaunchSeconds(const Communication& c) const;                       // of the host, on a GPU
  void Move(const Communication& c);                                        // the framework's kernels before it
  // Begins in SimulatedRank::communicating(). Returns its number there.
  uint64_t Beside(const Communication& c, bool brief);
  host::Call BeginSplit();
  bool IsShift(const Communication& c) const;
  void CheckFoldable(const Communication& c);
  [[noreturn]] void RefuseFolding(const std::string& why);

  std::shared_ptr<SimulatedGroup> shared_;
  SimulatedRank& rank_;
  const std::string_view stream_;                                 // the communication stream's name in traces
  std::shared_ptr<sim::Timeline> line_ = rank_.NewLine(stream_);  // the communication stream
  const int exceptions_;                                          // uncaught exceptions at construction
  const bool copies_;                                             // its messages are copies (ring_copies.h)
  HostStaging staging_;
  // Counted separately, since ranks send different numbers of messages.
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
};

}  // namespace twofold
