#include "backends/simulated/plan.h"

#include <algorithm>
#include <utility>

#include "backends/host/simulated_cluster.h"
#include "backends/simulated/plan_classes.h"
#include "backends/simulated/plan_device.h"
#include "backends/simulated/plan_links.h"
#include "backends/simulated/plan_network.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/world_size.h"

namespace twofold {
namespace {

void SetFiles(const spec::Spec& spec, SimulationPlan& plan) {
  const spec::Storage& storage = spec.fabric().simulated().storage();
  plan.files = {BytesPerSecond(storage.write_gbytes_per_second() * 1e9),
                BytesPerSecond(storage.read_gbytes_per_second() * 1e9)};
  if (!spec.train().has_checkpoint() && !spec.train().has_resume()) return;
  plan.notes.push_back(StrCat("each rank is ", spec.fabric().simulated().has_storage() ? "said" : "assumed",
                              " to write files at ", storage.write_gbytes_per_second(), " GB/s and to read them at ",
                              storage.read_gbytes_per_second(), " GB/s (fabric.simulated.storage)"));
}

}  // namespace

absl::StatusOr<SimulationPlan> MakePlan(const spec::Spec& spec) {
  const Moment begin = MomentNow();
  const spec::Simulated& simulated = spec.fabric().simulated();
  SimulationPlan plan;
  absl::StatusOr<cluster::Cluster> c = host::FindSimulatedCluster(simulated, &plan.notes);
  if (!c.ok()) return c.status();
  if (!(c->device().memory_bytes_per_second() > 0) || !(c->device().f32_flops_per_second() > 0)) {
    return InvalidArgument(
        "cluster ", c->name(),
        ": device.memory_bytes_per_second and device.f32_flops_per_second must be greater than 0 (got ",
        c->device().memory_bytes_per_second(), " and ", c->device().f32_flops_per_second(), ")");
  }

  plan.simgrid = simulated.solver() == spec::Simulated::SIMGRID;
  if (plan.simgrid) plan.notes.push_back("solver: SIMGRID: SimGrid divides the links' bandwidth, flow by flow");
  plan.world_size = static_cast<int>(WorldSize(spec));
  plan.threads = static_cast<int>(spec.train().threads_per_rank());
  plan.machine.real = simulated.data() == spec::Simulated::REAL;
  plan.machine.graph = spec.trace().execution_graph();
  if (spec.trace().goal()) {
    const double each = spec.trace().goal_mib() * 0x1p20 / plan.world_size;
    plan.machine.goal_bytes = std::max<int64_t>(1, static_cast<int64_t>(each));
  }
  plan.elastic = spec.train().has_elastic();

  if (absl::Status s = DivideIntoSites(simulated, plan); !s.ok()) return s;
  if (absl::Status s = SetLibrary(simulated, *c, plan); !s.ok()) return s;
  // Open MPI's connections remember what they have sent; a reference leaves nothing out.
  plan.may_differ_briefly = simulated.folding_error() > 0;
  plan.counts_steps = simulated.steady_state() == spec::Simulated::COUNT && !plan.machine.real && !plan.simgrid &&
                      !plan.machine.graph && plan.machine.goal_bytes == 0 && plan.library->name() != "open_mpi";
  profile::Profile profile;
  if (absl::Status s = SetCosts(spec, *c, plan, profile); !s.ok()) return s;
  if (absl::Status s = SetLinks(spec, *c, profile, plan); !s.ok()) return s;
  SetFiles(spec, plan);
  if (absl::Status s = Place(simulated, plan); !s.ok()) return s;
  if (simulated.has_sites()) Join(spec, plan);
  if (absl::Status s = Degrade(simulated.network(), plan); !s.ok()) return s;
  if (absl::Status s = SetStragglers(simulated, plan); !s.ok()) return s;
  if (simulated.folding() != spec::Simulated::OFF) FindClasses(spec, plan);
  if (simulated.folding() == spec::Simulated::ON && plan.stand_ins.empty()) {
    return InvalidArgument("fabric.simulated.folding: ON, but ", plan.why_not_fold, "; use AUTO or OFF");
  }
  const Moment now = MomentNow();
  plan.building = {now.seconds - begin.seconds, std::max<int64_t>(0, now.bytes - begin.bytes)};
  return plan;
}

}  // namespace twofold
