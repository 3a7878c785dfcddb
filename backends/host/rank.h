// What one rank owns on fabrics whose ranks are threads or processes of this machine: memory, device, trace, clock,
// statistics.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/host/costs.h"
#include "backends/host/cuda.h"
#include "backends/host/emulated_device.h"
#include "backends/host/last_step.h"
#include "backends/host/memory_rules.h"
#include "backends/host/now_and_then.h"
#include "backends/host/queue.h"
#include "backends/host/resident_memory.h"
#include "backends/host/run_state.h"
#include "core/run/fabric.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold::host {

// State that the ranks of one run share within this process.
struct Process {
  Process(int world_size, int local_ranks, double timeout_s, std::function<double()> clock = nullptr)
      : run(world_size, timeout_s, std::move(clock)), world_size(world_size), local_ranks(local_ranks) {}
  RunState run;
  const int world_size;
  const int local_ranks;  // ranks in this process
  Segments segments;
  GpuReserved gpus;
  std::shared_ptr<LastStep> last_step = std::make_shared<LastStep>();
  const Bytes resident_at_start = ResidentBytes();
};

// The device that the ranks of a run compute on.
struct DeviceChoice {
  int threads = 1;                             // threads per operation
  std::shared_ptr<const Costs> emulated = {};  // if set, an emulated device
  std::optional<CudaChoice> cuda = {};         // if set, GPUs; if neither is set, the CPU
  Bytes memory = Bytes(0);                     // limit per rank; zero: not bounded
  Bytes host_memory = Bytes(0);                // limit per rank of host memory; zero: not bounded
  std::map<int, double> slowdowns = {};        // of ranks that compute more slowly: how many times as long they take
  std::vector<std::string> notes = {};         // for the report
};
// Reads device, emulated, cuda, memory and train.threads_per_rank.
absl::StatusOr<DeviceChoice> ChooseDevice(const spec::Spec& spec, RanksAre ranks);

class Rank {
 public:
  // Construct from one thread at a time: creating a device sets OpenBLAS's thread count, which all ranks share.
  Rank(Process& process, int rank, const DeviceChoice& device);
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  // Runs `fn` on the calling thread and reports to the run how it ended. `drain` finishes what was issued. Returns the
  // result, or the partial result of a rank that failed. `world` is the group of the first generation that the rank
  // belongs to; in later ones it has another one.
  std::string Run(const RankFunction& fn, ProcessGroup& world, const std::function<void()>& drain,
                  RankContext::Parts::Membership membership = {});
  // The rank takes part in the next generation, whose state is `run`. Call on the thread that runs it.
  void Enter(RunState& run);

  // For another thread, once the run has failed: the partial result of a rank that cannot return it itself, because its
  // host is stuck in a communication or has called exit(). Otherwise empty.
  std::string PartialIfStuck();
  // For another thread, once the run has failed: the partial result of a rank that is still computing, as saved shortly
  // before, between steps.
  std::string KeptPartial() const;
  // The rank's function has called exit(); the thread that runs it will never return.
  bool exited() const { return exited_.load(std::memory_order_acquire); }

  std::shared_ptr<RankState> state() const {
    std::lock_guard lock(state_mutex_);
    return state_;
  }
  CommunicationStats& stats() { return stats_; }

 private:
  std::unique_ptr<MemorySource> MakeSource(const DeviceChoice& device);
  std::unique_ptr<MemorySource> MakeHostSource(const DeviceChoice& device);
  std::unique_ptr<Device> MakeDevice(const DeviceChoice& device);
  std::unique_ptr<Device> MakeCuda(const CudaChoice& choice);
  void AddSpan(Span span, double start, double end);
  void AddTransfer(std::string_view stream, Bytes bytes, double start, double end);
  void Observe(bool enabled);
  void TellObserved();
  Bytes OutsideLedger() const;
  void CheckInterrupt();
  bool MayBegin(int64_t step);
  void Exit(int status);
  RunState& run() const { return state_->run; }  // for the rank's own thread

  Process& process_;
  const int rank_;
  const std::optional<int> gpu_;  // the GPU it computes on
  const int ranks_on_gpu_;
  const std::unique_ptr<MemorySource> source_, host_source_;
  CachingAllocator allocator_, host_allocator_;
  // For devices whose launches return when the operation is done.
  std::function<void(CpuDevice::Observer)> set_observer_;
  std::function<void()> tell_observed_;  // for other devices
  EmulatedDevice* emulated_ = nullptr;   // the device, if it is one
  Trace trace_;
  std::unique_ptr<Device> device_;
  CommunicationStats stats_;
  std::unique_ptr<Clock> clock_;
  std::atomic<RankContext*> context_ = nullptr;  // while the rank's function runs
  std::atomic<bool> exited_ = false;
  NowAndThen keep_;
  mutable std::mutex kept_mutex_;
  std::string kept_;                  // a partial result
  mutable std::mutex state_mutex_;    // for other threads: Enter replaces state_
  std::shared_ptr<RankState> state_;  // in the present generation
};

}  // namespace twofold::host
