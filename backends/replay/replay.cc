#include "backends/replay/replay.h"

#include <numeric>
#include <utility>

#include "backends/replay/device.h"
#include "backends/replay/process_group.h"
#include "core/base/errors.h"

namespace twofold {
namespace {

class NoClock : public Clock {
 public:
  Seconds Now() override { return Seconds(0); }
};

std::vector<int> AllRanks(int world_size) {
  std::vector<int> ranks(static_cast<size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

ReplayResult Replay(const ReplayedRank& rank, const RankFunction& fn, ReplayTimes* times) {
  TWOFOLD_CHECK_GE(rank.world_size, 1);
  VirtualSource source(rank.memory), host_source(rank.host_memory);
  CachingAllocator allocator(source, rank.rank), host_allocator(host_source, rank.rank, "host memory");
  ReplayDevice device(allocator, host_allocator, rank.kind, rank.threads, times);
  CommunicationStats stats;
  NoClock clock;
  Trace trace;
  RankKinds kinds(rank.world_size);
  const std::vector<int> all = AllRanks(rank.world_size);
  ReplayProcessGroup world("world", rank.rank, all, device, stats, rank.staging,
                           std::make_shared<const GroupList>(1, all), kinds, times);
  RankContext context({.rank = rank.rank,
                       .world_size = rank.world_size,
                       .device = &device,
                       .world = &world,
                       .clock = &clock,
                       .trace = &trace,
                       .communication = &stats,
                       .check_interrupt = nullptr,
                       .outside_ledger = nullptr,
                       .uncertainty = nullptr});
  try {
    std::string result = fn(context);
    return {absl::OkStatus(), std::move(result), kinds.of()};
  } catch (...) {
    return {ToStatus(CurrentFailure(rank.rank)), context.partial_result(), kinds.of()};
  }
}

}  // namespace twofold
