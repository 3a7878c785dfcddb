#include "backends/gloo/fabric.h"

#include <exception>
#include <utility>

#include "backends/gloo/group.h"
#include "backends/gloo/session.h"
#include "backends/processes/fabric.h"
#include "core/base/status.h"

namespace twofold {
namespace gloo {
namespace {

absl::StatusOr<processes::MakeGroup> MakeWorld(processes::Session& base, int ranks) {
  auto& session = static_cast<Session&>(base);
  absl::StatusOr<ContextPtr> context = session.World(ranks);
  if (!context.ok()) return context.status();
  return [&session, context = *context](std::shared_ptr<const host::GroupIdentity> world,
                                        const std::shared_ptr<host::RankState>& owner,
                                        CommunicationStats& stats) -> std::unique_ptr<processes::Group> {
    session.Began(owner);
    auto endpoint =
        std::make_shared<Endpoint>(Endpoint{context, session.transport(), session.ended(), "world", std::move(world)});
    return std::make_unique<GlooGroup>(std::move(endpoint), owner, session.control(), stats);
  };
}

}  // namespace
}  // namespace gloo

absl::StatusOr<std::unique_ptr<Fabric>> MakeGlooFabric(const spec::Spec& spec) {
  if (spec.device() == spec::CUDA) {
    return InvalidArgument(
        "device: CUDA does not work with fabric.gloo, which communicates between CPU processes; use device: CPU, or "
        "fabric nccl or mpi");
  }
  absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kProcesses);
  if (!device.ok()) return device.status();
  return processes::MakeFabric({.fabric = "gloo",
                                .name = "Gloo",
                                .session = [spec]() -> absl::StatusOr<processes::Session*> {
                                  const absl::StatusOr<gloo::Session*> session = gloo::Session::Get(spec);
                                  if (!session.ok()) return session.status();
                                  return *session;
                                },
                                .world = gloo::MakeWorld},
                               *std::move(device), spec.fabric().timeout_s());
}

std::string WhyNoGloo() { return ""; }

}  // namespace twofold
