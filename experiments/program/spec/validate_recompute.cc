#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using spec::ActivationCheckpointing;

constexpr std::string_view kEvery = "train.activation_checkpointing.every",
                           kPart = "train.activation_checkpointing.recompute";

// Selective recomputation of attention's scores: the model must store some.
void CheckSelective(const Model& model, bool stores_scores, Problems& problems) {
  if (model.input().kind != ModelInput::kTokens) {
    problems.Add(kPart, "SELECTIVE does not apply to model.", model.name(), ", which has no attention; use FULL");
  } else if (!stores_scores) {
    problems.Add(kPart,
                 "SELECTIVE recomputes attention scores, but model.attention: TILED stores none; use FULL, or "
                 "model.attention: UNFUSED");
  }
}

}  // namespace

void CheckActivationCheckpointing(const spec::Spec& spec, Problems& problems) {
  const ActivationCheckpointing& checkpointing = spec.train().activation_checkpointing();
  if (!problems.Whole(kEvery, checkpointing.every(), 0, 1 << 12)) return;
  if (checkpointing.every() == 0) {
    if (checkpointing.recompute() != ActivationCheckpointing::SELECTIVE) return;
    return problems.Add(kPart, "SELECTIVE has no effect, because ", kEvery, " = 0; use 1 or more, or leave it out");
  }
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model == nullptr) return;
  if (model->block().empty()) {
    return problems.Add(kEvery, checkpointing.every(), " does not apply to model.", model->name(),
                        ", which has no blocks to recompute; use 0 (off)");
  }
  const int64_t blocks = model->shape().layers;
  if (blocks > 0 && checkpointing.every() > blocks) {
    problems.Add(kEvery, checkpointing.every(), " recomputes none of the model's ", Counted(blocks, "block"),
                 "; use at most ", blocks, ", or 0 (off)");
  }
  if (checkpointing.recompute() == ActivationCheckpointing::SELECTIVE)
    CheckSelective(*model, spec.model().attention() == spec::Model::UNFUSED, problems);
}

}  // namespace twofold
