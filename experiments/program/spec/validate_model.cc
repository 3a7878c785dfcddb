// Checks `model`: that there is one, its sizes (models/rules.h), and how it attends.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "experiments/program/spec/models/rules.h"
#include "experiments/program/spec/validate.h"
#include "strategies/from_spec.h"
#include "strategies/models/kinds.h"

namespace twofold {
namespace {

void CheckAttention(const spec::Model& model, const ModelRules& rules, Problems& problems) {
  constexpr int64_t kLongest = 1 << 15;  // scores are sequence^2 per head
  if (model.attention() != spec::Model::UNFUSED) return;
  const ModelInput input = ModelOf(model)->input();
  if (input.kind != ModelInput::kTokens) {
    problems.Add("model.attention", "UNFUSED does not apply to ", rules.path, ", which has no attention; use TILED");
  } else if (input.length > kLongest) {
    problems.Add("model.attention", "UNFUSED stores scores of ", rules.path, ".sequence = ", input.length,
                 " squared; use TILED, or a sequence of at most ", kLongest);
  }
}

}  // namespace

void CheckModel(const spec::Model& model, Problems& problems) {
  if (const ModelRules* rules = FindModelRules(model.kind_case())) {
    CheckAttention(model, *rules, problems);
    return rules->check(model, problems);
  }
  std::vector<std::string> kinds;
  for (const ModelKind* kind : ModelKinds()) kinds.push_back(StrCat("model { ", kind->name, " { ... } }"));
  problems.Add("model",
               "is missing; use a preset such as model { preset: \"gpt-3m\" }, or sizes: ", absl::StrJoin(kinds, ", "));
}

}  // namespace twofold
