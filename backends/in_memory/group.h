// The process group of ranks that are threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/host/mover.h"
#include "backends/host/queued_group.h"
#include "backends/in_memory/group_state.h"

namespace twofold::in_memory {

using host::Call;
using host::Queue;
using host::RankState;

struct GroupOptions {
  // Use the collectives of default_collectives.h, like a backend without native ones. On CPUs only.
  bool point_to_point_only = false;
  std::function<double()> clock = {};  // passed to RunState
  // Called with the rank before each of its calls, by its thread; may throw. For tests that lose ranks.
  std::function<void(int rank)> before_call = {};
};

class InMemoryGroup : public host::QueuedGroup {
 public:
  InMemoryGroup(std::shared_ptr<GroupState> state, int rank, std::shared_ptr<RankState> owner,
                CommunicationStats& stats, GroupOptions options);
  ~InMemoryGroup() override { Close(); }

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;
  int Execute(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace);
  int ExecuteOnDevice(const Call& call);
  int Do(const Call& call, std::span<std::byte> workspace);

  const std::shared_ptr<GroupState> state_;
  const GroupOptions options_;
  const std::unique_ptr<Mover> mover_;  // used by the thread that executes a call
};

}  // namespace twofold::in_memory
