// The MPI library in this process: started once, at the first run, and ended with the process.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/watch/watch.h"

namespace twofold::mpi {

class Session {
 public:
  // Starts the library and the watch. FAILED_PRECONDITION when the library has no MPI_THREAD_MULTIPLE or its processes do
  // not reach each other. The same object in every call; main thread only.
  static absl::StatusOr<Session*> Get();

  int rank() const { return rank_; }
  int processes() const { return processes_; }
  int processes_here() const { return processes_here_; }  // on this host
  MPI_Comm world() const { return world_; }               // ours; errors come back as codes
  watch::Watch& watch() { return *watch_; }

  // A run has failed, with communication under way that will never end: no further run can be made, and the process has to
  // leave without ending the library in order.
  void GiveUp();
  bool given_up() const { return given_up_; }

 private:
  Session() = default;
  absl::Status Start();
  static void Finish();

  int rank_ = 0, processes_ = 1, processes_here_ = 1;
  MPI_Comm world_ = MPI_COMM_NULL;
  std::unique_ptr<watch::Watch> watch_;
  bool given_up_ = false;
};

}  // namespace twofold::mpi
