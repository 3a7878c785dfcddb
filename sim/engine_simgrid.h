// The engine's SimGrid objects, for the files that implement it.
#pragma once

#include <memory>
#include <optional>

#include "sim/engine.h"
#include "sim/zone.h"
#include "simgrid/s4u.hpp"

namespace twofold::sim {

struct Engine::SimGrid {
  std::unique_ptr<simgrid::s4u::Engine> engine;
  std::optional<Platform> platform;
};

}  // namespace twofold::sim
