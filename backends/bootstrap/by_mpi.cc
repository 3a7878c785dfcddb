#include "backends/bootstrap/bootstrap.h"
#include "backends/mpi/library.h"
#include "core/base/status.h"

namespace twofold {

absl::StatusOr<std::unique_ptr<control::Client>> MeetByMpi(const spec::Spec& spec, const Launch& launch) {
  const absl::StatusOr<mpi::Library*> library = mpi::Library::Get();
  if (!library.ok()) return library.status();
  const processes::Place& place = (*library)->place();
  if (place.processes != launch.size || place.rank != launch.rank) {
    return FailedPrecondition(
        launch.launcher, " says that this is process ", launch.rank, " of ", launch.size,
        ", but MPI says that it is process ", place.rank, " of ", place.processes,
        "; start the processes with the launcher of the MPI library that this program is linked to");
  }
  return (*library)->Meet(spec.fabric().rendezvous());
}

}  // namespace twofold
