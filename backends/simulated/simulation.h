// One run of a simulation: engine, network and actors, from their making to what they came to.
#pragma once

#include "backends/simulated/plan.h"
#include "core/proto/outcome.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/fabric.h"
#include "sim/flight_record.h"

namespace twofold {

// What is simulated. All of it outlives the run.
struct SimulationTask {
  const spec::Spec& spec;
  SimulationPlan& plan;  // of an elastic spec, for all members that there can ever be
  int world_size;        // ranks that the run begins with
  bool fold;             // actors stand for several ranks, as the plan has them
  const RankFunction& fn;
};

// Runs it, `here` or in the child process, which then ends with the outcome.
outcome::Outcome Simulate(const SimulationTask& task, bool here, sim::FlightRecord& record);

}  // namespace twofold
