#include "backends/mpi/session.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "backends/host/exit_scope.h"
#include "backends/mpi/types.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

// Bytes of process 0 to all.
void Broadcast(MPI_Comm comm, std::string& bytes) {
  auto size = static_cast<int>(bytes.size());
  Check(MPI_Bcast(&size, 1, MPI_INT, 0, comm), "MPI_Bcast");
  bytes.resize(static_cast<size_t>(size));
  Check(MPI_Bcast(bytes.data(), size, MPI_BYTE, 0, comm), "MPI_Bcast");
}

}  // namespace

absl::StatusOr<Session*> Session::Get() {
  static Session* session = nullptr;
  static absl::Status status;
  if (session == nullptr) {
    session = new Session();  // never destroyed: Finish ends it
    status = session->Start();
  }
  if (!status.ok()) return status;
  return session;
}

// libsimgrid defines MPI's functions, too; where it was linked first, they are not the real ones.
absl::Status CheckLibrary() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) == 0 || std::strstr(info.dli_fname, "simgrid") == nullptr) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(StrCat("fabric.mpi: this program's MPI functions are those of ", info.dli_fname,
                                              ", which simulates MPI; link the MPI library before it"));
}

absl::Status Session::Start() try {
  if (absl::Status s = CheckLibrary(); !s.ok()) return s;
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    return absl::FailedPreconditionError("fabric.mpi: MPI_Init_thread failed");
  }
  std::atexit([] { Finish(); });
  if (provided < MPI_THREAD_MULTIPLE) {
    return absl::FailedPreconditionError(
        StrCat("fabric.mpi: this MPI library gives thread level ", provided, " where MPI_THREAD_MULTIPLE (",
               MPI_THREAD_MULTIPLE, ") is needed; use one that was built with thread support"));
  }
  Check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  Check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(world_, &rank_);
  MPI_Comm_size(world_, &processes_);
  MPI_Comm here;
  Check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  MPI_Comm_size(here, &processes_here_);
  MPI_Comm_free(&here);
  int one_host = processes_here_ == processes_ ? 1 : 0;
  Check(MPI_Bcast(&one_host, 1, MPI_INT, 0, world_), "MPI_Bcast");
  watch_ = std::make_unique<watch::Watch>(
      watch::Watch::Options{.rank = rank_,
                            .processes = processes_,
                            .one_host = one_host != 0,
                            .broadcast = [this](std::string& bytes) { Broadcast(world_, bytes); }});
  return absl::OkStatus();
} catch (const std::exception& e) {
  GiveUp();
  return absl::FailedPreconditionError(StrCat("fabric.mpi: ", e.what()));
}

void Session::GiveUp() {
  if (given_up_) return;
  given_up_ = true;
  host::LeaveWithoutCleanUp();
}

void Session::Finish() {
  const absl::StatusOr<Session*> session = Get();
  if (session.ok() && (*session)->given_up_) return;
  if (session.ok()) {
    (*session)->watch_.reset();
    MPI_Comm_free(&(*session)->world_);
  }
  MPI_Finalize();
}

}  // namespace twofold::mpi
