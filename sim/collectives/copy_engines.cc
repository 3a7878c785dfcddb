#include "sim/collectives/copy_engines.h"

namespace twofold::sim {

bool MayCopy(const Places& places) { return places.nodes == 1 && !places.pcie_in_node; }

Schedule CopyByEngine(double bytes) {
  return {.phases = {{.rounds = 1, .flows = {{0, 1, bytes / kCopyShare}}, .seconds = kCopySeconds}},
          .last_phase = {0, 0},
          .algorithm = "copy engines"};
}

}  // namespace twofold::sim
