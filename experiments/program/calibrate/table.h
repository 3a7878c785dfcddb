// What calibration found, for people.
#pragma once

#include <string>

#include "core/proto/profile.pb.h"

namespace twofold::calibrate {

// A line a kernel: least time, rate at the largest size, spread over rounds.
std::string KernelTableText(const profile::Profile& profile);

// The links, and collectives by size.
std::string LinkTableText(const profile::SharedMemory& links, int ranks);
std::string CollectiveTableText(const profile::MeasuredCollective& collective);

// Launches, copies, products and collectives of a GPU.
std::string GpuTableText(const profile::Gpu& gpu);

// What other work had of the machine meanwhile, and what that does to intervals; "" where it is not known.
std::string LoadTableText(const profile::Load& load);

// How training jobs went beside kernels alone: a line a number of ranks, with the kernels whose factors are farthest from it.
std::string TrainingTableText(const profile::Training& training);

}  // namespace twofold::calibrate
