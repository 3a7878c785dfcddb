#include "backends/host/rank.h"

#include <algorithm>
#include <set>

#include "backends/host/exit_scope.h"
#include "backends/host/memory_rules.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "core/device/kernel_names.h"

namespace twofold::host {
namespace {

class RunClock : public Clock {
 public:
  explicit RunClock(const RunState& run) : run_(run) {}
  Seconds Now() override { return Seconds(run_.Now()); }

 private:
  const RunState& run_;
};

}  // namespace

absl::StatusOr<DeviceChoice> ChooseDevice(const spec::Spec& spec, RanksAre ranks) {
  DeviceChoice choice{.threads = static_cast<int>(spec.train().threads_per_rank())};
  for (const spec::Straggler& s : spec.fabric().in_memory().stragglers()) {
    choice.slowdowns[static_cast<int>(s.rank())] = s.factor();
    choice.notes.push_back(
        StrCat("rank ", s.rank(), " computes ", s.factor(), " times as long (fabric.in_memory.stragglers)"));
  }
  if (spec.device() == spec::CUDA) {
    absl::StatusOr<CudaChoice> cuda = ChooseCuda(spec);
    if (!cuda.ok()) return cuda.status();
    choice.cuda = *std::move(cuda);
    for (const int gpu : std::set<int>(choice.cuda->gpus.begin(), choice.cuda->gpus.end()))
      choice.notes.push_back(DescribeGpu(gpu));
    for (std::string& library : DescribeGpuLibraries()) choice.notes.push_back(std::move(library));
    choice.notes.push_back(
        "outside_ledger_bytes: GPU memory in use outside the ranks' allocators (context, kernels, libraries, other "
        "processes), divided evenly among the ranks");
  }
  if (spec.device() != spec::EMULATED) {
    const MemoryRules rules = MemoryRulesHere(spec, ranks);
    choice.memory = rules.device, choice.host_memory = rules.host;
    return choice;
  }
  absl::StatusOr<Costs> costs = FindCosts(spec.emulated());
  if (!costs.ok()) return costs.status();
  if (absl::Status s = CheckFp8(spec.train().precision(), *costs, "emulated.cluster"); !s.ok()) return s;
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) costs->notes.push_back(costs->DescribeHostLink());
  const MemoryRules rules = MemoryRulesOf(spec, costs->device);
  choice.memory = rules.device, choice.host_memory = rules.host;
  choice.notes.insert(choice.notes.end(), costs->notes.begin(), costs->notes.end());
  choice.emulated = std::make_shared<const Costs>(*std::move(costs));
  return choice;
}

Rank::Rank(Process& process, int rank, const DeviceChoice& device)
    : process_(process),
      rank_(rank),
      gpu_(device.cuda ? std::optional(device.cuda->Of(rank)) : std::nullopt),
      ranks_on_gpu_(gpu_ ? device.cuda->RanksOn(*gpu_, process.local_ranks) : 0),
      source_(MakeSource(device)),
      host_source_(MakeHostSource(device)),
      allocator_(*source_, rank),
      host_allocator_(*host_source_, rank, "host memory"),
      device_(MakeDevice(device)),
      clock_(std::make_unique<RunClock>(process.run)) {
  Enter(process.run);
  trace_.OnChange([this](bool enabled) { Observe(enabled); });
  if (tell_observed_) trace_.OnTake([this] { TellObserved(); });
}

std::unique_ptr<MemorySource> Rank::MakeSource(const DeviceChoice& choice) {
  if (gpu_) return NewGpuSource(*gpu_, choice.memory, process_.gpus);
  return std::make_unique<ListedSource>(process_.segments, choice.memory);
}

std::unique_ptr<MemorySource> Rank::MakeHostSource(const DeviceChoice& choice) {
  if (gpu_) return NewPinnedSource(*gpu_, choice.host_memory);
  return std::make_unique<ListedSource>(process_.segments, choice.host_memory);
}

