#include "core/base/strings.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

void Fill(spec::Model&) {}  // the user gives every size

void Check(const spec::Model& model, Problems& problems) {
  const spec::Mlp& mlp = model.mlp();
  problems.Whole("model.mlp.inputs", mlp.inputs(), 1, 1 << 20, mlp.has_inputs());
  problems.Whole("model.mlp.classes", mlp.classes(), 2, 1 << 20, mlp.has_classes());
  for (int i = 0; i < mlp.hidden_size(); ++i) {
    problems.Whole(StrCat("model.mlp.hidden[", i, "]"), mlp.hidden(i), 1, 1 << 20);
  }
  problems.Fraction("model.mlp.dropout", mlp.dropout());
}

}  // namespace

constinit const ModelRules kMlpRules = {.kind = spec::Model::kMlp, .path = "model.mlp", .fill = Fill, .check = Check};

}  // namespace twofold
