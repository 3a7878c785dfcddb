#include "backends/in_memory/fabric.h"

#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <system_error>
#include <thread>
#include <typeinfo>
#include <utility>
#include <vector>

#include "backends/in_memory/interrupt.h"
#include "backends/in_memory/resident_memory.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "kernels/cpu/cpu_device.h"

namespace twofold {
namespace in_memory {
namespace {

std::string TypeName(const std::exception& e) {
  int status = 0;
  std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(typeid(e).name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(name.get()) : std::string(typeid(e).name());
}

// What the ranks of one run share.
struct Shared {
  Shared(int world_size, double timeout_s) : run(world_size, timeout_s) {}
  RunState run;
  Segments segments;
  const Bytes resident_at_start = ResidentBytes();
};

class RunClock : public Clock {
 public:
  explicit RunClock(const RunState& run) : run_(run) {}
  Seconds Now() override { return Seconds(run_.Now()); }

 private:
  const RunState& run_;
};

// All that one rank owns, in the order in which it depends on each other.
class Rank {
 public:
  Rank(Shared& shared, std::shared_ptr<GroupState> world, int rank, int threads, GroupOptions options);
  // On the rank's own thread. Returns the result, or the partial result of a rank that failed.
  std::string Run(const RankFunction& fn);

 private:
  void Observe(bool enabled);
  Bytes OutsideLedger() const;
  std::string RunGuarded(const RankFunction& fn, RankContext& context, InMemoryGroup& world);

  Shared& shared_;
  const std::shared_ptr<GroupState> world_;
  const int rank_;
  const GroupOptions options_;
  ListedSource source_;
  CachingAllocator allocator_;
  CpuDevice device_;
  Trace trace_;
  CommunicationStats stats_;
  RunClock clock_;
};

Rank::Rank(Shared& shared, std::shared_ptr<GroupState> world, int rank, int threads, GroupOptions options)
    : shared_(shared),
      world_(std::move(world)),
      rank_(rank),
      options_(options),
      source_(shared.segments),
      allocator_(source_, rank),
      device_(allocator_, threads),
      clock_(shared.run) {
  trace_.OnChange([this](bool enabled) { Observe(enabled); });
}

void Rank::Observe(bool enabled) {
  if (!enabled) return device_.SetObserver(nullptr);
  const double origin = -shared_.run.Since(std::chrono::steady_clock::time_point());
  device_.SetObserver([this, origin](const ops::Op& op, double start, double end) {
    trace_.Add({.stream = "compute",
                .name = std::string(ops::Key(op).name),
                .start = Seconds(start - origin),
                .end = Seconds(end - origin),
                .bytes = ops::CostOf(op).bytes()});
  });
}

// An even part of what the process grew by since the run began, beyond the ranks' own memory; never below zero.
Bytes Rank::OutsideLedger() const {
  const int64_t grown = ResidentBytes().value() - shared_.resident_at_start.value();
  return Bytes(std::max<int64_t>(0, grown - shared_.segments.Resident().value()) / world_->size());
}

std::string Rank::Run(const RankFunction& fn) {
  auto state = std::make_shared<RankState>(shared_.run, rank_, device_, trace_);
  InMemoryGroup world(world_, rank_, state, stats_, options_);
  RankContext context({.rank = rank_,
                       .world_size = world_->size(),
                       .device = &device_,
                       .world = &world,
                       .clock = &clock_,
                       .trace = &trace_,
                       .communication = &stats_,
                       .check_interrupt = [this] { shared_.run.ThrowIfEnding(rank_, "a check between steps"); },
                       .outside_ledger = [this] { return OutsideLedger(); }});
  return RunGuarded(fn, context, world);
}

std::string Rank::RunGuarded(const RankFunction& fn, RankContext& context, InMemoryGroup& world) {
  RunState& run = shared_.run;
  try {
    std::string result = fn(context);
    world.Drain();
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

class InMemoryFabric : public Fabric {
 public:
  InMemoryFabric(int threads, double timeout_s, GroupOptions options)
      : threads_(threads), timeout_s_(timeout_s), options_(options) {}
  std::string_view name() const override { return "in_memory"; }
  bool predicted() const override { return false; }
  RunResult Run(int world_size, const RankFunction& fn) override;

 private:
  const int threads_;
  const double timeout_s_;
  const GroupOptions options_;
};

RunResult InMemoryFabric::Run(int world_size, const RankFunction& fn) {
  TWOFOLD_CHECK_GE(world_size, 1);
  const InterruptScope interrupt;
  Shared shared(world_size, timeout_s_);
  std::vector<int> everyone(static_cast<size_t>(world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = std::make_shared<GroupState>(shared.run, "world", everyone);
  RunResult result;
  result.results.resize(everyone.size());
  // Devices are made one after the other, here: making one sets the number of OpenBLAS's threads, which all share.
  std::vector<std::unique_ptr<Rank>> ranks;
  for (int r : everyone) ranks.push_back(std::make_unique<Rank>(shared, world, r, threads_, options_));
  std::vector<std::thread> threads;
  try {
    for (size_t r = 0; r < ranks.size(); ++r) {
      threads.emplace_back([&, r] { result.results[r] = ranks[r]->Run(fn); });
    }
  } catch (const std::system_error& e) {
    const int r = static_cast<int>(threads.size());
    shared.run.Fail(r, RankFailure::Kind::kOther, StrCat("rank ", r, ": could not start its thread: ", e.what()));
  }
  for (std::thread& t : threads) t.join();
  result.status = shared.run.status();
  return result;
}

}  // namespace
}  // namespace in_memory

std::unique_ptr<Fabric> MakeInMemoryFabric(const spec::Spec& spec, in_memory::GroupOptions options) {
  return std::make_unique<in_memory::InMemoryFabric>(static_cast<int>(spec.train().threads_per_rank()),
                                                     spec.fabric().timeout_s(), options);
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec) {
  return MakeInMemoryFabric(spec, in_memory::GroupOptions{});
}

const Backend& InMemoryBackend() {
  static constexpr Backend kBackend = {
      .name = "in_memory",
      .summary = "ranks are threads of this process, collectives go through shared memory",
      .why_not = [] { return std::string(); },
      .make = [](const spec::Spec& spec) { return MakeInMemoryFabric(spec); },
  };
  return kBackend;
}

}  // namespace twofold
