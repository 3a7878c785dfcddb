// The process group of ranks that are processes of an MPI job.
//
// Blocking MPI calls on one thread a group (backends/host/queue.h): communication overlaps with compute, groups do not wait
// for each other, and non-blocking collectives, which cost more, are not needed.
#pragma once

#include <memory>
#include <string>

#include "backends/host/queue.h"
#include "backends/mpi/types.h"
#include "backends/watch/watch.h"
#include "core/comm/process_group.h"

namespace twofold::mpi {

// What a group is made on, and what its communication thread uses. Lives as long as either.
struct Endpoint {
  MPI_Comm comm;
  std::string name;
  std::shared_ptr<const host::GroupIdentity> identity;
  int rank;  // in the group
  Limits limits;
};

class MpiGroup : public ProcessGroup {
 public:
  MpiGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner, watch::Watch& watch,
           CommunicationStats& stats);
  // Finishes what was issued, but for a run that has failed: then what hangs in MPI is left where it is.
  ~MpiGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;
  void Drain();  // finishes what was issued; nothing may be issued afterwards

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;
  std::shared_ptr<host::Call> NewCall(uint64_t sequence) const;

  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<host::RankState> owner_;
  watch::Watch& watch_;
  const std::shared_ptr<watch::CallLog> log_;
  const std::shared_ptr<const std::string> label_;
  const int exceptions_;  // in flight when this was made
  uint64_t collectives_ = 0, messages_ = 0, splits_ = 0;
  CommunicationStats::Entry splitting_;  // not reported
  std::unique_ptr<host::Queue> queue_;
};

}  // namespace twofold::mpi
