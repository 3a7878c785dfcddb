#include "backends/mpi/session.h"

#include <cstdlib>

#include "backends/launch/launch.h"
#include "backends/mpi/types.h"
#include "core/base/status.h"

namespace twofold::mpi {

absl::StatusOr<Session*> Session::Get(const std::string& bind) {
  static Session* session = nullptr;
  static absl::Status status;
  if (session == nullptr) {
    session = new Session();  // never destroyed: Finish ends it
    status = session->Start(bind);
  }
  if (!status.ok()) return status;
  return session;
}

absl::Status Session::Start(const std::string& bind) try {
  const absl::StatusOr<Library*> library = Library::Get();
  if (!library.ok()) return FailedPrecondition("fabric.mpi: ", std::string(library.status().message()));
  library_ = *library;
  place_ = library_->place();
  std::atexit([] { Finish(); });
  int one_host = place_.processes_here == place_.processes ? 1 : 0;
  Check(MPI_Bcast(&one_host, 1, MPI_INT, 0, world()), "MPI_Bcast");
  StartWatch({.rank = place_.rank,
              .processes = place_.processes,
              .one_host = one_host != 0,
              .bind = bind,
              .address = LaunchedAs().master_address,
              .broadcast = [this](std::string& bytes) { library_->Broadcast(bytes); }});
  return absl::OkStatus();
} catch (const std::exception& e) {
  GiveUp();
  return FailedPrecondition("fabric.mpi: ", e.what());
}

void Session::Finish() {
  if (const absl::StatusOr<Session*> session = Get({}); session.ok() && !(*session)->given_up())
    (*session)->StopWatch();
}

}  // namespace twofold::mpi
