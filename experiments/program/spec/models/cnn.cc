#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

void Fill(spec::Model&) {}  // every default is constant

void CheckStages(const spec::Cnn& cnn, Problems& problems) {
  constexpr int kMostStages = 16;
  if (cnn.widths_size() < 1 || cnn.widths_size() > kMostStages) {
    return problems.Add("model.cnn.widths",
                        cnn.widths_size() == 0
                            ? "is missing; use the channels of each stage, such as [16, 32, 64]"
                            : StrCat("has ", cnn.widths_size(), " stages; use at most ", kMostStages));
  }
  if (cnn.blocks_size() != cnn.widths_size()) {
    problems.Add("model.cnn.blocks", "has ", cnn.blocks_size(), " stages, but model.cnn.widths has ", cnn.widths_size(),
                 "; give a number of blocks for each stage");
  }
  for (int i = 0; i < cnn.widths_size(); ++i)
    problems.Whole(StrCat("model.cnn.widths[", i, "]"), cnn.widths(i), 1, 1 << 14);
  for (int i = 0; i < cnn.blocks_size(); ++i)
    problems.Whole(StrCat("model.cnn.blocks[", i, "]"), cnn.blocks(i), 1, 1 << 10);
}

void Check(const spec::Model& model, Problems& problems) {
  const spec::Cnn& cnn = model.cnn();
  problems.Whole("model.cnn.channels", cnn.channels(), 1, 1 << 10);
  problems.Whole("model.cnn.height", cnn.height(), 1, 1 << 13);
  problems.Whole("model.cnn.width", cnn.width(), 1, 1 << 13);
  problems.Whole("model.cnn.classes", cnn.classes(), 2, 1 << 20);
  CheckStages(cnn, problems);
  if (!(cnn.norm_momentum() >= 0 && cnn.norm_momentum() <= 1)) {
    problems.Add("model.cnn.norm_momentum", NumberText(cnn.norm_momentum()),
                 " is out of range; use a number from 0 to 1");
  }
  problems.Above("model.cnn.norm_eps", cnn.norm_eps(), 0);
}

void RefuseTensor(const spec::Model&, int64_t tp, Problems& problems) {
  problems.Add("parallel.tp", tp,
               " splits matrices, but model.cnn has convolutions, which every rank of a stage must hold whole; use 1, "
               "and parallel.dp or parallel.pp");
}

}  // namespace

constinit const ModelRules kCnnRules = {
    .kind = spec::Model::kCnn,
    .path = "model.cnn",
    .fill = Fill,
    .check = Check,
    .blocks =
        [](const spec::Model& m) { return StrCat("model.cnn.blocks = [", absl::StrJoin(m.cnn().blocks(), ", "), "]"); },
    .check_tensor = RefuseTensor,
};

}  // namespace twofold
