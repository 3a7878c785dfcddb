// Groups of simulated ranks: a collective is a rendezvous of its ranks' streams.
//
// Each call waits on its stream until the stream gets there; when all ranks have arrived, at the latest arrival's time,
// the network decides when each of them is done. Calls that do not match end the run, naming both.
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
  SimulatedProcessGroup(std::shared_ptr<SimulatedGroup> shared, SimulatedRank& rank, Device& device, CommunicationStats& stats);
  // Waits for what was issued, unless the run has failed. Where an exception is leaving the rank's function and work is left
  // that cannot finish without this rank, ends the run.
  ~SimulatedProcessGroup() override;
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  // Takes no virtual time: nobody need be waited for.
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  std::shared_ptr<SimulatedWork> IssueCollective(std::shared_ptr<const host::Call> call, CommunicationStats::Entry& entry);
  std::shared_ptr<SimulatedWork> IssueMessages(std::shared_ptr<const host::Call> call, CommunicationStats::Entry& entry);
  std::shared_ptr<SimulatedWork> NewWork(InFlight call);
  host::Call BeginSplit();
  void CheckFoldable(const Communication& c);
  [[noreturn]] void RefuseFolding(const std::string& why);

  std::shared_ptr<SimulatedGroup> shared_;
  SimulatedRank& rank_;
  const std::string_view stream_;  // what traces call the communication stream
  std::shared_ptr<sim::Timeline> line_ = std::make_shared<sim::Timeline>();  // the communication stream
  const int exceptions_;  // in flight when this was made
  HostStaging staging_;
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;  // counted apart: ranks send different numbers of messages
};

}  // namespace twofold
