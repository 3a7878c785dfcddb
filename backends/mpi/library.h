// The MPI library in this process: started at first use, finalized when the process ends.
#pragma once

#include <mpi.h>

#include <string>

#include "absl/status/statusor.h"
#include "backends/processes/session.h"

namespace twofold::mpi {

class Library {
 public:
  // Starts it. FAILED_PRECONDITION if it lacks MPI_THREAD_MULTIPLE. Every call returns the same object; main thread
  // only.
  static absl::StatusOr<Library*> Get();

  const processes::Place& place() const { return place_; }
  MPI_Comm world() const { return world_; }  // our own duplicate; errors are returned as codes
  void Broadcast(std::string& bytes) const;  // from process 0 to all; throws std::runtime_error

 private:
  Library() = default;
  absl::Status Start();
  static void Finish();

  processes::Place place_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace twofold::mpi
