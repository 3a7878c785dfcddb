#include "backends/mpi/session.h"

#include <cstdlib>

#include "core/base/status.h"

namespace twofold::mpi {

absl::StatusOr<Session*> Session::Get(const spec::Rendezvous& rendezvous) {
  static Session* session = nullptr;
  static absl::Status status;
  if (session == nullptr) {
    session = new Session();  // never destroyed: Finish ends it
    status = session->Start(rendezvous);
  }
  if (!status.ok()) return status;
  return session;
}

absl::Status Session::Start(const spec::Rendezvous& rendezvous) {
  const absl::StatusOr<Library*> library = Library::Get();
  if (!library.ok()) return FailedPrecondition("fabric.mpi: ", std::string(library.status().message()));
  library_ = *library;
  absl::StatusOr<std::unique_ptr<control::Client>> client = library_->Meet(rendezvous);
  if (!client.ok()) {
    GiveUp();
    return FailedPrecondition("fabric.mpi: ", std::string(client.status().message()));
  }
  Attach(*std::move(client));
  std::atexit([] { Finish(); });
  return absl::OkStatus();
}

void Session::Finish() {
  if (const absl::StatusOr<Session*> session = Get({}); session.ok() && !(*session)->given_up()) (*session)->Part();
}

}  // namespace twofold::mpi
