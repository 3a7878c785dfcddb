// A group in which only one rank exists: whatever it issues is done at once, or after as long as a ReplayTimes says.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/replay/times.h"
#include "core/comm/device_mesh.h"
#include "core/comm/process_group.h"
#include "core/comm/rank_kinds.h"
#include "core/comm/staging.h"

namespace twofold {

class ReplayProcessGroup final : public ProcessGroup {
 public:
  // `alike`: this group and all that were made by the same calls, of world ranks. `kinds` and `times`
  // (null: nothing takes time) must outlive the group and those that are made from it.
  ReplayProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats,
                     Bytes staging, std::shared_ptr<const GroupList> alike, RankKinds& kinds, ReplayTimes* times)
      : ProcessGroup(std::move(name), rank, std::move(ranks), device, stats),
        staging_(staging),
        alike_(std::move(alike)),
        kinds_(kinds),
        times_(times) {}
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;
  void RanksDiffer(std::span<const int> kinds, const std::string& /*why*/) override;
  // Only a rank that communicates holds staging memory. Otherwise such ranks hold equally much.
  void RanksDifferOver(ProcessGroup& others, std::span<const int> kinds, const std::string& why, bool brief) override;

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  HostStaging staging_;
  const std::shared_ptr<const GroupList> alike_;
  RankKinds& kinds_;
  ReplayTimes* const times_;
  ReplayTimes::Moment line_;  // until when the group's stream is busy
};

}  // namespace twofold
