#include "backends/nccl/fabric.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "backends/host/cuda.h"
#include "backends/nccl/api.h"
#include "backends/nccl/debug_output.h"
#include "backends/nccl/group.h"
#include "backends/nccl/session.h"
#include "backends/processes/fabric.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace nccl {
namespace {

// What does not change with the members' generation.
struct Settings {
  int max_ctas = 0;
  bool elastic = false;
};

std::unique_ptr<processes::Group> MakeGroup(Session& session, const ncclUniqueId& id, const Settings& settings,
                                            std::shared_ptr<const host::GroupIdentity> world, int rank,
                                            const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
  auto parts = std::make_shared<RunParts>(owner->run, session.control(), owner->rank, settings.elastic,
                                          settings.max_ctas, session.offers);
  session.Began(parts);
  return std::make_unique<NcclGroup>(std::move(world), rank, id, std::move(parts), owner, stats);
}

absl::StatusOr<processes::MakeGroup> MakeWorld(processes::Session& base, int ranks, const Settings& settings) {
  auto& session = static_cast<Session&>(base);
  absl::StatusOr<ncclUniqueId> id = ncclUniqueId{};
  if (ranks > 1) id = session.NewId();
  if (!id.ok()) return id.status();
  session.offers = std::make_shared<Offers>(session.control(), session.rank());
  session.control().OnRelayed([offers = session.offers](const control::Relayed& message) { offers->Hear(message); });
  return [&session, settings, id = *id](std::shared_ptr<const host::GroupIdentity> world,
                                        const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
    return MakeGroup(session, id, settings, std::move(world), session.rank(), owner, stats);
  };
}

// The members connect when the group's queue begins. If one is lost meanwhile, that ends as in any call.
std::unique_ptr<processes::Group> Reconnect(processes::Session& base, std::shared_ptr<const host::GroupIdentity> world,
                                            int rank, const Settings& settings,
                                            const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
  auto& session = static_cast<Session&>(base);
  absl::StatusOr<ncclUniqueId> id = ncclUniqueId{};
  if (world->ranks.size() > 1) id = session.NewId();
  if (!id.ok()) {
    owner->run.ThrowIfEnding(owner->rank, "connecting to the other members");
    throw PeerLost(owner->rank, StrCat("rank ", owner->rank,
                                       ": connecting to the other members: ", std::string(id.status().message())));
  }
  return MakeGroup(session, *id, settings, std::move(world), rank, owner, stats);
}

// A communication kernel stays on the GPU until its peers' kernels have come. If a GPU waits for one such kernel to
// finish before it starts another, ranks may wait for each other in a cycle. CUDA may do so when it loads a kernel at
// its first launch (CUDA C++ Programming Guide, "Lazy Loading", "Concurrent Execution"), and when streams share a
// hardware queue, of which it makes 8 by default.
void LetKernelsOverlap() {
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

// Kernels of several communicators may fill GPUs in different orders on different ranks, and then wait for each other.
// From 2.26 on, NCCL starts them in the order of the host's calls if it is asked to (NCCL User Guide, "Using multiple
// NCCL communicators concurrently"). With CUDA 12.3 or later they still overlap; with an older one each would wait for
// the end of the one before. The host makes its calls in program order. Only calls in which ranks connect come from
// other threads (group.h), so that NCCL's check that all calls come from one thread must not end the run.
void StartKernelsInOrder() {
  int driver = 0;
  if (CUDART_VERSION < 12030 || cudaDriverGetVersion(&driver) != cudaSuccess || driver < 12030) return;
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  setenv("NCCL_LAUNCH_RACE_FATAL", "0", 0);
}

}  // namespace
}  // namespace nccl

void PrepareNccl(bool elastic) {
  nccl::LetKernelsOverlap();
  nccl::StartKernelsInOrder();
  // Communicators are blocking, except in elastic runs (communicator.h). This variable, even as a line of
  // /etc/nccl.conf, overrides the configuration that they are created with, so it is set here.
  setenv("NCCL_COMM_BLOCKING", elastic ? "0" : "1", 1);
  nccl::SendDebugOutputToStandardError();
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeNcclFabric(const spec::Spec& spec) {
  if (spec.device() != spec::CUDA) {
    return InvalidArgument("device: ", spec::Device_Name(spec.device()),
                           " does not work with fabric.nccl, which communicates between GPUs only; set device: CUDA, "
                           "or use fabric in_memory or mpi");
  }
  const bool elastic = spec.train().has_elastic();
  PrepareNccl(elastic);
  absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kProcesses);
  if (!device.ok()) return device.status();
  const nccl::Settings settings = {.max_ctas = spec.fabric().nccl().max_ctas(), .elastic = elastic};
  const host::CudaChoice gpus = *device->cuda;
  return processes::MakeFabric(
      {.fabric = "nccl",
       .name = "NCCL",
       .session = [spec, gpus]() -> absl::StatusOr<processes::Session*> {
         const absl::StatusOr<nccl::Session*> session = nccl::Session::Get(spec, gpus);
         if (!session.ok()) return session.status();
         return *session;
       },
       .world = [settings](processes::Session& session,
                           int ranks) { return nccl::MakeWorld(session, ranks, settings); },
       .reconnect =
           [settings](processes::Session& session, std::shared_ptr<const host::GroupIdentity> world, int rank, double,
                      const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
             return nccl::Reconnect(session, std::move(world), rank, settings, owner, stats);
           }},
      *std::move(device), spec.fabric().timeout_s(), elastic ? &spec.train().elastic() : nullptr);
}

std::string WhyNoNccl() {
  const absl::StatusOr<const nccl::Api*> api = nccl::FindNccl();
  return api.ok() ? host::WhyNoCuda() : std::string(api.status().message());
}

}  // namespace twofold
