// The MPI library in this process: started at first use, finalized when the process ends.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "backends/processes/meeting.h"
#include "backends/processes/session.h"

namespace twofold::mpi {

class Library {
 public:
  // Starts it. FAILED_PRECONDITION if it lacks MPI_THREAD_MULTIPLE. Every call returns the same object; main thread
  // only.
  static absl::StatusOr<Library*> Get();

  const processes::Place& place() const { return place_; }
  MPI_Comm world() const { return world_; }  // our own duplicate; errors are returned as codes
  // The processes meet at the control plane, of whose place process 0 tells the others. Collective.
  absl::StatusOr<std::unique_ptr<control::Client>> Meet(const spec::Rendezvous& spec) const;

 private:
  Library() = default;
  absl::Status Start();
  void Broadcast(std::string& bytes) const;  // from process 0 to all; throws std::runtime_error
  static void Finish();

  processes::Place place_;
  MPI_Comm world_ = MPI_COMM_NULL;
};

}  // namespace twofold::mpi
