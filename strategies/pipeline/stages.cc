#include "strategies/pipeline/stages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"

namespace twofold {
namespace {

// The best split of the first n blocks into k parts.
struct Division {
  double most = std::numeric_limits<double>::infinity(), squares = 0;  // largest cost of a part; sum of squared costs
  int64_t last = 0;                                                    // number of blocks in the last of these parts
  bool BetterThan(const Division& other) const {
    return std::pair(most, squares) < std::pair(other.most, other.squares);
  }
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
  std::vector<std::vector<Division>> best(static_cast<size_t>(parts) + 1, std::vector<Division>(costs.size() + 1));
  best[0][0] = {.most = 0};
  for (int k = 1; k <= parts; ++k) {
    for (int64_t n = k; n <= blocks - (parts - k); ++n) {
      double cost = (k == 1 ? before : 0) + (k == parts ? after : 0);
      for (int64_t last = 1; last <= n - (k - 1); ++last) {
        cost += costs[static_cast<size_t>(n - last)];
        Division& known = best[static_cast<size_t>(k)][static_cast<size_t>(n)];
        if (cost > known.most) break;  // costs are not negative, so longer last parts are no better
        const Division& others = best[static_cast<size_t>(k) - 1][static_cast<size_t>(n - last)];
        const Division division{
            .most = std::max(others.most, cost), .squares = others.squares + cost * cost, .last = last};
        if (division.BetterThan(known)) known = division;
      }
    }
  }
  std::vector<int64_t> sizes(static_cast<size_t>(parts));
  int64_t n = blocks;
  for (int k = parts; k > 0; --k)
    n -= sizes[static_cast<size_t>(k) - 1] = best[static_cast<size_t>(k)][static_cast<size_t>(n)].last;
  return sizes;
}

std::vector<int64_t> SplitByCost(const Model& model, int parts) {
  const nn::BlockFlops flops = model.FlopsByBlock();
  return SplitByCost(flops.blocks, flops.before, flops.after, parts);
}

std::vector<nn::ModelPart> PartsOf(std::span<const int64_t> sizes) {
  std::vector<nn::ModelPart> all;
  int64_t first = 0;
  for (const int64_t size : sizes) {
    all.push_back({.first_block = first, .last_block = first + size, .embedding = all.empty(), .head = false});
    first += size;
  }
  all.back().head = true;
  return all;
}

std::vector<nn::ModelPart> PartsOfStage(std::span<const nn::ModelPart> parts, int stage, int stages) {
  std::vector<nn::ModelPart> own;
  for (auto i = static_cast<size_t>(stage); i < parts.size(); i += static_cast<size_t>(stages)) own.push_back(parts[i]);
  return own;
}

GroupList EndsOf(const MeshShape& mesh) {
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& stages : GroupsOf(mesh, MeshGroup::kPp)) {
    groups.push_back({stages.front(), stages.back()});
    for (size_t s = 1; s + 1 < stages.size(); ++s) groups.push_back({stages[s]});
  }
  return groups;
}

std::vector<pipeline::Boundaries> BoundariesOf(const Model& model, std::span<const nn::ModelPart> parts,
                                               const BoundaryShare& share) {
  std::vector<pipeline::Boundaries> all;
  for (const nn::ModelPart& part : parts) {
    all.push_back({.before = part.embedding ? Shape() : model.BoundaryBefore(part.first_block, share).shape,
                   .after = part.head ? Shape() : model.BoundaryBefore(part.last_block, share).shape});
  }
  return all;
}

}  // namespace twofold
