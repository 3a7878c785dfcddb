// Times kernels on a GPU.
//
// A sample of a kernel is a number of launches, back to back, between two events of the stream. Before them a blocker
// keeps the stream busy until the host has launched them all, so that the host's time does not count. If the host was
// too slow, the sample is repeated behind a longer blocker. The blocker is real work, large products and additions, so
// that clocks and temperature are those of a GPU in training. Each launch has operands of its own, from pools many
// times the size of the L2 cache, so that nothing written by the previous call is found there. (In training some of it
// would be, so times of operations whose operands fit into L2 are somewhat too long.)
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/cuda.h"
#include "core/memory/allocator.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/calibrate/gpu_cases.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

// One GPU's device and operands. Used by one thread. Throws the device's exceptions.
class GpuBench {
 public:
  // Uses the first of `cuda`'s GPUs. `tiny`: for tests on an emulated GPU, with little memory and inexact times.
  static absl::StatusOr<std::unique_ptr<GpuBench>> Make(const spec::Cuda& cuda, bool tiny);

  struct Sample {
    double seconds;  // GPU time per launch
    double launch;   // host time per launch
  };
  // Times `calls` launches of the case.
  Sample Time(const Case& of, int calls);
  // Runs the case once, untimed, so that work on first use is done.
  void Try(const Case& of);

  // Measure the rest of a profile's figures, with `rounds` samples each.
  void MeasureHost(profile::Gpu& gpu, int rounds);
  void MeasureCopies(profile::Gpu& gpu, int rounds);

  Device& device() { return *rank_.device; }
  GpuArena& arena() { return *arena_; }
  bool tiny() const { return tiny_; }
  int64_t most_elements() const { return most_elements_; }
  int64_t vocabulary() const { return arena_->vocabulary(); }
  int late() const { return late_; }  // samples for which no blocker was long enough

 private:
  GpuBench(const host::CudaChoice& choice, bool tiny);
  void Block(double seconds);
  double Transfers(const Tensor& from, const Tensor& to);  // GPU seconds of one transfer
  double Added(int64_t n);                                 // seconds of an addition of n elements

  const bool tiny_;
  host::GpuReserved reserved_;
  std::unique_ptr<MemorySource> source_, host_source_;
  CachingAllocator allocator_, host_allocator_;
  bool observe_ = false;
  std::vector<std::pair<double, double>> observed_;  // begin and end
  host::CudaRank rank_;
  std::unique_ptr<Stream> transfers_;
  int64_t most_elements_ = 0;
  std::unique_ptr<GpuArena> arena_;
  std::vector<ops::Op> blocker_;
  double blocker_seconds_ = 0;  // of one run of the whole blocker
  int late_ = 0;
};

// Samples of all cases, packed by case: GPU seconds and host seconds. `progress` is called now and then with the
// fraction that is done.
struct GpuSamples {
  Samples seconds, launches;
};
GpuSamples MeasureGpuKernels(GpuBench& bench, const std::vector<const Case*>& cases, Seconds budget, int most_rounds,
                             const std::function<void(double)>& progress);

}  // namespace twofold::calibrate
