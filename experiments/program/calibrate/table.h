// Results of a calibration as text.
#pragma once

#include <string>

#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

// One line per kernel: shortest time, rate at the largest size, spread over rounds.
std::string KernelTableText(const profile::Profile& profile);

// The links, and collectives by size.
std::string LinkTableText(const profile::SharedMemory& links, int ranks);
std::string CollectiveTableText(const profile::MeasuredCollective& collective);

// Launches, copies, products and collectives of a GPU.
std::string GpuTableText(const profile::Gpu& gpu);

// How much of the machine other work used during the calibration, and its effect on intervals; "" if unknown.
std::string LoadTableText(const profile::Load& load);

// Training jobs compared with kernels alone: one line per number of ranks, with the kernels whose factors differ most.
std::string TrainingTableText(const profile::Training& training);

}  // namespace twofold::calibrate
