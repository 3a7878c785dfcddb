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
  ReplayProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats,
                     Bytes staging)
      : ProcessGroup(std::move(name), rank, std::move(ranks), device, stats), staging_(staging) {}
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  HostStaging staging_;
};

}  // namespace twofold
