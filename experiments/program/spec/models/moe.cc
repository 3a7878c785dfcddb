
#include "core/device/ops/experts.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

void Fill(spec::Model& model) { FillLlama(*model.mutable_moe()->mutable_llama()); }

void Check(const spec::Model& model, Problems& problems) {
  const spec::Moe& moe = model.moe();
  CheckLlama(moe.llama(), "model.moe.llama", problems);
  const bool experts = problems.Whole("model.moe.experts", moe.experts(), 2, ops::kMostExperts, moe.has_experts());
  if (problems.Whole("model.moe.top_k", moe.top_k(), 1, ops::kMostExperts) && experts && moe.top_k() > moe.experts()) {
    problems.Add("model.moe.top_k", moe.top_k(), " is more than model.moe.experts = ", moe.experts(), "; use at most ",
                 moe.experts());
  }
  problems.Above("model.moe.capacity_factor", moe.capacity_factor(), 0);
  const int64_t layers = moe.llama().layers();
  if (problems.Whole("model.moe.every", moe.every(), 1, 1 << 12) && layers >= 1 && moe.every() > layers) {
    problems.Add("model.moe.every", moe.every(), " is more than model.moe.llama.layers = ", layers,
                 ": no block would have experts; use at most ", layers);
  }
  problems.AtLeast("model.moe.aux_loss", moe.aux_loss(), 0);
}

}  // namespace

constinit const ModelRules kMoeRules = {
    .kind = spec::Model::kMoe, .path = "model.moe.llama", .fill = Fill, .check = Check};

}  // namespace twofold
