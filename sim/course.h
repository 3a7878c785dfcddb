// A course: schedules whose flows are solved in advance (Engine::Chart).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "sim/collectives/flow_list.h"
#include "sim/engine.h"
#include "sim/flows.h"

namespace twofold::sim {

// Copies whose phases have the same latencies run in step: the flows of a phase form one bundle.
class Engine::Course {
 public:
  struct Phase {
    double seconds;            // its latency
    Flows::BundlePtr flows;    // null: no flows, or not solved yet
    double flows_seconds = 0;  // of flows that are not solved: what they take if they have the network to themselves
    double most = 2;           // of these: as in Engine::Alone; 2: unknown
  };
  struct Set {
    std::vector<Phase> phases;
  };
  struct Copy {
    size_t set;
    std::vector<int> last_phase;
  };
  std::vector<Set> sets;
  std::vector<Copy> copies;  // none if `together`
  bool together = true;      // all endpoints are done when the last phase of the only set has ended
  std::function<std::shared_ptr<const Course>()> solve = nullptr;  // the same course with its flows solved
};

// What is known of the courses of copies of one schedule whose flows are given by kind (flow_list.h). The next size of
// the same collective has the same routes and the same classes of flows: nothing is listed again.
struct Engine::Charted {
  std::vector<std::shared_ptr<const FlowPattern>> patterns;  // by phase; null: no flows
  std::pair<uint64_t, uint64_t> endpoints;                   // a hash of those of all copies
  std::vector<uint64_t> kinds;                               // what tells kinds apart, besides a common factor of bytes
  struct Set {
    std::vector<std::vector<double>> routes = {};  // by phase and flow: the latencies of the first copy's routes
    std::vector<Flows::BundlePtr> flows = {};      // by phase
  };
  std::vector<Set> sets;
  std::vector<size_t> set_of;  // by copy
  std::vector<double> bytes;   // by phase: of its first flow
};

}  // namespace twofold::sim
