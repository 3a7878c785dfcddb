// Flows on a topology: when each of them ends, as SimGrid simulates it and as the solver for what begins together says.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "sim/latency.h"
#include "sim/sharing/fluid.h"

namespace twofold::sim {

struct TestFlow {
  int from, to;  // endpoints
  double bytes;
  double start = 0;
  int rail = -1;
  double rate = Fluid::kNoLimit;
};

// Runs `schedules`, each among its endpoints, from its start on, in one simulation; the latest finish of each.
struct TestTransfer {
  Schedule schedule;
  std::vector<int> endpoints;
  double start = 0;
};
inline std::vector<double> Simulated(const Topology& topology, const RoutingOptions& routing,
                                     const std::vector<TestTransfer>& transfers, bool solve_flows = false) {
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(topology, {.routing = routing, .solve_flows = solve_flows});
    outcome::Outcome result;
    for (size_t i = 0; i < transfers.size(); ++i) {
      result.add_results();
      engine.Transfer(std::make_shared<Schedule>(transfers[i].schedule), transfers[i].endpoints, transfers[i].start,
                      [&result, i](const std::vector<double>& finish) {
                        result.set_results(static_cast<int>(i),
                                           absl::StrFormat("%.17g", *std::max_element(finish.begin(), finish.end())));
                      });
    }
    const absl::Status status = engine.Run();
    result.set_code(static_cast<int>(status.code()));
    result.set_message(std::string(status.message()));
    return result;
  });
  std::vector<double> ends;
  EXPECT_TRUE(outcome.ok() && outcome->message().empty())
      << outcome.status() << (outcome.ok() ? outcome->message() : "");
  if (outcome.ok())
    for (const std::string& end : outcome->results()) ends.push_back(std::stod(end));
  return ends;
}

inline TestTransfer Alone(const TestFlow& f) {
  return {{.phases = {{.rounds = 1, .flows = {{.from = 0, .to = 1, .bytes = f.bytes, .rail = f.rail, .rate = f.rate}}}},
           .last_phase = {0, 0},
           .algorithm = "",
           .protocol = ""},
          {f.from, f.to},
          f.start};
}

// Each flow an actor of its own.
inline std::vector<double> BySimGrid(const Topology& topology, const std::vector<TestFlow>& flows,
                                     const RoutingOptions& routing = {}) {
  std::vector<TestTransfer> transfers;
  for (const TestFlow& f : flows) transfers.push_back(Alone(f));
  return Simulated(topology, routing, transfers);
}

// Flows that all begin at 0 and whose routes have the same latency.
inline std::vector<double> ByFluid(const Topology& topology, const std::vector<TestFlow>& flows,
                                   const RoutingOptions& routing = {}) {
  Router router(topology, routing);
  Fluid fluid(topology);
  std::vector<size_t> flow_of;
  std::vector<double> ends;
  for (size_t i = 0; i < flows.size(); ++i) {
    const TestFlow& f = flows[i];
    std::vector<Path> paths;
    router.Choose({f.from, f.to, f.rail}, 0, f.bytes, paths);
    ends.push_back(RouteLatency(topology, routing.policy, {f.from, f.to, f.rail}, paths));
    EXPECT_EQ(f.start, 0);
    for (const Path& path : paths) {
      for (int part = 0; part < path.parts; ++part) {
        fluid.Add(path.links, f.bytes * path.share / path.parts, f.rate * path.share / path.parts);
        flow_of.push_back(i);
      }
    }
  }
  const std::vector<double>& seconds = fluid.Solve();
  std::vector<double> last(flows.size());
  for (size_t i = 0; i < seconds.size(); ++i) last[flow_of[i]] = std::max(last[flow_of[i]], seconds[i]);
  for (size_t i = 0; i < flows.size(); ++i) ends[i] += last[i];
  return ends;
}

}  // namespace twofold::sim
