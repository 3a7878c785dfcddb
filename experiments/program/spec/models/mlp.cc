#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

constexpr int64_t kWidest = 1 << 20;

void Fill(spec::Model&) {}  // the user gives every size

void Check(const spec::Model& model, Problems& problems) {
  const spec::Mlp& mlp = model.mlp();
  problems.Whole("model.mlp.inputs", mlp.inputs(), 1, kWidest, mlp.has_inputs());
  problems.Whole("model.mlp.classes", mlp.classes(), 2, 1 << 20, mlp.has_classes());
  for (int i = 0; i < mlp.hidden_size(); ++i) {
    problems.Whole(StrCat("model.mlp.hidden[", i, "]"), mlp.hidden(i), 1, kWidest);
  }
  problems.Fraction("model.mlp.dropout", mlp.dropout());
}

// Every second hidden layer is split, with the layer after it (core/nn/mlp_model.h).
void CheckPairs(const spec::Model& model, int64_t tp, Problems& problems) {
  const spec::Mlp& mlp = model.mlp();
  if (mlp.hidden().empty()) problems.Add("parallel.tp", tp, " splits hidden layers, but model.mlp has none; use 1");
  for (int i = 0; i < mlp.hidden_size(); i += 2) {
    const int64_t width = mlp.hidden(i);
    if (width < 1 || width > kWidest) return;  // reported by Check
    CheckDivides("parallel.tp", tp, StrCat("model.mlp.hidden[", i, "]"), width, problems);
  }
}

}  // namespace

constinit const ModelRules kMlpRules = {
    .kind = spec::Model::kMlp,
    .path = "model.mlp",
    .fill = Fill,
    .check = Check,
    .blocks =
        [](const spec::Model& m) { return StrCat("model.mlp.hidden = [", absl::StrJoin(m.mlp().hidden(), ", "), "]"); },
    .check_tensor = CheckPairs,
};

}  // namespace twofold
