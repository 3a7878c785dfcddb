#include "backends/in_memory/fabric.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <mutex>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/host/exit_scope.h"
#include "backends/host/interrupt.h"
#include "backends/host/membership_events.h"
#include "backends/host/mover.h"
#include "backends/host/rank.h"
#include "backends/in_memory/generations.h"
#include "core/base/duration.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace in_memory {
namespace {

class InMemoryFabric : public Fabric {
 public:
  InMemoryFabric(host::DeviceChoice device, const spec::Spec& spec, GroupOptions options)
      : device_(std::move(device)), spec_(spec), options_(std::move(options)) {}
  std::string_view name() const override { return "in_memory"; }
  bool predicted() const override { return false; }
  absl::Status Accepts(int world_size) const override;
  RunResult Run(int world_size, const RankFunction& fn) override;

 private:
  const host::DeviceChoice device_;
  const spec::Spec spec_;
  const GroupOptions options_;
};

absl::Status InMemoryFabric::Accepts(int world_size) const {
  constexpr int kThreads = 2;  // per rank: its own, and the world's communication thread
  if (const spec::InMemory& links = spec_.fabric().in_memory();
      links.has_sites() && world_size % links.sites().count() != 0) {
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

// All objects of one run. Never freed if a rank's thread does not end.
class Everyone {
 public:
  Everyone(int size, const host::DeviceChoice& device, const spec::Spec& spec, GroupOptions options, RankFunction fn)
      : process_(size, size, spec.fabric().timeout_s(), options.clock),
        device_(device),
        options_(WithEvents(std::move(options), spec.train().has_elastic())),
        fn_(std::move(fn)),
        elastic_(spec.train().has_elastic()),
        patience_(elastic_ ? DurationOf(spec.train().elastic().reform_timeout_s()) : std::chrono::nanoseconds(0)),
        generations_(process_.run, size, elastic_, EventsOf(spec, size),
                     MakeLinks(spec.fabric().in_memory(), EventsOf(spec, size).most_members()),
                     [this](int member) { Start(member); }) {
    for (int r = 0; r < size; ++r) MakeMember(r);
  }

  void StartAll(int size) {
    for (int r = 0; r < size; ++r) Start(r);
  }
  // Waits for all threads, newcomers' too. Returns their results by member, and whether all threads have ended.
  std::pair<std::vector<std::string>, bool> Join();
  const Generations& generations() const { return generations_; }

 private:
  struct Member {
    std::unique_ptr<host::Rank> rank;
    std::string result = {};
    std::thread thread = {};
    std::future<void> done = {};
  };

  // Events may end a rank at any of its calls.
  GroupOptions WithEvents(GroupOptions options, bool elastic) {
    if (!elastic) return options;
    options.before_call = [this, more = options.before_call](int rank) {
      generations_.ThrowIfLost(rank);
      if (more) more(rank);
    };
    return options;
  }
  static host::MembershipEvents EventsOf(const spec::Spec& spec, int size) { return {spec.train().elastic(), size}; }
  void MakeMember(int member) {
    std::lock_guard lock(mutex_);
    members_.push_back({.rank = std::make_unique<host::Rank>(process_, member, device_)});
  }
  Member* MemberAt(size_t member) {  // null: there is none
    std::lock_guard lock(mutex_);
    return member < members_.size() ? &members_[member] : nullptr;
  }
  void Start(int member);
  void RunMember(int member);
  RankContext::Parts::Membership MembershipOf(int member, std::unique_ptr<InMemoryGroup>& world,
                                              std::unique_ptr<InMemoryGroup>& previous);
  bool JoinOne(int member, Member& of, std::chrono::nanoseconds& ending_for);

  host::Process process_;
  const host::DeviceChoice device_;
  const GroupOptions options_;
  const RankFunction fn_;
  const bool elastic_;
  const std::chrono::nanoseconds patience_;
  std::mutex mutex_;
  std::deque<Member> members_;  // members do not move; guarded by the mutex until the run has ended
  Generations generations_;
};

void Everyone::Start(int member) {
  if (MemberAt(static_cast<size_t>(member)) == nullptr) MakeMember(member);
  Member& started = *MemberAt(static_cast<size_t>(member));
  std::packaged_task<void()> task([this, member] { RunMember(member); });
  started.done = task.get_future();
  try {
    started.thread = std::thread(std::move(task));
  } catch (const std::system_error& e) {
    started.done = {};
    generations_.Of(member)->run->Fail(member, RankFailure::Kind::kOther,
                                       StrCat("rank ", member, ": could not start its thread: ", e.what()));
    generations_.Leave(member, false);
  }
}

void Everyone::RunMember(int member) {
  Member& own = *MemberAt(static_cast<size_t>(member));
  const std::shared_ptr<const Generations::Shared> first = generations_.Of(member);
  if (first->generation.number > 0) own.rank->Enter(*first->run);
  std::unique_ptr<InMemoryGroup> previous, world;
  world = std::make_unique<InMemoryGroup>(first->everyone, first->RankOf(member), own.rank->state(), own.rank->stats(),
                                          options_);
  own.result = own.rank->Run(
      fn_, *world, [&world] { world->Drain(); },
      elastic_ ? MembershipOf(member, world, previous) : RankContext::Parts::Membership());
  generations_.Leave(member, own.rank->state()->run.HasLeft(member));
}

// `world` is its present group of all members. `previous` is the one before, which groups that are about to be
// destroyed may refer to.
RankContext::Parts::Membership Everyone::MembershipOf(int member, std::unique_ptr<InMemoryGroup>& world,
                                                      std::unique_ptr<InMemoryGroup>& previous) {
  host::Rank& rank = *MemberAt(static_cast<size_t>(member))->rank;
  const auto reform = [this, member, &rank, &world, &previous](const ReformOptions& options) {
    const std::shared_ptr<const Generations::Shared> next = generations_.Reform(member, options);
    rank.Enter(*next->run);
    previous = std::move(world);
    world = std::make_unique<InMemoryGroup>(next->everyone, next->RankOf(member), rank.state(), rank.stats(), options_);
    return RankContext::Parts::Membership::Next{next->generation, world->rank(), world.get()};
  };
  return {.generation = generations_.Of(member)->generation,
          .reform = reform,
          .ends_after = [this, member](int64_t step) { return generations_.EndsAfter(member, step); },
          .exchange = [this, member](std::string bytes) { return generations_.Exchange(member, std::move(bytes)); },
          .begin_step = [this, member](int64_t step) { generations_.BeginStep(member, step); }};
}

constexpr std::chrono::milliseconds kLookAtRun(20);
constexpr std::chrono::seconds kGrace(1);

// Joins the thread of `member`; returns whether it was joined. A thread is detached if its function has called exit(),
// or if it is still computing long after its generation has failed; all members together have kGrace for that, and the
// time in which they may form the next one.
bool Everyone::JoinOne(int member, Member& of, std::chrono::nanoseconds& ending_for) {
  while (of.done.wait_for(kLookAtRun) != std::future_status::ready) {
    const std::shared_ptr<const Generations::Shared> own = generations_.Of(member);
    if (own->run->ending()) ending_for += kLookAtRun;
    const bool may_reform = !host::InterruptScope::Raised() && own == generations_.Present();
    if (!of.rank->exited() && ending_for < kGrace + (may_reform ? patience_ : std::chrono::nanoseconds(0))) continue;
    of.thread.detach();
    return false;
  }
  of.thread.join();
  return true;
}

std::pair<std::vector<std::string>, bool> Everyone::Join() {
  std::vector<std::string> results;
  bool all_joined = true;
  std::chrono::nanoseconds ending_for(0);
  for (int m = 0;; ++m) {
    Member* const member = MemberAt(static_cast<size_t>(m));
    if (member == nullptr) break;
    std::string& result = results.emplace_back();
    if (!member->done.valid()) continue;  // its thread could not start
    const bool joined = JoinOne(m, *member, ending_for);
    result = joined ? std::move(member->result) : member->rank->PartialIfStuck();
    if (joined) continue;
    all_joined = false;
    if (result.empty()) result = member->rank->KeptPartial();
    generations_.Of(m)->run->Fail(m, RankFailure::Kind::kInterrupted,
                                  StrCat("rank ", m, ": interrupted within a step"));  // if nothing else ended the run
    generations_.Leave(m, false);
  }
  return {std::move(results), all_joined};
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
  auto everyone = std::make_unique<Everyone>(world_size, device_, spec_, options_, fn);
  everyone->StartAll(world_size);
  auto [results, all_joined] = everyone->Join();
  RunResult result{.status = everyone->generations().status(), .results = std::move(results), .notes = device_.notes};
  for (std::string& note : everyone->generations().Notes()) result.notes.push_back(std::move(note));
  if (const spec::InMemory& links = spec_.fabric().in_memory(); links.link_gbps() > 0) {
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
  return std::make_unique<in_memory::InMemoryFabric>(*std::move(device), spec, std::move(options));
}

absl::StatusOr<std::unique_ptr<Fabric>> MakeInMemoryFabric(const spec::Spec& spec) {
  if (const absl::StatusOr<host::DeviceChoice> device = host::ChooseDevice(spec, host::RanksAre::kThreads);
      !device.ok())
    return device.status();
  return MakeInMemoryFabric(spec, in_memory::GroupOptions{});
}

}  // namespace twofold
