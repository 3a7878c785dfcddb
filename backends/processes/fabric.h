// A fabric whose ranks are processes started by a launcher: the code that mpi, gloo and nccl share.
//
// All processes call Run alike. The rank's function runs on its own thread, while the main thread waits for the control
// plane's verdict. So a rank that is stuck in a call that never ends (few libraries can abort one) does not keep the
// process from reporting. After a failed run the process can only exit.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/host/rank.h"
#include "backends/processes/generations.h"
#include "backends/processes/group.h"
#include "backends/processes/session.h"
#include "core/run/fabric.h"

namespace twofold::processes {

// Creates the world's group at this rank. Called once, on the rank's thread, which also destroys the group. Must not
// throw: errors are reported by the group's first call.
using MakeGroup =
    std::function<std::unique_ptr<Group>(std::shared_ptr<const host::GroupIdentity> world,
                                         const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats)>;

// The library-specific part of one such fabric. Both functions are called from the process's main thread.
struct Library {
  std::string_view fabric;   // "mpi"
  std::string_view name;     // "MPI"
  bool by_mpi_only = false;  // processes find each other only through MPI's launchers
  // Starts the library and the control plane's client, or says why it cannot. Every call returns the same object.
  std::function<absl::StatusOr<Session*>()> session;
  // Begins a run of the first `ranks` processes. Collective over all processes; those from `ranks` on stand by, and the
  // function that they get is never called.
  std::function<absl::StatusOr<MakeGroup>(Session& session, int ranks)> world;
  // For elastic runs; empty: a lost rank ends every run on this fabric.
  Reconnect reconnect = {};
};

// The rank computes on `device`. If there are several GPUs, it uses the one of its local rank. `elastic`: null: a lost
// rank ends the run.
std::unique_ptr<Fabric> MakeFabric(Library library, host::DeviceChoice device, double timeout_s,
                                   const spec::Elastic* elastic = nullptr);

}  // namespace twofold::processes
