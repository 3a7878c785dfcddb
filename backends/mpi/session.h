// The MPI library in this process, together with the connection to the run's control plane.
#pragma once

#include <mpi.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/mpi/library.h"
#include "backends/processes/session.h"

namespace twofold::mpi {

class Session : public processes::Session {
 public:
  // Starts both. FAILED_PRECONDITION if the library lacks MPI_THREAD_MULTIPLE or its processes cannot reach each other.
  // Every call returns the same object; main thread only.
  static absl::StatusOr<Session*> Get(const spec::Rendezvous& rendezvous);

  MPI_Comm world() const { return library_->world(); }
  void SetNotes(std::vector<std::string> notes) { notes_ = std::move(notes); }
  std::vector<std::string> Notes() const override { return notes_; }

 private:
  Session() = default;
  absl::Status Start(const spec::Rendezvous& rendezvous);
  static void Finish();

  Library* library_ = nullptr;
  std::vector<std::string> notes_;
};

}  // namespace twofold::mpi
