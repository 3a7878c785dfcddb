// A group in which only one rank exists: whatever it issues is done at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/comm/process_group.h"
#include "core/comm/staging.h"

namespace twofold {

class ReplayProcessGroup final : public ProcessGroup {
 public:
  // `ranks_differ` becomes true if this group or one that is made from it says so; it must outlive them.
  ReplayProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats,
                     Bytes staging, bool& ranks_differ)
      : ProcessGroup(std::move(name), rank, std::move(ranks), device, stats),
        staging_(staging),
        ranks_differ_(ranks_differ) {}
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;
  void RanksDiffer(const std::string& /*why*/) override { ranks_differ_ = true; }

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  HostStaging staging_;
  bool& ranks_differ_;
};

}  // namespace twofold
