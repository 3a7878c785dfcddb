#include "backends/in_memory/fabric.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/host/exit_scope.h"
#include "backends/host/interrupt.h"
#include "backends/host/mover.h"
#include "backends/host/rank.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace in_memory {
namespace {

class InMemoryFabric : public Fabric {
 public:
  InMemoryFabric(host::DeviceChoice device, const spec::Fabric& fabric, GroupOptions options)
      : device_(std::move(device)), fabric_(fabric), options_(options) {}
  std::string_view name() const override { return "in_memory"; }
  bool predicted() const override { return false; }
  absl::Status Accepts(int world_size) const override;
  RunResult Run(int world_size, const RankFunction& fn) override;

 private:
  const host::DeviceChoice device_;
  const spec::Fabric fabric_;
  const GroupOptions options_;
};

absl::Status InMemoryFabric::Accepts(int world_size) const {
  constexpr int kThreads = 2;  // per rank: its own, and the world's communication thread
  if (const spec::InMemory& links = fabric_.in_memory(); links.has_sites() && world_size % links.sites().count() != 0) {
    return InvalidArgument("fabric.in_memory.sites.count: ", links.sites().count(), " does not divide the ", world_size,
                           " ranks; use a divisor of their number");
  }
  const ThreadLimit limit = MostThreads();
  if (world_size >= 1 && world_size <= limit.threads / kThreads) return absl::OkStatus();
  return InvalidArgument("fabric.in_memory: ", world_size, " ranks need ", kThreads,
                         " threads each, but this process may have only ", limit.threads, " (", limit.what,
                         "); use 1 to ", limit.threads / kThreads, " ranks, or fabric.simulated");
}

// Null: links are as fast as memory.
std::shared_ptr<Links> MakeLinks(const spec::InMemory& fabric, int ranks) {
  if (fabric.link_gbps() <= 0) return nullptr;
  SiteLinks sites;
  if (fabric.has_sites()) {
    sites = {.count = static_cast<int>(fabric.sites().count()),
             .bytes_per_second = fabric.sites().between_gbps() * 1e9 / 8,
             .latency_s = fabric.sites().latency_ms() * 1e-3};
  }
  return std::make_shared<Links>(ranks, fabric.link_gbps() * 1e9 / 8, fabric.latency_us() * 1e-6, sites);
}

// All objects of one run's ranks. Never freed if a rank's thread does not end.
struct Everyone {
  Everyone(int size, const host::DeviceChoice& device, const spec::Fabric& fabric, const GroupOptions& options,
           const RankFunction& function)
      : process(size, size, fabric.timeout_s(), options.clock), fn(function), results(static_cast<size_t>(size)) {
    std::vector<int> all(results.size());
    std::iota(all.begin(), all.end(), 0);
    world = std::make_shared<GroupState>(process.run, "world", all, MakeLinks(fabric.in_memory(), size));
    for (int r : all) ranks.push_back(std::make_unique<host::Rank>(process, r, device));
  }
  void RunRank(size_t r, GroupOptions options) {
    InMemoryGroup group(world, static_cast<int>(r), ranks[r]->state(), ranks[r]->stats(), options);
    results[r] = ranks[r]->Run(fn, group, [&group] { group.Drain(); });
  }

  host::Process process;
  const RankFunction fn;
  std::shared_ptr<GroupState> world;
  std::vector<std::unique_ptr<host::Rank>> ranks;
  std::vector<std::string> results;
};

constexpr std::chrono::milliseconds kLookAtRun(20);
constexpr std::chrono::seconds kGrace(1);

// Joins the thread of `rank`; returns whether it was joined. A thread is detached if its function has called exit(), or
// if it is still computing long after the run has failed; all ranks together have kGrace for that.
bool Join(std::thread& thread, host::Process& process, host::Rank& rank, std::future<void>& done,
          std::chrono::milliseconds& ending_for) {
  while (done.wait_for(kLookAtRun) != std::future_status::ready) {
    if (process.run.ending()) ending_for += kLookAtRun;
    if (!rank.exited() && ending_for < kGrace) continue;
    thread.detach();
    return false;
  }
  thread.join();
  return true;
}

RunResult InMemoryFabric::Run(int world_size, const RankFunction& fn) {
  TWOFOLD_CHECK_GE(world_size, 1);
  const host::InterruptScope interrupt;
  if (device_.cuda) {
    const std::vector<int>& gpus = device_.cuda->gpus;
    const absl::Status connected =
        host::ConnectGpus(std::span(gpus).first(std::min(gpus.size(), static_cast<size_t>(world_size))), world_size);
    if (!connected.ok()) return {.status = connected, .results = RankResults::Empty(world_size), .notes = {}};
  }
  auto everyone = std::make_unique<Everyone>(world_size, device_, fabric_, options_, fn);
  std::vector<std::thread> threads;
  std::vector<std::future<void>> done;
  try {
    for (size_t r = 0; r < everyone->ranks.size(); ++r) {
      std::packaged_task<void()> task([options = options_, r, e = everyone.get()] { e->RunRank(r, options); });
      done.push_back(task.get_future());
      threads.emplace_back(std::move(task));
    }
  } catch (const std::system_error& e) {
    const int r = static_cast<int>(threads.size());
    everyone->process.run.Fail(r, RankFailure::Kind::kOther,
                               StrCat("rank ", r, ": could not start its thread: ", e.what()));
  }
  std::vector<std::string> results(static_cast<size_t>(world_size));
  bool all_joined = true;
  std::chrono::milliseconds ending_for(0);
  for (size_t r = 0; r < threads.size(); ++r) {
    host::Rank& rank = *everyone->ranks[r];
    const bool joined = Join(threads[r], everyone->process, rank, done[r], ending_for);
    results[r] = joined ? std::move(everyone->results[r]) : rank.PartialIfStuck();
    if (!joined && results[r].empty()) results[r] = rank.KeptPartial();
    if (!joined)
      everyone->process.run.Fail(static_cast<int>(r), RankFailure::Kind::kInterrupted,
                                 StrCat("rank ", r, ": interrupted within a step"));  // if nothing else ended the run
    all_joined = all_joined && joined;
  }
  RunResult result{.status = everyone->process.run.status(), .results = std::move(results), .notes = device_.notes};
  if (const spec::InMemory& links = fabric_.in_memory(); links.link_gbps() > 0) {
    result.notes.push_back(StrCat("links are throttled to ", links.link_gbps(), " Gb/s in each direction and ",
                                  links.latency_us(), " µs per message"));
    if (links.has_sites()) {
      result.notes.push_back(StrCat("ranks are divided among ", links.sites().count(), " sites, joined by ",
                                    links.sites().between_gbps(), " Gb/s per site and ", links.sites().latency_ms(),
                                    " ms"));
    }
  }
  if (!all_joined) {
    (void)everyone.release();
    host::LeaveWithoutCleanUp();
  }
  return result;
}

}  // namespace
}  // namespace in_memory

std::unique_ptr<Fabric> MakeInMemoryFabric(const spec::Spec& spec, in_memory::GroupOptions options) {
  absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kThreads);
  TWOFOLD_CHECK(device.ok(), device.status().message());
  return std::make_unique<in_memory::InMemoryFabric>(*std::move(device), spec.fabric(), options);
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec) {
  if (const absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kThreads);
      !device.ok())
    return device.status();
  return MakeInMemoryFabric(spec, in_memory::GroupOptions{});
}

}  // namespace twofold
