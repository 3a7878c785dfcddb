// The process group of ranks that are processes of an MPI job.
//
// Each group makes blocking MPI calls on its own thread (backends/host/queue.h). So communication overlaps with
// compute, groups do not wait for each other, and non-blocking collectives, which cost more, are not needed. On a GPU
// the thread waits until the compute stream has reached the call, communicates (if MPI does not reach the GPU, as in
// staged.h), and posts the call when its own stream is done.
#pragma once

#include <memory>
#include <string>

#include "backends/mpi/types.h"
#include "backends/processes/group.h"
#include "core/comm/staging.h"

namespace twofold::mpi {

// The communicator of a group and what its communication thread uses. Lives as long as the group or the thread.
struct Endpoint {
  MPI_Comm comm;
  std::string name;
  std::shared_ptr<const host::GroupIdentity> identity;
  int rank;  // in the group
  Limits limits;
  Bytes staging;  // the group's; nonzero if buffers are on a GPU that MPI does not reach
};

class MpiGroup : public processes::Group {
 public:
  MpiGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner, control::Client& control,
           CommunicationStats& stats);
  // Finishes what was issued. If the run has failed, calls that hang in MPI are left there.
  ~MpiGroup() override;

  std::unique_ptr<ProcessGroup> Split(int color, int key, std::string name) override;

 private:
  Issued Issue(const Communication& c, CommunicationStats::Entry& entry) override;

  const std::shared_ptr<Endpoint> endpoint_;
  control::Client& control_;
  HostStaging staging_;
  CommunicationStats::Entry splitting_;  // not reported
};

}  // namespace twofold::mpi
