#include "backends/in_memory/fabric.h"

#include <numeric>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "backends/host/interrupt.h"
#include "backends/host/rank.h"
#include "backends/registry.h"
#include "core/base/strings.h"

namespace twofold {
namespace in_memory {
namespace {

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
  const host::InterruptScope interrupt;
  host::Process process(world_size, world_size, timeout_s_);
  std::vector<int> everyone(static_cast<size_t>(world_size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const auto world = std::make_shared<GroupState>(process.run, "world", everyone);
  RunResult result;
  result.results.resize(everyone.size());
  std::vector<std::unique_ptr<host::Rank>> ranks;
  for (int r : everyone) ranks.push_back(std::make_unique<host::Rank>(process, r, threads_));
  std::vector<std::thread> threads;
  try {
    for (size_t r = 0; r < ranks.size(); ++r) {
      threads.emplace_back([&, r] {
        InMemoryGroup group(world, static_cast<int>(r), ranks[r]->state(), ranks[r]->stats(), options_);
        result.results[r] = ranks[r]->Run(fn, group, [&group] { group.Drain(); });
      });
    }
  } catch (const std::system_error& e) {
    const int r = static_cast<int>(threads.size());
    process.run.Fail(r, RankFailure::Kind::kOther, StrCat("rank ", r, ": could not start its thread: ", e.what()));
  }
  for (std::thread& t : threads) t.join();
  result.status = process.run.status();
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
      .launcher = [](int) { return std::vector<std::string>(); },
  };
  return kBackend;
}

}  // namespace twofold
