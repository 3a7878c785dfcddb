// The engine's SimGrid objects, for the files that implement it.
#pragma once

#include <memory>
#include <optional>

#include "sim/engine.h"
#include "sim/zone.h"
#include "simgrid/s4u.hpp"

namespace twofold::sim {

// SimGrid's clock, which goes on from one engine to the next. Its address is null if this SimGrid keeps it elsewhere.
extern double simgrid_clock [[gnu::weak]] __asm__("_ZN7simgrid6kernel10EngineImpl4now_E");

struct Engine::SimGrid {
  std::unique_ptr<simgrid::s4u::Engine> engine;
  std::optional<Platform> platform;
};

}  // namespace twofold::sim
