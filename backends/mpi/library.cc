#include "backends/mpi/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "backends/launch/launch.h"
#include "backends/mpi/types.h"
#include "core/base/status.h"

namespace twofold::mpi {
namespace {

// libsimgrid also defines MPI's functions; if it was linked first, they are not the real ones.
absl::Status CheckLibrary() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) == 0 ||
      std::strstr(info.dli_fname, "simgrid") == nullptr) {
    return absl::OkStatus();
  }
  return FailedPrecondition("this program's MPI functions are those of ", info.dli_fname,
                            ", which simulates MPI; link the MPI library before it");
}

}  // namespace

absl::StatusOr<Library*> Library::Get() {
  static Library* library = nullptr;
  static absl::Status status;
  if (library == nullptr) {
    library = new Library();  // never destroyed: Finish finalizes it
    status = library->Start();
  }
  if (!status.ok()) return status;
  return library;
}

absl::Status Library::Start() try {
  if (absl::Status s = CheckLibrary(); !s.ok()) return s;
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) {
    return FailedPrecondition("MPI_Init_thread failed");
  }
  std::atexit([] { Finish(); });
  if (provided < MPI_THREAD_MULTIPLE) {
    return FailedPrecondition("this MPI library provides thread level ", provided, ", but MPI_THREAD_MULTIPLE (",
                              MPI_THREAD_MULTIPLE, ") is needed; use one that was built with thread support");
  }
  Check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");
  Check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  MPI_Comm_rank(world_, &place_.rank);
  MPI_Comm_size(world_, &place_.processes);
  MPI_Comm here;
  Check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
  MPI_Comm_rank(here, &place_.rank_here);
  MPI_Comm_size(here, &place_.processes_here);
  MPI_Comm_free(&here);
  return absl::OkStatus();
} catch (const std::exception& e) {
  return FailedPrecondition(e.what());
}

absl::StatusOr<std::unique_ptr<control::Client>> Library::Meet(const spec::Rendezvous& spec) const try {
  if (place_.processes == 1) return processes::Alone();
  int one_host = place_.processes_here == place_.processes ? 1 : 0;
  Check(MPI_Bcast(&one_host, 1, MPI_INT, 0, world_), "MPI_Bcast");
  return processes::Meet({.rank = place_.rank,
                          .size = place_.processes,
                          .one_host = one_host != 0,
                          .address = LaunchedAs().master_address,
                          .described = "MPI",
                          .broadcast = [this](std::string& bytes) { Broadcast(bytes); }},
                         spec);
} catch (const std::runtime_error& e) {
  return Unavailable(e.what());
}

void Library::Broadcast(std::string& bytes) const {
  auto size = static_cast<int>(bytes.size());
  Check(MPI_Bcast(&size, 1, MPI_INT, 0, world_), "MPI_Bcast");
  bytes.resize(static_cast<size_t>(size));
  Check(MPI_Bcast(bytes.data(), size, MPI_BYTE, 0, world_), "MPI_Bcast");
}

void Library::Finish() {
  if (const absl::StatusOr<Library*> library = Get(); library.ok()) MPI_Comm_free(&(*library)->world_);
  MPI_Finalize();
}

}  // namespace twofold::mpi
