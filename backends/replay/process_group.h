// A group in which only one rank exists: whatever it issues is done at once.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/comm/process_group.h"
#include "core/comm/staging.h"

namespace twofold {

// Kinds of ranks that groups have told apart.
class RankKinds {
 public:
  explicit RankKinds(int world_size) : world_size_(static_cast<size_t>(world_size)) {}
  // `kinds`: of the ranks of each of `groups`, place by place.
  void Note(const GroupList& groups, std::span<const int> kinds);
  std::vector<int> Take() && { return std::move(of_); }

 private:
  const size_t world_size_;
  std::vector<int> of_;                       // by rank; empty: nothing was told
  std::map<std::pair<int, int>, int> found_;  // numbers for a rank's number so far and its next kind
};

class ReplayProcessGroup final : public ProcessGroup {
 public:
  // `alike`: this group and all that were made by the same calls, of world ranks. `kinds` must outlive the group and
  // those that are made from it.
  ReplayProcessGroup(std::string name, int rank, std::vector<int> ranks, Device& device, CommunicationStats& stats,
                     Bytes staging, std::shared_ptr<const GroupList> alike, RankKinds& kinds)
      : ProcessGroup(std::move(name), rank, std::move(ranks), device, stats),
        staging_(staging),
        alike_(std::move(alike)),
        kinds_(kinds) {}
  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  std::unique_ptr<ProcessGroup> SplitEvenly(int size, Pattern pattern, std::string name) override;
  std::unique_ptr<ProcessGroup> Partition(std::span<const std::vector<int>> groups, std::string name) override;
  void RanksDiffer(std::span<const int> kinds, const std::string& /*why*/) override { kinds_.Note(*alike_, kinds); }

 protected:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

 private:
  HostStaging staging_;
  const std::shared_ptr<const GroupList> alike_;
  RankKinds& kinds_;
};

}  // namespace twofold
