#include "strategies/trainer.h"

#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "core/base/strings.h"
#include "strategies/checkpoint/agree.h"
#include "strategies/train_async.h"
#include "strategies/train_elastic.h"
#include "strategies/training_loop.h"

namespace twofold {

// The checkpoint that the run resumes from. Nullopt if it starts at step 0.
std::optional<checkpoint::Opened> OpenResumed(RankContext& ctx, const TrainingOptions& options,
                                              const checkpoint::Opened* read) {
  if (!options.resume) return std::nullopt;
  checkpoint::Opened opened = checkpoint::Agree(ctx, *options.resume, options.run, read);
  if (ctx.rank() != 0) return opened;
  ctx.AddNote(StrCat("resumed from ", opened.path, ", after step ", opened.manifest.metadata.step));
  for (const std::string& bad : opened.passed_over) ctx.AddNote(StrCat("skipped an unusable checkpoint: ", bad));
  for (std::string& note : checkpoint::Differences(opened.manifest, options.run)) ctx.AddNote(std::move(note));
  return opened;
}

std::string TrainRank(RankContext& ctx, const TrainingOptions& options, const Samples& samples,
                      const std::function<void(const StepProgress&)>& progress,
                      const std::function<int64_t(int64_t step)>& next, const checkpoint::Opened* read) {
  if (options.async_sgd) return TrainAsync(ctx, options, samples, progress, next);
  if (options.elastic && ctx.CanReform()) return TrainElastic(ctx, options, samples, progress, read);
  const std::optional<checkpoint::Opened> resumed = OpenResumed(ctx, options, read);
  const int64_t first_step = resumed ? resumed->manifest.metadata.step : 0;
  Recorder recorder(ctx, options.recorder, first_step);
  // If this rank fails, the record of what it did until then is kept.
  ctx.SetPartialResultSource([&] { return recorder.PartialRecord(); },
                             [&] { return recorder.RecordWithoutTimeLine(); });
  absl::Cleanup keep = [&] {
    ctx.SetPartialResultSource(nullptr);
    ctx.SetPartialResult(recorder.PartialRecord());
  };

  RankTrainer trainer(ctx, options, samples, recorder, recorder);
  if (resumed) trainer.Resume(*resumed);
  recorder.SetParameters(trainer.parameters());
  if (options.mesh.pp > 1 && ctx.device().holds() == Holds::kNothing)
    trainer.OnAction([&recorder](bool begins) { recorder.ActionLaunched(begins); });
  ctx.world().Barrier().Wait();
  recorder.IsSetUp();
  TrainingLoop(ctx, options, recorder, progress, next).Run(trainer, first_step);
  std::move(keep).Cancel();
  ctx.SetPartialResultSource(nullptr);
  return recorder.Record();
}

}  // namespace twofold
