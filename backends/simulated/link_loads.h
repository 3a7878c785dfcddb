// What the network's links carried, as a process that simulates tells it to the one that started it.
#pragma once

#include "core/proto/outcome.pb.h"
#include "core/run/fabric.h"
#include "sim/engine.h"

namespace twofold {

// Adds nothing if the engine recorded no links, or none carried anything.
void AddLinkLoads(sim::Engine& engine, outcome::Outcome& outcome);
LinkLoads LinkLoadsOf(const outcome::LinkLoads& in);

}  // namespace twofold
