// The process group of ranks that are threads.
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
  // Collectives from default_collectives.h, as a backend without native ones has them. On CPUs.
  bool point_to_point_only = false;
  std::function<double()> clock = {};  // RunState's
};

class InMemoryGroup : public ProcessGroup {
 public:
  InMemoryGroup(std::shared_ptr<GroupState> state, int rank, std::shared_ptr<RankState> owner, CommunicationStats& stats,
                GroupOptions options);
  // Finishes what was issued. Where an exception is leaving the rank's function and work is left that cannot finish
  // without this rank, ends the run.
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
  const std::shared_ptr<const std::string> label_;  // this rank's own: counting its users is not shared with other ranks
  const int exceptions_;  // in flight when this was made
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
  const std::unique_ptr<Mover> mover_;  // used by who does a call
  Queue queue_;
};

}  // namespace twofold::in_memory
