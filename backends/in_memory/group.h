// The process group of ranks that are threads of one process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backends/host/mover.h"
#include "backends/host/queue.h"
#include "backends/in_memory/group_state.h"
#include "core/comm/process_group.h"

namespace twofold::in_memory {

using host::Queue;
using host::RankState;

struct GroupOptions {
  // Use the collectives of default_collectives.h, like a backend without native ones. On CPUs only.
  bool point_to_point_only = false;
  std::function<double()> clock = {};  // passed to RunState
};

class InMemoryGroup : public ProcessGroup {
 public:
  InMemoryGroup(std::shared_ptr<GroupState> state, int rank, std::shared_ptr<RankState> owner, CommunicationStats& stats,
                GroupOptions options);
  // Finishes what was issued. If an exception is leaving the rank's function and issued work cannot finish without this
  // rank, ends the run.
  ~InMemoryGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  void Drain() { queue_.Close(); }  // finishes what was issued; nothing may be issued afterwards

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;
  int Execute(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace);
  int ExecuteOnDevice(const Call& call);
  int Do(const Call& call, std::span<std::byte> workspace);

  const std::shared_ptr<GroupState> state_;
  const std::shared_ptr<RankState> owner_;
  const GroupOptions options_;
  const std::shared_ptr<const std::string> label_;  // a copy per rank, so that ranks do not share its reference count
  const int exceptions_;  // uncaught exceptions at construction
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
  const std::unique_ptr<Mover> mover_;  // used by the thread that executes a call
  Queue queue_;
};

}  // namespace twofold::in_memory
