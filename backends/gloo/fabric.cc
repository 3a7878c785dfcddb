#include "backends/gloo/fabric.h"

#include <exception>
#include <utility>

#include "backends/gloo/group.h"
#include "backends/gloo/session.h"
#include "backends/processes/fabric.h"
#include "core/base/errors.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace gloo {
namespace {

std::unique_ptr<processes::Group> MakeGroup(Session& session, ContextPtr context,
                                            std::shared_ptr<const host::GroupIdentity> world,
                                            const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
  session.Began(owner);
  auto endpoint = std::make_shared<Endpoint>(Endpoint{std::move(context), session.transport(), session.abortion(),
                                                      session.ended(), "world", std::move(world)});
  return std::make_unique<GlooGroup>(std::move(endpoint), owner, session.control(), stats);
}

absl::StatusOr<processes::MakeGroup> MakeWorld(processes::Session& base, int ranks) {
  auto& session = static_cast<Session&>(base);
  absl::StatusOr<ContextPtr> context = session.World(ranks);
  if (!context.ok()) return context.status();
  return [&session, context = *context](std::shared_ptr<const host::GroupIdentity> world,
                                        const std::shared_ptr<host::RankState>& owner, CommunicationStats& stats) {
    return MakeGroup(session, context, std::move(world), owner, stats);
  };
}

// An error names the members that could not be reached; the generation then ends as after a loss.
std::unique_ptr<processes::Group> Reconnect(processes::Session& base, std::shared_ptr<const host::GroupIdentity> world,
                                            int rank, double timeout_s, const std::shared_ptr<host::RankState>& owner,
                                            CommunicationStats& stats) try {
  auto& session = static_cast<Session&>(base);
  ContextPtr context = session.NewWorld(rank, static_cast<int>(world->ranks.size()), timeout_s);
  return MakeGroup(session, std::move(context), std::move(world), owner, stats);
} catch (const std::exception& e) {
  owner->run.ThrowIfEnding(owner->rank, "connecting to the other members");
  throw PeerLost(owner->rank, StrCat("rank ", owner->rank, ": connecting to the other members: ", e.what()));
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
                                .world = gloo::MakeWorld,
                                .reconnect = gloo::Reconnect},
                               *std::move(device), spec.fabric().timeout_s(),
                               spec.train().has_elastic() ? &spec.train().elastic() : nullptr);
}

std::string WhyNoGloo() { return ""; }

}  // namespace twofold
