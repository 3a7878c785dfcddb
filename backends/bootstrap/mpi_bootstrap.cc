#include <stdexcept>

#include "backends/bootstrap/kinds.h"
#include "backends/mpi/library.h"
#include "backends/mpi/types.h"
#include "core/base/status.h"

namespace twofold {
namespace {

class MpiBootstrap : public Bootstrap {
 public:
  MpiBootstrap(const mpi::Library& library, std::string address, std::string bind)
      : library_(library), address_(std::move(address)), bind_(std::move(bind)) {}
  int rank() const override { return library_.place().rank; }
  int size() const override { return library_.place().processes; }
  int local_rank() const override { return library_.place().rank_here; }
  int local_size() const override { return library_.place().processes_here; }
  std::string address() const override { return address_; }
  std::string bind() const override { return bind_; }
  std::string Describe() const override { return "MPI"; }

  absl::StatusOr<std::vector<std::string>> AllGather(std::string bytes) override try {
    std::vector<int> sizes(static_cast<size_t>(size())), places(sizes.size());
    const auto own = static_cast<int>(bytes.size());
    mpi::Check(MPI_Allgather(&own, 1, MPI_INT, sizes.data(), 1, MPI_INT, library_.world()), "MPI_Allgather");
    int total = 0;
    for (size_t r = 0; r < sizes.size(); ++r) places[r] = total, total += sizes[r];
    std::string all(static_cast<size_t>(total), '\0');
    mpi::Check(MPI_Allgatherv(bytes.data(), own, MPI_BYTE, all.data(), sizes.data(), places.data(), MPI_BYTE,
                              library_.world()),
               "MPI_Allgatherv");
    std::vector<std::string> parts;
    for (size_t r = 0; r < sizes.size(); ++r)
      parts.push_back(all.substr(static_cast<size_t>(places[r]), static_cast<size_t>(sizes[r])));
    return parts;
  } catch (const std::runtime_error& e) {
    return Unavailable(e.what());
  }

  absl::StatusOr<std::string> Broadcast(std::string bytes) override try {
    library_.Broadcast(bytes);
    return bytes;
  } catch (const std::runtime_error& e) {
    return Unavailable(e.what());
  }

 private:
  const mpi::Library& library_;
  const std::string address_, bind_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> MakeMpiBootstrap(const spec::Spec& spec, const Launch& launch) {
  const absl::StatusOr<mpi::Library*> library = mpi::Library::Get();
  if (!library.ok()) return library.status();
  const processes::Place& place = (*library)->place();
  if (place.processes != launch.size || place.rank != launch.rank) {
    return FailedPrecondition(
        launch.launcher, " says that this is process ", launch.rank, " of ", launch.size,
        ", but MPI says that it is process ", place.rank, " of ", place.processes,
        "; start the processes with the launcher of the MPI library that this program is linked to");
  }
  return std::make_unique<MpiBootstrap>(**library, launch.master_address, spec.fabric().rendezvous().bind());
}

}  // namespace twofold
