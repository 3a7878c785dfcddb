// Checks `train`: its length, the batch, the optimizer and its schedule. Larger parts of it have files of their own.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/validate.h"

namespace twofold {
namespace {

// The integers next to `value`, below and above and from 1 to `most`, that divide `of`: "3 or 6"; "" if there are none.
std::string DivisorsNextTo(int64_t value, int64_t of, int64_t most) {
  int64_t below = 0, above = 0;
  const auto consider = [&](int64_t divisor) {
    if (divisor < value) below = std::max(below, divisor);
    if (divisor > value && divisor <= most) above = above == 0 ? divisor : std::min(above, divisor);
  };
  for (int64_t i = 1; i * i <= of; ++i) {
    if (of % i == 0) consider(i), consider(of / i);
  }
  return StrCat(below > 0 ? StrCat(below) : "", below > 0 && above > 0 ? " or " : "", above > 0 ? StrCat(above) : "");
}

// The global batch determines how the model learns, so users rather change how it is split. Errors therefore blame the
// micro-batch, or dp if no micro-batch fits.
void CheckBatch(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  constexpr int64_t kMostMicroBatch = 1 << 16, kMostRanks = 1 << 20;
  const bool micro = problems.Whole("train.micro_batch", train.micro_batch(), 1, kMostMicroBatch);
  const bool dp = problems.Whole("parallel.dp", spec.parallel().dp(), 1, kMostRanks);
  if (!micro || !dp) return;
  if (!problems.Whole("train.global_batch", train.global_batch(), 1, 1 << 30)) return;
  const int64_t batch = train.global_batch(), micro_batch = train.micro_batch(), ranks = spec.parallel().dp(),
                pass = ranks * micro_batch;
  const int64_t rest = batch % pass, below = batch - rest, above = below + pass;
  if (rest == 0) return;
  const bool by_micro = batch % ranks == 0, by_ranks = !by_micro && batch % micro_batch == 0;
  const std::string others = by_micro ? DivisorsNextTo(micro_batch, batch / ranks, kMostMicroBatch)
                                      : DivisorsNextTo(ranks, by_ranks ? batch / micro_batch : batch, kMostRanks);
  problems.Add(by_micro ? "train.micro_batch" : "parallel.dp", by_micro ? micro_batch : ranks,
               " is not valid: train.global_batch / (parallel.dp * train.micro_batch) = ", batch, " / (", ranks, " * ",
               micro_batch, ") is not a whole number", by_micro ? "" : " with any micro_batch", "; use ",
               by_micro ? "train.micro_batch = " : "parallel.dp = ", others,
               ", or train.global_batch = ", below > 0 ? StrCat(below, " or ") : "", above);
}

template <class Adam>
void CheckAdam(std::string_view path, const Adam& adam, Problems& problems) {
  problems.Above(StrCat(path, ".lr"), adam.lr(), 0);
  problems.Fraction(StrCat(path, ".beta1"), adam.beta1());
  problems.Fraction(StrCat(path, ".beta2"), adam.beta2());
  problems.Above(StrCat(path, ".eps"), adam.eps(), 0);
  problems.AtLeast(StrCat(path, ".weight_decay"), adam.weight_decay(), 0);
}

void CheckSgd(const spec::Sgd& sgd, Problems& problems) {
  problems.Above("train.optimizer.sgd.lr", sgd.lr(), 0);
  problems.Fraction("train.optimizer.sgd.momentum", sgd.momentum());
  problems.AtLeast("train.optimizer.sgd.weight_decay", sgd.weight_decay(), 0);
  if (sgd.nesterov() && sgd.momentum() == 0) {
    problems.Add("train.optimizer.sgd.nesterov", "true needs momentum; use false, or a momentum such as 0.9");
  }
}

void CheckOptimizer(const spec::Optimizer& optimizer, Problems& problems) {
  if (optimizer.has_sgd()) CheckSgd(optimizer.sgd(), problems);
  if (optimizer.has_adam()) CheckAdam("train.optimizer.adam", optimizer.adam(), problems);
  if (optimizer.has_adamw()) CheckAdam("train.optimizer.adamw", optimizer.adamw(), problems);
  if (optimizer.has_one_bit_adam()) CheckAdam("train.optimizer.one_bit_adam", optimizer.one_bit_adam(), problems);
}

template <class Decay>
void CheckDecay(std::string_view path, const Decay& decay, int64_t warmup, Problems& problems) {
  problems.Whole(StrCat(path, ".decay_steps"), decay.decay_steps(), 1, int64_t{1} << 31);
  if (!(decay.min_lr_ratio() >= 0 && decay.min_lr_ratio() <= 1)) {
    problems.Add(StrCat(path, ".min_lr_ratio"), NumberText(decay.min_lr_ratio()),
                 " is out of range; use a number from 0 to 1");
  }
  if (warmup >= decay.decay_steps() && decay.decay_steps() > 0) {
    problems.Add("train.schedule.warmup_steps", warmup, " leaves no step to decay in; use less than ", path,
                 ".decay_steps = ", decay.decay_steps());
  }
}

void CheckSchedule(const spec::Schedule& schedule, Problems& problems) {
  const int64_t warmup = schedule.warmup_steps();
  problems.Whole("train.schedule.warmup_steps", warmup, 0, int64_t{1} << 31);
  if (schedule.has_cosine()) CheckDecay("train.schedule.cosine", schedule.cosine(), warmup, problems);
  if (schedule.has_linear()) CheckDecay("train.schedule.linear", schedule.linear(), warmup, problems);
}

// Whether the number of steps is known and valid. With epochs, it is checked once the data has been read.
bool CheckLength(const spec::Train& train, Problems& problems) {
  if (!train.has_epochs()) return problems.Whole("train.steps", train.steps(), 1, int64_t{1} << 31);
  if (train.has_steps()) {
    problems.Add("train.epochs", train.epochs(), " and train.steps = ", train.steps(),
                 " both set the length of training; keep one of them");
  } else {
    problems.Whole("train.epochs", train.epochs(), 1, 1 << 30);
  }
  return false;
}

}  // namespace

void CheckTrain(const spec::Spec& spec, Problems& problems) {
  const spec::Train& train = spec.train();
  const bool steps = CheckLength(train, problems);
  CheckBatch(spec, problems);
  CheckOptimizer(train.optimizer(), problems);
  CheckPrecision(train.precision(), problems);
  CheckFp8(spec, problems);
  CheckActivationCheckpointing(spec, problems);
  problems.AtLeast("train.clip_norm", train.clip_norm(), 0);
  if (train.has_steps()) CheckSchedule(train.schedule(), problems);
  CheckValidation(spec, problems);
  CheckCheckpoint(spec, problems);
  problems.Whole("train.threads_per_rank", train.threads_per_rank(), 1, 1024);
  problems.Whole("train.report_loss_every", train.report_loss_every(), 1, int64_t{1} << 31);
  if (problems.Whole("train.warmup_steps", train.warmup_steps(), 0, int64_t{1} << 31) && steps &&
      train.warmup_steps() >= train.steps()) {
    problems.Add("train.warmup_steps", train.warmup_steps(), " leaves no step of train.steps = ", train.steps(),
                 " to measure; use at most ", train.steps() - 1);
  }
}

}  // namespace twofold
