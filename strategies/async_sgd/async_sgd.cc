#include "strategies/async_sgd/async_sgd.h"

#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "strategies/async_sgd/gossip.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/parameter_server.h"
#include "strategies/async_sgd/worker.h"
#include "strategies/recorder.h"

namespace twofold {
namespace {

constexpr char kAsyncRanksDiffer[] = "ranks do different things at different times (train.async_sgd)";

}  // namespace

std::string TrainAsync(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                       const std::function<void(const StepProgress&)>& progress,
                       const std::function<int64_t(int64_t)>& next) {
  Recorder recorder(ctx, options.recorder);
  ctx.SetPartialResultSource([&] { return recorder.PartialRecord(); },
                             [&] { return recorder.RecordWithoutTimeLine(); });
  absl::Cleanup keep = [&] {
    ctx.SetPartialResultSource(nullptr);
    ctx.SetPartialResult(recorder.PartialRecord());
  };
  const auto start = [&](int64_t parameters) {
    recorder.SetParameters(parameters);
    ctx.world().Barrier().Wait();
    recorder.IsSetUp();
  };
  const int servers = options.async_sgd->servers;
  const bool gossip = options.async_sgd->gossip;
  const int first_kind = gossip ? FirstPassive(ctx.world_size()) : servers;
  std::vector<int> kinds(static_cast<size_t>(ctx.world_size()), first_kind);  // workers, or those that are passive
  for (int r = 0; r < first_kind; ++r) kinds[static_cast<size_t>(r)] = gossip ? 0 : r;
  ctx.world().RanksDiffer(kinds, kAsyncRanksDiffer);
  ServerLinks links;
  if (!gossip) links = MakeServerLinks(ctx.world(), servers);
  if (gossip) {
    GossipWorker worker(ctx, options, samples, recorder);
    start(worker.parameters());
    worker.Run(progress, next);
  } else if (ctx.rank() < servers) {
    ParameterServer server(ctx, options, links, recorder);
    start(server.parameters());
    server.Run(progress, next);
  } else {
    AsyncWorker worker(ctx, options, samples, links, recorder);
    start(worker.parameters());
    worker.Run(next);
  }
  ctx.world().Barrier().Wait();
  std::move(keep).Cancel();
  ctx.SetPartialResultSource(nullptr);
  return recorder.Record();
}

}  // namespace twofold