std::unique_ptr<Device> Rank::MakeDevice(const DeviceChoice& choice) {
  if (choice.cuda) return MakeCuda(*choice.cuda);
  const auto transfers = [this](std::string_view stream, Bytes bytes, double start, double end) {
    if (trace_.enabled()) AddTransfer(stream, bytes, start, end);
  };
  const auto slowed = choice.slowdowns.find(rank_);
  const double slowdown = slowed == choice.slowdowns.end() ? 1 : slowed->second;
  if (choice.emulated == nullptr) {
    auto device = std::make_unique<CpuDevice>(allocator_, host_allocator_, choice.threads);
    device->SetTransferObserver(transfers);
    device->SlowDown(slowdown);
    set_observer_ = [d = device.get()](CpuDevice::Observer o) { d->SetObserver(std::move(o)); };
    return device;
  }
  auto device = std::make_unique<EmulatedDevice>(allocator_, host_allocator_, *choice.emulated, choice.threads, [this] {
    if (run().ending()) run().ThrowIfEnding(state_->rank, "an operation");
  });
  emulated_ = device.get();
  emulated_->SetTransferObserver(transfers);
  emulated_->SlowDown(slowdown);
  set_observer_ = [this](CpuDevice::Observer o) { emulated_->SetObserver(std::move(o)); };
  return device;
}

void Rank::AddTransfer(std::string_view stream, Bytes bytes, double start, double end) {
  AddSpan({.stream = std::string(stream), .name = "transfer", .bytes = bytes}, start, end);
}

void Rank::AddSpan(Span span, double start, double end) {
  span.start = Seconds(process_.run.Since(start));
  span.end = Seconds(process_.run.Since(end));
  trace_.Add(std::move(span));
}

// Spans are reported after their operations, so they use the label of the launch.
std::unique_ptr<Device> Rank::MakeCuda(const CudaChoice& choice) {
  CudaObservers observers;
  observers.operation = [this](const ops::Op& op) -> CudaObservers::Observed {
    if (!trace_.enabled()) return nullptr;
    const ops::KernelKey key = ops::Key(op);
    return [this, name = trace_.NameOf(key.name), cost = ops::CostOf(op), label = trace_.label(),
            shape = trace_.Kept(ops::ShapeText(key))](double start, double end) {
      AddSpan({.stream = "compute",
               .name = std::string(name),
               .bytes = cost.bytes(),
               .label = std::string(label),
               .shape = std::string(shape),
               .flops = cost.flops.value()},
              start, end);
    };
  };
  observers.transfer = [this](std::string_view stream, Bytes bytes) -> CudaObservers::Observed {
    if (!trace_.enabled()) return nullptr;
    return [this, stream = std::string(stream), bytes](double start, double end) {
      AddTransfer(stream, bytes, start, end);
    };
  };
  observers.wait = [this]() -> CudaObservers::Observed {
    if (!trace_.enabled() || state_->waits_for.empty()) return nullptr;
    return [this, stream = std::string(state_->waits_for)](double start, double end) {
      trace_.AddStall({stream, Seconds(process_.run.Since(start)), Seconds(process_.run.Since(end))});
    };
  };
  observers.note = [this](std::string note) {
    if (RankContext* const context = context_; context != nullptr) context->AddNote(std::move(note));
  };
  CudaRank made = NewCudaDevice(allocator_, host_allocator_, choice, *gpu_, rank_, std::move(observers));
  tell_observed_ = std::move(made.tell_observed);
  return std::move(made.device);
}

// Waits for pending observations of operations and transfers. Also waits for communication threads to trace
// communications that streams know to be over.
void Rank::TellObserved() {
  tell_observed_();
  AwaitPosted(*state_);
}

