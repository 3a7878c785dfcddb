// A fabric whose ranks are processes that a launcher started: what mpi and nccl have in common.
//
// All processes call Run alike. The rank's function runs on a thread of its own; the main thread waits for the watch's
// verdict, so that a rank which is stuck in a call that will never end (few libraries let go of one) does not keep the
// process from reporting. After a failed run the process can only leave.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/host/rank.h"
#include "backends/processes/session.h"
#include "core/comm/process_group.h"
#include "core/run/fabric.h"

namespace twofold::processes {

class Group : public ProcessGroup {
 public:
  virtual void Drain() = 0;  // finishes what was issued; nothing may be issued afterwards

 protected:
  using ProcessGroup::ProcessGroup;
};

// The world's group at this rank; called once, on the rank's thread, which also ends the group. Must not throw: what fails is
// for the group's first call to say.
using MakeGroup = std::function<std::unique_ptr<Group>(std::shared_ptr<const host::GroupIdentity> world,
                                                       const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats)>;

// What one such fabric has of its own. Both are called from the process's main thread.
struct Library {
  std::string_view fabric;  // "mpi"
  std::string_view name;    // "MPI"
  bool by_mpi_only = false;  // its processes find each other by MPI's launchers alone
  // Starts the library and the watch, or says why it cannot. The same object in every call.
  std::function<absl::StatusOr<Session*>()> session;
  // A run of the first `ranks` processes begins. Collective over all of them; what those from `ranks` on get, which stand by,
  // is never called.
  std::function<absl::StatusOr<MakeGroup>(Session& session, int ranks)> world;
};

// The rank computes on `device`; of several GPUs, on the one of its place on its host.
std::unique_ptr<Fabric> MakeFabric(Library library, host::DeviceChoice device, double timeout_s);

}  // namespace twofold::processes
