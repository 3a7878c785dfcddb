// What the host takes to launch operations by CUDA graphs (cuda.graphs).
//
// The sections, and which of them are replayed, are those of the real device, by the same code
// (core/device/launch_sections.h) and the same addresses. An operation that a graph launches costs the host the time to
// keep it and to compare it with that of the step before. The graph costs a launch, and a little for each node. Its
// operations start once it is launched. An operation whose numbers changed costs a launch, too, because it is captured.
//
// kGraphLaunch, kGraphNode: 2.5 us and 1 ns for each node, of straight-line graphs from CUDA 12.6 on, on a Xeon Silver
//   4208 with an RTX 3060 (NVIDIA Technical Blog, "Constant Time Launch for Straight-Line CUDA Graphs and Other
//   Performance Enhancements", 2024; as other documents quote it).
// kGraphOperation: 0.45 to 1.4 us, of six operations, on a busy core of an AMD EPYC (host_graphs of
//   tests/benchmarks/gpu_kernels_benchmark.cc on the emulation with TWOFOLD_EMULATED_DISCARD=1; the launch itself is
//   not in it).
//
// Assumes: an operation is one node. Ignores: that kernels of a graph follow each other faster than kernels of a
// stream, and the time to make a graph, once per section.
#pragma once

#include <functional>
#include <vector>

#include "core/device/launch_sections.h"

namespace twofold {

inline constexpr double kGraphLaunch = 2.5e-6, kGraphNode = 1e-9, kGraphOperation = 1e-6;  // seconds

// What is kept for the next graph.
template <class Launch>
struct GraphLaunches {
  struct Kept {
    Launch launch;
    std::function<void()> call;  // instead of a launch: something that happens when the stream reaches this place
  };
  LaunchSections sections;
  std::vector<Kept> kept;
};

}  // namespace twofold
