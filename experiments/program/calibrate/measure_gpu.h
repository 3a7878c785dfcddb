// Times kernels on a GPU.
//
// A sample of a kernel is a number of launches, one behind the other, between two events of the stream. Before them the stream is kept
// busy (a blocker) until the host has launched them all, so that what the host takes does not count; where the host was too slow the
// sample is taken again behind a longer blocker. The blocker is work, large products and additions, so that clocks and temperature
// are those of a GPU that trains. Each launch has operands of its own, from pools many times the size of the L2 cache: what the call before
// wrote is not found there. (In training some of it would be: times of operations whose operands fit into L2 are rather too long.)
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/cuda.h"
#include "core/memory/allocator.h"
#include "core/proto/profile.pb.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/calibrate/gpu_cases.h"
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

// One GPU's device and operands. Used by one thread. Throws what the device throws.
class GpuBench {
 public:
  // On the first of `cuda`'s GPUs. `tiny`: for tests on an emulated one, with little memory and no care for time.
  static absl::StatusOr<std::unique_ptr<GpuBench>> Make(const spec::Cuda& cuda, bool tiny);

  struct Sample {
    double seconds;  // of the GPU, a launch
    double launch;   // of the host, a launch
  };
  // Of `calls` launches of the case.
  Sample Time(const Case& of, int calls);
  // Once without timing: whatever is done on first use is done then.
  void Try(const Case& of);

  // The rest of a profile's figures; `rounds` samples each.
  void MeasureHost(profile::Gpu& gpu, int rounds);
  void MeasureCopies(profile::Gpu& gpu, int rounds);

  Device& device() { return *rank_.device; }
  GpuArena& arena() { return *arena_; }
  bool tiny() const { return tiny_; }
  int64_t most_elements() const { return most_elements_; }
  int64_t vocabulary() const { return arena_->vocabulary(); }
  int late() const { return late_; }  // samples that no blocker was long enough for

 private:
  GpuBench(const host::CudaChoice& choice, bool tiny);
  void Block(double seconds);
  double Transfers(const Tensor& from, const Tensor& to);  // seconds of one on the GPU
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
  double blocker_seconds_ = 0;  // of all of it
  int late_ = 0;
};

// Rounds of samples of all cases, packed by case: seconds of the GPU, and of the host. `progress` is called now and then with the share
// that is done.
struct GpuSamples {
  Samples seconds, launches;
};
GpuSamples MeasureGpuKernels(GpuBench& bench, const std::vector<const Case*>& cases, Seconds budget, int most_rounds, const std::function<void(double)>& progress);

}  // namespace twofold::calibrate
