// Groups of simulated ranks: a collective is a rendezvous of its ranks' streams.
//
// Each call waits on its stream until the stream gets there; when all ranks have arrived, at the latest arrival's time,
// the network decides when each of them is done. Calls that do not match end the run, naming both.
#pragma once

#include <memory>
#include <string>

#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "core/comm/process_group.h"

namespace twofold {

class SimulatedProcessGroup : public ProcessGroup {
 public:
  SimulatedProcessGroup(std::shared_ptr<SimulatedGroup> shared, int rank_in_group, SimulatedRank& rank, Device& device,
                        CommunicationStats& stats);
  // Waits for what was issued, unless the run has failed.
  ~SimulatedProcessGroup() override;
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  std::shared_ptr<SimulatedGroup::Pending> IssueMessages(const Communication& c, CommunicationStats::Entry& entry);

  std::shared_ptr<SimulatedGroup> shared_;
  SimulatedRank& rank_;
  std::shared_ptr<sim::Timeline> line_ = std::make_shared<sim::Timeline>();  // the communication stream
  uint64_t sequence_ = 0;
};

}  // namespace twofold
