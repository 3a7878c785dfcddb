#include "strategies/pipeline/stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace twofold {
namespace {

std::vector<int64_t> SplitModelByCost(const spec::Model& model, int parts) {
  const nn::BlockFlops flops = KindOf(model).flops_by_block(model);
  return SplitByCost(flops.blocks, flops.before, flops.after, parts);
}

// The best split of the first n blocks into k parts.
struct Cut {
  double most = std::numeric_limits<double>::infinity(), squares = 0;  // largest cost of a part; sum of squared costs
  int64_t last = 0;                                                    // number of blocks in the last of these parts
  bool BetterThan(const Cut& other) const { return std::pair(most, squares) < std::pair(other.most, other.squares); }
};

}  // namespace

std::vector<int64_t> SplitUniformly(int64_t blocks, int parts) {
  TWOFOLD_CHECK_GE(blocks, parts);
  std::vector<int64_t> sizes(static_cast<size_t>(parts), blocks / parts);
  for (int64_t i = 0; i < blocks % parts; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

std::vector<int64_t> SplitByCost(std::span<const double> costs, double before, double after, int parts) {
  const auto blocks = static_cast<int64_t>(costs.size());
  TWOFOLD_CHECK_GE(blocks, parts);
  // best[k][n]: the best split of the first n blocks into k parts.
  std::vector<std::vector<Cut>> best(static_cast<size_t>(parts) + 1, std::vector<Cut>(costs.size() + 1));
  best[0][0] = {.most = 0};
  for (int k = 1; k <= parts; ++k) {
    for (int64_t n = k; n <= blocks - (parts - k); ++n) {
      double cost = (k == 1 ? before : 0) + (k == parts ? after : 0);
      for (int64_t last = 1; last <= n - (k - 1); ++last) {
        cost += costs[static_cast<size_t>(n - last)];
        Cut& known = best[static_cast<size_t>(k)][static_cast<size_t>(n)];
        if (cost > known.most) break;  // costs are not negative, so longer last parts are no better
        const Cut& others = best[static_cast<size_t>(k) - 1][static_cast<size_t>(n - last)];
        const Cut cut{.most = std::max(others.most, cost), .squares = others.squares + cost * cost, .last = last};
        if (cut.BetterThan(known)) known = cut;
      }
    }
  }
  std::vector<int64_t> sizes(static_cast<size_t>(parts));
  int64_t n = blocks;
  for (int k = parts; k > 0; --k)
    n -= sizes[static_cast<size_t>(k) - 1] = best[static_cast<size_t>(k)][static_cast<size_t>(n)].last;
  return sizes;
}

std::vector<nn::ModelPart> PartsOf(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const int64_t blocks = KindOf(spec.model()).blocks(spec.model());
  const int parts = static_cast<int>(p.pp() * p.virtual_stages());
  if (parts == 1) return {nn::ModelPart::Whole(blocks)};
  std::vector<int64_t> sizes(p.stage_layers().begin(), p.stage_layers().end());
  if (sizes.empty()) {
    sizes = p.stage_balance() == spec::Parallel::BY_COST ? SplitModelByCost(spec.model(), parts)
                                                         : SplitUniformly(blocks, parts);
  }
  std::vector<nn::ModelPart> all;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    all.push_back({.first_block = first, .last_block = first + size, .embedding = all.empty(), .head = false});
    first += size;
  }
  all.back().head = true;
  TWOFOLD_CHECK_EQ(first, blocks);
  return all;
}

std::vector<nn::ModelPart> PartsOfStage(const spec::Spec& spec, int stage) {
  const std::vector<nn::ModelPart> all = PartsOf(spec);
  std::vector<nn::ModelPart> own;
  for (auto i = static_cast<size_t>(stage); i < all.size(); i += static_cast<size_t>(spec.parallel().pp()))
    own.push_back(all[i]);
  return own;
}

pipeline::Schedule ScheduleOf(const spec::Parallel& parallel) {
  switch (parallel.schedule()) {
    case spec::Parallel::GPIPE: return pipeline::Schedule::kGPipe;
    case spec::Parallel::ONE_F_ONE_B: return pipeline::Schedule::kOneFOneB;
    case spec::Parallel::INTERLEAVED_ONE_F_ONE_B: return pipeline::Schedule::kInterleaved;
    case spec::Parallel::ZERO_BUBBLE_H1: return pipeline::Schedule::kZeroBubbleH1;
  }
  return pipeline::Schedule::kOneFOneB;
}

pipeline::PipelineShape PipelineShapeOf(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  return {.stages = static_cast<int>(p.pp()),
          .micro_batches = static_cast<int>(spec.train().global_batch() / (p.dp() * spec.train().micro_batch())),
          .chunks = static_cast<int>(p.virtual_stages())};
}

bool StagesShareTable(const spec::Spec& spec) {
  const spec::Model& model = spec.model();
  const bool tied = model.has_gpt()   ? model.gpt().tied_embeddings()
                    : model.has_moe() ? model.moe().llama().tied_embeddings()
                                      : model.has_llama() && model.llama().tied_embeddings();
  return tied && spec.parallel().pp() > 1;
}

std::vector<std::vector<int>> EndsOf(const MeshShape& mesh) {
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& stages : GroupsOf(mesh, MeshGroup::kPp)) {
    groups.push_back({stages.front(), stages.back()});
    for (size_t s = 1; s + 1 < stages.size(); ++s) groups.push_back({stages[s]});
  }
  return groups;
}

Boundary BoundaryOf(const spec::Spec& spec, int64_t next, int64_t samples) {
  const spec::Parallel& p = spec.parallel();
  return KindOf(spec.model())
      .boundary(spec.model(), next,
                {.samples = samples, .cp = p.cp(), .tp = p.tp(), .sequence_parallel = p.sequence_parallel()});
}

std::vector<pipeline::Boundaries> BoundariesOf(const spec::Spec& spec, std::span<const nn::ModelPart> parts,
                                               int64_t samples) {
  std::vector<pipeline::Boundaries> all;
  for (const nn::ModelPart& part : parts) {
    all.push_back({.before = part.embedding ? Shape() : BoundaryOf(spec, part.first_block, samples).shape,
                   .after = part.head ? Shape() : BoundaryOf(spec, part.last_block, samples).shape});
  }
  return all;
}

}  // namespace twofold
