#include "backends/mpi/fabric.h"

#include <unistd.h>

#include <utility>

#include "backends/mpi/gpu_buffers.h"
#include "backends/mpi/group.h"
#include "backends/mpi/session.h"
#include "backends/processes/fabric.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace mpi {
namespace {

absl::StatusOr<processes::Session*> GetSession(const spec::Rendezvous& rendezvous) {
  const absl::StatusOr<Session*> session = Session::Get(rendezvous);
  if (!session.ok()) return session.status();
  return *session;
}

absl::StatusOr<processes::MakeGroup> MakeWorld(processes::Session& session, int ranks, const GpuBuffers& gpu_buffers,
                                               const Limits& limits) {
  auto& mpi = static_cast<Session&>(session);
  const absl::StatusOr<Bytes> staging = gpu_buffers.Staging();
  if (!staging.ok()) return staging.status();
  if (const std::string note = gpu_buffers.Describe(*staging); !note.empty()) mpi.SetNotes({note});
  MPI_Comm comm = MPI_COMM_NULL;
  if (const int code = MPI_Comm_split(mpi.world(), mpi.rank() < ranks ? 0 : MPI_UNDEFINED, mpi.rank(), &comm);
      code != MPI_SUCCESS) {
    return Internal("fabric.mpi: MPI_Comm_split: ", ErrorText(code));
  }
  return [&mpi, comm, limits, staging = *staging](std::shared_ptr<const host::GroupIdentity> world,
                                                  const std::shared_ptr<host::RankState>& owner,
                                                  CommunicationStats& stats) -> std::unique_ptr<processes::Group> {
    auto endpoint = std::make_shared<Endpoint>(Endpoint{comm, "world", std::move(world), mpi.rank(), limits, staging});
    return std::make_unique<MpiGroup>(std::move(endpoint), owner, mpi.control(), stats);
  };
}

}  // namespace
}  // namespace mpi

absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec, const mpi::Limits& limits) {
  absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kProcesses);
  if (!device.ok()) return device.status();
  return processes::MakeFabric(
      {.fabric = "mpi",
       .name = "MPI",
       .by_mpi_only = true,
       .session = [rendezvous = spec.fabric().rendezvous()] { return mpi::GetSession(rendezvous); },
       .world = [gpu_buffers = mpi::GpuBuffers(spec, limits), limits](
                    processes::Session& session,
                    int ranks) { return mpi::MakeWorld(session, ranks, gpu_buffers, limits); }},
      *std::move(device), spec.fabric().timeout_s());
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeMpiFabric(const spec::Spec& spec) {
  return MakeMpiFabric(spec, mpi::Limits());
}

std::string WhyNoMpi() { return ""; }

// Ranks are not bound to cores: their communication threads need a core, too.
std::vector<std::string> MpiLauncher(int ranks) {
  std::vector<std::string> words = {"mpirun", "-n", StrCat(ranks), "--oversubscribe", "--bind-to", "none"};
  if (geteuid() == 0) words.push_back("--allow-run-as-root");
  return words;
}

Bytes MpiStaging(const spec::Spec& spec) { return mpi::GpuBuffers(spec, {}).Staging().value_or(Bytes(0)); }

}  // namespace twofold
