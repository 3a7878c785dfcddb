// What a rank of a simulation is made of, and the context that its function gets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/host/now_and_then.h"
#include "backends/simulated/device.h"
#include "backends/simulated/faults.h"
#include "backends/simulated/generations.h"
#include "backends/simulated/plan.h"
#include "backends/simulated/process_group.h"
#include "backends/simulated/shared_memory.h"
#include "core/base/format.h"

namespace twofold {

// Everything one actor needs. Members are destroyed from the bottom up: the group before the device before its memory.
struct Actor {
  // It represents `stands_for` ranks, including itself.
  Actor(int rank, int stands_for, const host::NowAndThen& keep_now_and_then, SimulationPlan& plan, SharedMemory& shared,
        SimulatedWorld& world, std::shared_ptr<SimulatedGroup> group)
      : clock(rank, world.engine, MachineOf(rank, plan)),
        source(MakeSource(plan.device_memory, plan), shared, stands_for),
        host_source(MakeSource(plan.host_memory, plan), shared, stands_for),
        allocator(source, rank, MemoryName(plan, plan.device_memory, "memory")),
        host_allocator(host_source, rank, MemoryName(plan, plan.host_memory, "host memory")),
        device(clock, allocator, host_allocator, *plan.costs, plan.host_link, plan.threads),
        group(std::make_unique<SimulatedProcessGroup>(std::move(group), clock, device, stats)),
        keep(keep_now_and_then) {}

  static SimulatedMachine MachineOf(int rank, const SimulationPlan& plan) {
    SimulatedMachine machine = plan.machine;
    if (!plan.compute_factors.empty()) machine.slowdown *= plan.compute_factors[static_cast<size_t>(rank)];
    return machine;
  }
  static std::unique_ptr<MemorySource> MakeSource(Bytes limit, const SimulationPlan& plan) {
    if (plan.assume_fits) return std::make_unique<LenientSource>(MakeBounded(Bytes(0), plan.machine.real), limit);
    return MakeBounded(limit, plan.machine.real);
  }
  static std::unique_ptr<MemorySource> MakeBounded(Bytes limit, bool real) {
    if (real) return std::make_unique<MallocSource>(limit);
    return std::make_unique<VirtualSource>(limit);
  }
  // Names the memory that has run out: the rank's own limit takes precedence over the shared one.
  static std::string MemoryName(const SimulationPlan& plan, Bytes limit, const char* own) {
    if (limit.value() > 0 || plan.shared_memory.value() == 0) return own;
    return StrCat("this machine's memory (", CountText(plan.shared_memory.value()), " bytes for ", plan.world_size,
                  plan.world_size == 1 ? " rank)" : " ranks)");
  }

  SimulatedRank clock;
  SharedSource source, host_source;
  CachingAllocator allocator, host_allocator;
  CommunicationStats stats;
  SimulatedDevice device;
  // Of all ranks; in a new generation of members there is another one, and that of the generation before is kept for
  // groups that refer to it and are about to be destroyed.
  std::unique_ptr<ProcessGroup> previous = nullptr, group;
  const RankContext* context = nullptr;
  host::NowAndThen keep;  // schedules copies of the partial result to the parent
};

// What a rank of an elastic run is offered. All arguments outlive the rank's function.
RankContext::Parts::Membership MembershipOf(SimulatedGenerations& generations, SimulatedFaults& faults, Actor& actor);
// What a rank of another run is offered.
RankContext::Parts::Membership OnlySteps(SimulatedFaults& faults, SimulatedRank& rank);

// The context of `rank`, which traces its compute from now on. `plan`, `actor` and `faults` outlive it. `repeats`: see
// RepeatsOf (repeats.h); null if all steps are simulated.
RankContext MakeContext(int rank, const SimulationPlan& plan, Actor& actor, SimulatedFaults& faults,
                        RankContext::Parts::Membership membership, std::function<int64_t(int64_t, int64_t)> repeats);

}  // namespace twofold
