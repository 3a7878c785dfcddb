#include "strategies/training_loop.h"

#include <optional>

#include "core/base/strings.h"
#include "strategies/checkpoint/on_signal.h"
#include "strategies/elastic/left_out.h"

namespace twofold {
namespace {

// Every `every_steps` steps, and after the last step.
bool IsValidated(const TrainingOptions& options, int64_t step) {
  if (!options.validation) return false;
  return (step + 1) % options.validation->every_steps == 0 || step + 1 == options.steps;
}

bool IsSaved(const TrainingOptions& options, int64_t step, bool last) {
  if (!options.saving) return false;
  const std::optional<int64_t> every = options.saving->every_steps;
  return last || step + 1 == options.steps || (every && (step + 1) % *every == 0);
}

// Validations and checkpoints wait for the device anyway.
bool ReadsLoss(const TrainingOptions& options, int64_t step) {
  return (step + 1) % options.report_loss_every == 0 || step + 1 == options.steps || IsValidated(options, step) ||
         IsSaved(options, step, /*last=*/false);
}

// How many steps from `step` on send and compute the same as the step before it, apart from values. The host waits for
// each of them.
int64_t StepsAlike(const TrainingOptions& options, int64_t first_traced_step, int64_t step) {
  const bool any_step_may_differ = options.validation || options.saving || options.elastic || options.local_update ||
                                   options.loss_scale.dynamic || options.report_loss_every > 1;
  return any_step_may_differ || step <= options.alike_from ? 0 : first_traced_step - step;
}

}  // namespace

void TrainingLoop::Tell() {
  if (ctx_.rank() == 0 && progress_) progress_(done_);
}

void TrainingLoop::ShowState(RankTrainer& trainer, int64_t steps_done) {
  if (!options_.watch) return;
  ctx_.device().compute().Synchronize();
  std::vector<checkpoint::LocalPiece> held = trainer.Held();
  for (const auto& [name, tensor] : elastic::LeftOutOf(trainer.ReducerStates()).own) {
    held.push_back({.name = StrCat(checkpoint::kReducer, ctx_.member(), ".", name),
                    .shape = tensor.shape(),
                    .where = Region::Whole(tensor.numel()),
                    .data = tensor});
  }
  options_.watch(ctx_, steps_done, held);
}

void TrainingLoop::TellSaved(RankTrainer& trainer) {
  for (const checkpoint::Saved& saved : trainer.saver()->Poll()) {
    recorder_.AddCheckpoint(saved);
    saved_steps_ = saved.step;
    done_.saved = &saved;
    Tell();
    done_.saved = nullptr;
  }
}

bool TrainingLoop::Validate(RankTrainer& trainer, int64_t step) {
  recorder_.BeginValidation();
  const ValidationResult result = trainer.Validate();
  recorder_.EndValidation(step + 1, result);
  done_.validation = &result;
  Tell();
  done_.validation = nullptr;
  return result.stop;
}

void TrainingLoop::Save(RankTrainer& trainer, int64_t steps_done) {
  saving_steps_ = steps_done;
  std::map<std::string, double> all = trainer.Scalars();
  if (scalars) all.merge(scalars(steps_done));
  recorder_.Pause();
  trainer.saver()->Save(steps_done, std::move(all));
  recorder_.Resume();
  if (!options_.saving->options.asynchronous) saved_steps_ = steps_done;
}

bool TrainingLoop::Run(RankTrainer& trainer, int64_t first_step) {
  const int64_t skipped_before = trainer.scaler().state().skipped;
  done_ = {.step = first_step, .steps = options_.steps, .first_step = first_step};
  saving_steps_ = first_step;
  bool stops = false, asked_to_end = false;
  ShowState(trainer, first_step);
  for (int64_t step = first_step; step < options_.steps && !stops; ++step) {
    if (const int64_t alike = next_ ? 0 : StepsAlike(options_, recorder_.first_traced_step(), step);
        alike > 0 && step > first_step) {
      const int64_t counted = ctx_.Repeats(step, alike);
      recorder_.Repeat(counted), step += counted, done_.step += counted;
      if (step == options_.steps) break;
    }
    ctx_.BeginStep(step);
    if (next_) step = next_(step);
    asked_to_end = options_.saving && options_.saving->on_signal && !ctx_.MayBegin(step);
    if (asked_to_end) break;
    recorder_.BeginStep(step);
    const std::optional<double> loss = trainer.Step(step, ReadsLoss(options_, step));
    recorder_.EndStep(loss);
    recorder_.SetSkipped(trainer.scaler().state().skipped - skipped_before, trainer.scaler().scale());
    done_.step = step + 1, done_.seconds = recorder_.last_step().value();
    if (loss) done_.loss = *loss, done_.loss_step = done_.step;
    Tell();
    ShowState(trainer, step + 1);
    const bool last = IsValidated(options_, step) && Validate(trainer, step);
    if (IsSaved(options_, step, last)) Save(trainer, step + 1);
    if (trainer.saver() != nullptr) TellSaved(trainer);
    if (last) break;
    stops = stops_after && step + 1 < options_.steps && stops_after(step + 1);
  }
  if (stops) return false;
  if (asked_to_end) recorder_.CatchUp();
  if (asked_to_end && done_.step > saving_steps_) Save(trainer, done_.step);
  if (trainer.saver() != nullptr) {
    recorder_.Pause();
    trainer.saver()->Finish();
    TellSaved(trainer);
  }
  if (asked_to_end) checkpoint::EndAsAsked(ctx_, done_.step, done_.step > first_step);
  return true;
}

}  // namespace twofold
