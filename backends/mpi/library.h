// The MPI library in this process: started at the first use, and ended with the process.
#pragma once

#include <mpi.h>

#include <string>

#include "absl/status/statusor.h"
#include "backends/processes/session.h"

namespace twofold::mpi {

class Library {
 public:
  // Starts it. FAILED_PRECONDITION when it has no MPI_THREAD_MULTIPLE. The same object in every call; main thread only.
  static absl::StatusOr<Library*> Get();

  const processes::Place& place() const { return place_; }
  MPI_Comm world() const { return world_; }  // ours; errors come back as codes
  void Broadcast(std::string& bytes) const;  // of process 0 to all; throws std::runtime_error

 private:
  Library() = default;
  absl::Status Start();
  static void Finish();

  processes::Place place_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace twofold::mpi
