#include "core/proto/fields.h"
#include "experiments/program/spec/models/default_to.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

void Fill(spec::Model& model) {
  spec::Gpt& gpt = *model.mutable_gpt();
  if (gpt.has_hidden()) DefaultTo(gpt, gpt.has_ffn(), &spec::Gpt::set_ffn, 4, gpt.hidden());
  if (gpt.has_heads() && !gpt.has_kv_heads()) gpt.set_kv_heads(gpt.heads());
}

void Check(const spec::Model& model, Problems& problems) {
  const spec::Gpt& gpt = model.gpt();
  problems.Whole("model.gpt.layers", gpt.layers(), 1, 1 << 12, gpt.has_layers());
  const bool hidden = problems.Whole("model.gpt.hidden", gpt.hidden(), 1, 1 << 18, gpt.has_hidden());
  const bool heads = problems.Whole("model.gpt.heads", gpt.heads(), 1, 1 << 12, gpt.has_heads());
  problems.Whole("model.gpt.vocab", gpt.vocab(), 2, 1 << 22);
  problems.Whole("model.gpt.sequence", gpt.sequence(), 1, 1 << 20, gpt.has_sequence());
  if (hidden) problems.Whole("model.gpt.ffn", gpt.ffn(), 1, 1 << 20);
  problems.Fraction("model.gpt.dropout", gpt.dropout());
  if (problems.Fraction("model.gpt.attention_dropout", gpt.attention_dropout()) && gpt.attention_dropout() > 0 &&
      model.attention() != spec::Model::UNFUSED) {
    problems.Add("model.gpt.attention_dropout", NumberText(gpt.attention_dropout()),
                 " needs attention that stores its probabilities; use 0, or model.attention: UNFUSED");
  }
  if (hidden && heads) CheckDivides("model.gpt.heads", gpt.heads(), "model.gpt.hidden", gpt.hidden(), problems);
  if (heads && problems.Whole("model.gpt.kv_heads", gpt.kv_heads(), 1, 1 << 12))
    CheckDivides("model.gpt.kv_heads", gpt.kv_heads(), "model.gpt.heads", gpt.heads(), problems);
  if (gpt.positions() != spec::Gpt::ROTARY) return;
  problems.Above("model.gpt.rope_theta", gpt.rope_theta(), 0);
  if (hidden && heads && gpt.hidden() % gpt.heads() == 0 && gpt.hidden() / gpt.heads() % 2 != 0) {
    problems.Add("model.gpt.positions", "ROTARY",
                 " rotates pairs of a head's elements, but heads have model.gpt.hidden / heads = ",
                 gpt.hidden() / gpt.heads(), "; use an even width, or other positions");
  }
}

}  // namespace

constinit const ModelRules kGptRules = {.kind = spec::Model::kGpt, .path = "model.gpt", .fill = Fill, .check = Check};

}  // namespace twofold
