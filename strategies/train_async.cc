#include "strategies/train_async.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "strategies/async_sgd/gossip.h"
#include "strategies/async_sgd/links.h"
#include "strategies/async_sgd/parameter_server.h"
#include "strategies/async_sgd/worker.h"
#include "strategies/recorder.h"
#include "strategies/replica.h"

namespace twofold {
namespace {

// Records steps, and tells the user of them.
class Watcher final : public AsyncObserver {
 public:
  Watcher(RankContext& ctx, int64_t steps, Recorder& recorder, const std::function<void(const StepProgress&)>& progress,
          const std::function<int64_t(int64_t)>& next)
      : ctx_(ctx), recorder_(recorder), progress_(progress), next_(next) {
    done_.steps = steps;
  }
  void Begin(int64_t step) override {
    ctx_.BeginStep(step);
    recorder_.BeginStep(step);
  }
  void End(int64_t step, std::optional<double> loss) override {
    recorder_.EndStep(loss);
    if (!loss) recorder_.CatchUp();
    done_.step = step + 1, done_.seconds = recorder_.last_step().value();
    if (loss) done_.loss = *loss, done_.loss_step = done_.step;
    if (ctx_.rank() == 0 && progress_) progress_(done_);
  }
  void Waited(Seconds time) override { recorder_.Waited(time); }
  void Used(int64_t staleness) override { recorder_.Used(staleness); }
  std::optional<int64_t> Next(int64_t step) override { return next_ ? std::optional(next_(step)) : std::nullopt; }

 private:
  RankContext& ctx_;
  Recorder& recorder_;
  const std::function<void(const StepProgress&)>& progress_;
  const std::function<int64_t(int64_t)>& next_;
  StepProgress done_{.step = 0, .steps = 0};
};

// Servers differ from each other and from workers; with gossip, active workers from passive ones.
void TellRanksApart(RankContext& ctx, const AsyncSgdOptions& options) {
  const int first = options.gossip ? FirstPassive(ctx.world_size()) : options.servers;
  std::vector<int> kinds(static_cast<size_t>(ctx.world_size()), first);
  for (int r = 0; r < first; ++r) kinds[static_cast<size_t>(r)] = options.gossip ? 0 : r;
  ctx.world().RanksDiffer(kinds, "ranks do different things at different times (train.async_sgd)");
}

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
  const AsyncSgdOptions& async = *options.async_sgd;
  const AsyncUpdate update{.make_optimizer = options.make_optimizer,
                           .learning_rate = options.learning_rate,
                           .clip_norm = options.clip_norm,
                           .loss_scale = options.loss_scale.scale};
  TellRanksApart(ctx, async);
  Watcher watcher(ctx, options.steps, recorder, progress, next);
  const auto run = [&](auto& rank, int64_t parameters) {
    recorder.SetParameters(parameters);
    ctx.world().Barrier().Wait();
    recorder.IsSetUp();
    rank.Run();
    ctx.world().Barrier().Wait();
  };
  if (async.gossip) {
    Replica replica(ctx, options, samples, recorder, ctx.rank(), /*draws=*/true);
    GossipWorker worker(ctx, options.steps, options.seed, replica, update, watcher);
    run(worker, replica.whole().data.numel());
  } else {
    ServerLinks links = MakeServerLinks(ctx.world(), async.servers);
    if (ctx.rank() < async.servers) {
      ParameterServer server(ctx,
                             {.model = *options.model,
                              .types = options.types,
                              .seed = options.seed,
                              .updates = options.steps,
                              .options = async,
                              .update = update},
                             links, watcher);
      run(server, server.parameters());
    } else {
      Replica replica(ctx, options, samples, recorder, ctx.rank() - async.servers, /*draws=*/false);
      AsyncWorker worker(ctx, options.steps, replica, links, watcher);
      run(worker, replica.whole().data.numel());
    }
  }
  std::move(keep).Cancel();
  ctx.SetPartialResultSource(nullptr);
  return recorder.Record();
}

}  // namespace twofold
