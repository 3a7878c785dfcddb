// Checks train.local_update and parallel.islands: their numbers, and what they can be combined with.
#include <algorithm>
#include <string>

#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

constexpr char kLocalUpdatePath[] = "train.local_update";
constexpr int64_t kMostSteps = int64_t{1} << 31;

void CheckIslands(const spec::Spec& spec, Problems& problems) {
  const spec::Parallel& p = spec.parallel();
  const int64_t dp = p.dp(), islands = p.islands();
  if (dp < 1 || !problems.Whole("parallel.islands", islands, 1, dp)) return;
  if (!spec.train().has_local_update()) {
    if (islands > 1) {
      problems.Add("parallel.islands", islands,
                   " train apart between outer steps, but there are none; add train { local_update { diloco {} } }, or "
                   "leave it out");
    }
    return;
  }
  CheckDivides("parallel.islands", islands, "parallel.dp", dp, problems);
  if (dp % islands == 0 && p.ep() > 1 && dp / islands % p.ep() != 0) {
    problems.Add("parallel.ep", p.ep(),
                 " does not divide the ranks of an island, parallel.dp / islands = ", dp / islands,
                 "; each island needs all experts. Use fewer islands, or a smaller ep");
  }
}

void CheckOuter(const spec::LocalUpdate& local, int64_t islands, Problems& problems) {
  if (local.has_local_sgd()) {
    const std::string path = StrCat(kLocalUpdatePath, ".local_sgd");
    problems.Whole(path + ".every_steps", local.local_sgd().every_steps(), 1, kMostSteps);
    if (islands == 1)
      problems.Add(path,
                   "averages the parameters of islands, but parallel.islands = 1; use 2 or more, or leave it out");
    if (local.has_quantize()) {
      problems.Add(
          StrCat(kLocalUpdatePath, ".quantize"),
          "encodes outer gradients, but local_sgd sends parameters; use diloco { outer_lr: 1 outer_momentum: 0 "
          "nesterov: false }, which is the same average, or leave it out");
    }
    return;
  }
  const std::string path = StrCat(kLocalUpdatePath, ".diloco");
  const spec::DiLoCo& d = local.diloco();
  problems.Whole(path + ".every_steps", d.every_steps(), 1, kMostSteps);
  if (!(d.outer_lr() > 0))
    problems.Add(path + ".outer_lr", NumberText(d.outer_lr()), " takes no step; use a number above 0, such as 0.7");
  if (!(d.outer_momentum() >= 0 && d.outer_momentum() < 1))
    problems.Add(path + ".outer_momentum", NumberText(d.outer_momentum()), " is out of range; use 0 to below 1");
  if (d.nesterov() && d.outer_momentum() == 0)
    problems.Add(path + ".nesterov", "true needs a momentum, but outer_momentum = 0; use nesterov: false");
}

void CheckStreaming(const spec::Streaming& s, int64_t every, Problems& problems) {
  const std::string path = StrCat(kLocalUpdatePath, ".streaming");
  const int64_t most = std::max<int64_t>(1, every);
  problems.Whole(path + ".fragments", s.fragments(), 1, std::min<int64_t>(most, 1 << 16));
  problems.Whole(path + ".overlap_steps", s.overlap_steps(), 0, most - 1);
  if (!(s.weight() > 0 && s.weight() <= 1))
    problems.Add(path + ".weight", NumberText(s.weight()),
                 " is not a share of the common values; use a number above 0, at most 1");
}

void CheckCombinations(const spec::Spec& spec, Problems& problems) {
  const spec::Precision& precision = spec.train().precision();
  if (spec.parallel().offload() != spec::Parallel::NO_OFFLOAD) {
    problems.Add(kLocalUpdatePath, "keeps outer state on the device and updates it there, so parallel.offload: ",
                 spec::Parallel::Offload_Name(spec.parallel().offload()),
                 " cannot be combined with it; leave one of them out");
  }
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (spec.train().local_update().has_streaming() && spec.train().local_update().streaming().fragments() > 1 &&
      spec.parallel().pp() > 1 && model != nullptr && model->shape().tied) {
    problems.Add(
        StrCat(kLocalUpdatePath, ".streaming.fragments"), spec.train().local_update().streaming().fragments(),
        " fragments of each stage are sent at different times, but the first and the last stage share a table, "
        "which must stay equal on both; use 1, tied_embeddings: false, or parallel.pp = 1");
  }
  if (precision.stochastic_rounding()) {
    problems.Add(kLocalUpdatePath,
                 "needs F32 values of the parameters, which train.precision.stochastic_rounding does without; "
                 "leave one of them out");
  }
  if (precision.loss_scale().has_dynamic() && spec.parallel().islands() > 1) {
    problems.Add("train.precision.loss_scale",
                 "dynamic is decided on all ranks together in every step, but islands meet only at outer steps; use "
                 "BF16, or loss_scale { fixed: 1024 }");
  }
}

}  // namespace

void CheckLocalUpdate(const spec::Spec& spec, Problems& problems) {
  CheckIslands(spec, problems);
  if (!spec.train().has_local_update()) return;
  const spec::LocalUpdate& local = spec.train().local_update();
  if (local.method_case() == spec::LocalUpdate::METHOD_NOT_SET) {
    return problems.Add(kLocalUpdatePath, "names no method; use local_sgd {} or diloco {}, or leave it out");
  }
  CheckOuter(local, spec.parallel().islands(), problems);
  if (local.has_streaming()) CheckStreaming(local.streaming(), EveryStepsOf(local), problems);
  if (local.has_quantize()) CheckQuantize(local.quantize(), StrCat(kLocalUpdatePath, ".quantize"), problems);
  CheckCombinations(spec, problems);
}

}  // namespace twofold