void Rank::Observe(bool enabled) {
  if (tell_observed_) {
    if (enabled) return;
    try {
      TellObserved();
    } catch (const std::exception&) {  // a GPU error: the rank's next call reports it, or already has
    }
    return;
  }
  if (!enabled) return set_observer_(nullptr);
  const double origin = -process_.run.Since(std::chrono::steady_clock::time_point());
  set_observer_([this, origin](const ops::Op& op, double start, double end) {
    const ops::KernelKey key = ops::Key(op);
    const ops::Cost cost = ops::CostOf(op);
    trace_.Add({.stream = "compute",
                .name = std::string(trace_.NameOf(key.name)),
                .start = Seconds(start - origin),
                .end = Seconds(end - origin),
                .bytes = cost.bytes(),
                .label = std::string(trace_.label()),
                .shape = ops::ShapeText(key),
                .flops = cost.flops.value()});
  });
}

// This rank's equal share of the process's growth since the run began, beyond its ranks' own memory; never below zero.
// On a GPU: its share of the GPU memory in use beyond the ranks' own.
Bytes Rank::OutsideLedger() const {
  if (gpu_) return UsedBeyond(process_.gpus, *gpu_) / ranks_on_gpu_;
  const int64_t grown = ResidentBytes().value() - process_.resident_at_start.value();
  return Bytes(std::max<int64_t>(0, grown - process_.segments.Resident().value()) / process_.local_ranks);
}

void Rank::Enter(RunState& run) {
  auto state = std::make_shared<RankState>(run, rank_, *device_, trace_);
  state->emulated = emulated_;
  state->tells_waits = gpu_.has_value();
  std::lock_guard lock(state_mutex_);
  state_ = std::move(state);
}

std::string Rank::Run(const RankFunction& fn, ProcessGroup& world, const std::function<void()>& drain,
                      RankContext::Parts::Membership membership) {
  RankContext context({.rank = world.rank(),
                       .world_size = world.size(),
                       .device = device_.get(),
                       .world = &world,
                       .clock = clock_.get(),
                       .trace = &trace_,
                       .communication = &stats_,
                       .check_interrupt = [this] { CheckInterrupt(); },
                       .may_begin = [this](int64_t step) { return MayBegin(step); },
                       .outside_ledger = [this] { return OutsideLedger(); },
                       .wait_until =
                           [this](Seconds time) {
                             if (emulated_ != nullptr) emulated_->NotBefore(process_.run.Steady(time.value()));
                           },
                       .member = rank_,
                       .membership = std::move(membership)});
  context_ = &context;
  const ExitScope scope([this](int status) { Exit(status); });
  try {
    std::string result = fn(context);
    drain();
    run().Leave(state_->rank);
    return result;
  } catch (...) {
    const RankFailure failure = CurrentFailure(state_->rank);
    run().Explain(state_->rank, failure.kind(), failure.what());
  }
  return context.partial_result();
}

std::string Rank::PartialIfStuck() {
  const std::shared_ptr<RankState> state = this->state();
  std::lock_guard lock(state->mutex);  // the host needs it to leave the call
  const bool stuck = state->host_in_call || exited();
  return stuck && context_ != nullptr ? context_.load()->PartialResultOfStuckRank() : std::string();
}

std::string Rank::KeptPartial() const {
  std::lock_guard lock(kept_mutex_);
  return kept_;
}

void Rank::CheckInterrupt() {
  run().ThrowIfEnding(state_->rank, "a check between steps");
  keep_.Do([this] {
    std::string partial = context_.load()->PartialResultBetweenSteps();
    std::lock_guard lock(kept_mutex_);
    kept_ = std::move(partial);
  });
}

bool Rank::MayBegin(int64_t step) {
  return process_.last_step->MayBegin(
      step, [this] { run().ThrowIfEnding(state_->rank, "a wait for the step after which the run ends"); });
}

void Rank::Exit(int status) {
  const int rank = state_->rank;
  run().Explain(rank, RankFailure::Kind::kOther,
                StrCat("rank ", rank, ": called exit(", status, "); ", run().Doing(rank)));
  exited_.store(true, std::memory_order_release);
}

}  // namespace twofold::host
