#include <algorithm>
#include <string>
#include <string_view>

#include "core/base/strings.h"
#include "core/device/ops/experts.h"
#include "experiments/program/spec/models/rules.h"

namespace twofold {
namespace {

void Fill(spec::Model& model) {
  spec::Moe& moe = *model.mutable_moe();
  FillLlama(*moe.mutable_llama());
  if (!moe.dropless() && !moe.has_capacity_factor()) moe.set_capacity_factor(1.25);
}

constexpr std::string_view kRows = "model.moe.routing.counts.rows";

bool HasExperts(const spec::Moe& moe, int64_t block) { return (block + 1) % std::max<int64_t>(moe.every(), 1) == 0; }

void CheckRow(const spec::Moe& moe, int i, Problems& problems) {
  const spec::Routing::Row& row = moe.routing().counts().rows(i);
  const std::string path = StrCat(kRows, "[", i, "]");
  if (problems.Whole(path + ".block", row.block(), 0, moe.llama().layers() - 1, row.has_block()) &&
      !HasExperts(moe, row.block())) {
    problems.Add(path + ".block", row.block(), " has no experts, since model.moe.every is ", moe.every(),
                 "; leave its row out");
  }
  if (row.has_rank()) problems.Whole(path + ".rank", row.rank(), 0, (1 << 20) - 1);
  if (row.tokens_size() != moe.experts()) {
    return problems.Add(path + ".tokens", row.tokens_size(), " numbers, but model.moe.experts is ", moe.experts(),
                        "; give one for each expert");
  }
  int64_t sum = 0;
  for (const int64_t tokens : row.tokens())
    if (!problems.Whole(path + ".tokens", tokens, 0, int64_t{1} << 40))
      return;
    else
      sum += tokens;
  if (sum == 0) problems.Add(path + ".tokens", "are all 0, so no expert is ever chosen; give counts above 0");
}

void CheckRouting(const spec::Moe& moe, Problems& problems) {
  const spec::Routing& routing = moe.routing();
  if (!moe.dropless()) {
    problems.Add(
        "model.moe.routing",
        "has no effect: with capacities every expert has a fixed number of slots; set model.moe.dropless: true, "
        "or leave it out");
  }
  switch (routing.distribution_case()) {
    case spec::Routing::kBalanced: return;
    case spec::Routing::kZipf:
      problems.AtLeast("model.moe.routing.zipf.exponent", routing.zipf().exponent(), 0);
      return;
    case spec::Routing::kCounts: break;
    case spec::Routing::DISTRIBUTION_NOT_SET:
      return problems.Add("model.moe.routing",
                          "names no distribution; use balanced {}, zipf { exponent: 1 } or counts { file: "
                          "\"runs/NAME/routing.csv\" }, or leave the block out");
  }
  if (routing.counts().rows().empty()) {
    return problems.Add("model.moe.routing.counts",
                        "has neither file nor rows; give the routing.csv of a run with data, or rows");
  }
  if (moe.experts() < 2 || moe.llama().layers() < 1) return;  // reported above
  for (int i = 0; i < routing.counts().rows_size(); ++i) CheckRow(moe, i, problems);
  for (int64_t block = 0; block < std::min<int64_t>(moe.llama().layers(), 1 << 12); ++block) {
    const auto is = [block](const spec::Routing::Row& row) { return row.block() == block; };
    const auto& rows = routing.counts().rows();
    if (HasExperts(moe, block) && std::none_of(rows.begin(), rows.end(), is))
      problems.Add(kRows, "have none for block ", block, ", which has experts; give one");
  }
}

void Check(const spec::Model& model, Problems& problems) {
  const spec::Moe& moe = model.moe();
  CheckLlama(moe.llama(), "model.moe.llama", problems);
  const bool experts = problems.Whole("model.moe.experts", moe.experts(), 2, ops::kMostExperts, moe.has_experts());
  if (problems.Whole("model.moe.top_k", moe.top_k(), 1, ops::kMostExperts) && experts && moe.top_k() > moe.experts()) {
    problems.Add("model.moe.top_k", moe.top_k(), " is more than model.moe.experts = ", moe.experts(), "; use at most ",
                 moe.experts());
  }
  if (!moe.dropless()) {
    problems.Above("model.moe.capacity_factor", moe.capacity_factor(), 0);
  } else if (moe.has_capacity_factor()) {
    problems.Add("model.moe.capacity_factor", moe.capacity_factor(),
                 " has no effect with model.moe.dropless, since experts have no capacity; keep one of them");
  }
  if (moe.has_routing()) CheckRouting(moe, problems);
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
