#include "backends/host/rank.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <typeinfo>

#include "backends/host/exit_scope.h"
#include "backends/host/memory_rules.h"
#include "core/base/strings.h"

namespace twofold::host {
namespace {

std::string TypeName(const std::exception& e) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(typeid(e).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(name.get()) : std::string(typeid(e).name());
}

class RunClock : public Clock {
 public:
  explicit RunClock(const RunState& run) : run_(run) {}
  Seconds Now() override { return Seconds(run_.Now()); }

 private:
  const RunState& run_;
};

}  // namespace

absl::StatusOr<DeviceChoice> ChooseDevice(const spec::Spec& spec) {
  DeviceChoice choice{.threads = static_cast<int>(spec.train().threads_per_rank())};
  if (spec.device() != spec::EMULATED) {
    const MemoryRules rules = MemoryRulesOf(spec, cluster::Device());
    choice.memory = rules.device, choice.host_memory = rules.host;
    return choice;
  }
  absl::StatusOr<Costs> costs = FindCosts(spec.emulated());
  if (!costs.ok()) return costs.status();
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) costs->notes.push_back(DescribeHostLink(costs->device));
  const MemoryRules rules = MemoryRulesOf(spec, costs->device);
  choice.memory = rules.device, choice.host_memory = rules.host;
  choice.emulated = std::make_shared<const Costs>(*std::move(costs));
  return choice;
}

Rank::Rank(Process& process, int rank, const DeviceChoice& device)
    : process_(process),
      rank_(rank),
      source_(process.segments, device.memory),
      host_source_(process.segments, device.host_memory),
      allocator_(source_, rank),
      host_allocator_(host_source_, rank, "host memory"),
      device_(MakeDevice(device)),
      clock_(std::make_unique<RunClock>(process.run)),
      state_(std::make_shared<RankState>(process.run, rank, *device_, trace_)) {
  state_->emulated = emulated_;
  trace_.OnChange([this](bool enabled) { Observe(enabled); });
}

std::unique_ptr<Device> Rank::MakeDevice(const DeviceChoice& choice) {
  const auto transfers = [this](std::string_view stream, Bytes bytes, double start, double end) {
    if (trace_.enabled()) AddTransfer(stream, bytes, start, end);
  };
  if (choice.emulated == nullptr) {
    auto device = std::make_unique<CpuDevice>(allocator_, host_allocator_, choice.threads);
    device->SetTransferObserver(transfers);
    set_observer_ = [d = device.get()](CpuDevice::Observer o) { d->SetObserver(std::move(o)); };
    return device;
  }
  auto device = std::make_unique<EmulatedDevice>(allocator_, host_allocator_, *choice.emulated, choice.threads, [this] {
    if (process_.run.ending()) process_.run.ThrowIfEnding(rank_, "an operation");
  });
  emulated_ = device.get();
  emulated_->SetTransferObserver(transfers);
  set_observer_ = [this](CpuDevice::Observer o) { emulated_->SetObserver(std::move(o)); };
  return device;
}

void Rank::AddTransfer(std::string_view stream, Bytes bytes, double start, double end) {
  trace_.Add({.stream = std::string(stream),
              .name = "transfer",
              .start = Seconds(process_.run.Since(start)),
              .end = Seconds(process_.run.Since(end)),
              .bytes = bytes});
}

void Rank::Observe(bool enabled) {
  if (!enabled) return set_observer_(nullptr);
  const double origin = -process_.run.Since(std::chrono::steady_clock::time_point());
  set_observer_([this, origin](const ops::Op& op, double start, double end) {
    trace_.Add({.stream = "compute",
                .name = std::string(ops::Key(op).name),
                .start = Seconds(start - origin),
                .end = Seconds(end - origin),
                .bytes = ops::CostOf(op).bytes(),
                .label = std::string(trace_.label())});
  });
}

// An even part of what the process grew by since the run began, beyond its ranks' own memory; never below zero.
Bytes Rank::OutsideLedger() const {
  const int64_t grown = ResidentBytes().value() - process_.resident_at_start.value();
  return Bytes(std::max<int64_t>(0, grown - process_.segments.Resident().value()) / process_.local_ranks);
}

std::string Rank::Run(const RankFunction& fn, ProcessGroup& world, const std::function<void()>& drain) {
  RunState& run = process_.run;
  RankContext context({.rank = rank_,
                       .world_size = process_.world_size,
                       .device = device_.get(),
                       .world = &world,
                       .clock = clock_.get(),
                       .trace = &trace_,
                       .communication = &stats_,
                       .check_interrupt = [this] { process_.run.ThrowIfEnding(rank_, "a check between steps"); },
                       .outside_ledger = [this] { return OutsideLedger(); }});
  context_ = &context;
  const ExitScope scope([this](int status) { Exit(status); });
  try {
    std::string result = fn(context);
    drain();
    run.Leave(rank_);
    return result;
  } catch (const RankFailure& f) {
    run.Explain(rank_, f.kind(), f.what());
  } catch (const std::exception& e) {
    run.Explain(rank_, RankFailure::Kind::kOther, StrCat("rank ", rank_, ": ", TypeName(e), ": ", e.what()));
  } catch (...) {
    run.Explain(rank_, RankFailure::Kind::kOther, StrCat("rank ", rank_, ": an exception that is no std::exception"));
  }
  return context.partial_result();
}

std::string Rank::PartialIfStuck() {
  std::lock_guard lock(state_->mutex);  // the host needs it to leave the call
  const bool stuck = state_->host_in_call || exited();
  return stuck && context_ != nullptr ? context_.load()->PartialResultOfStuckRank() : std::string();
}

void Rank::Exit(int status) {
  process_.run.Explain(rank_, RankFailure::Kind::kOther, StrCat("rank ", rank_, ": called exit(", status, "); ", process_.run.Doing(rank_)));
  exited_.store(true, std::memory_order_release);
}

}  // namespace twofold::host
