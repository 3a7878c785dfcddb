#include "strategies/model_parallel/layers.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/nn/attention.h"
#include "core/nn/mixture.h"
#include "core/nn/position_embedding.h"
#include "strategies/context_parallel/ring_attention.h"
#include "strategies/expert_parallel/experts.h"
#include "strategies/tensor_parallel/column_linear.h"
#include "strategies/tensor_parallel/cross_entropy.h"
#include "strategies/tensor_parallel/heads.h"
#include "strategies/tensor_parallel/row_linear.h"
#include "strategies/tensor_parallel/shared_parameters.h"
#include "strategies/tensor_parallel/vocabulary.h"

namespace twofold {
namespace {

// Groups of consecutive tp ranks that share key/value heads: tp / kv_heads ranks if there are fewer heads than ranks,
// else one.
size_t KeyValueSharers(int tp, int64_t kv_heads) {
  return static_cast<size_t>(kv_heads > 0 && kv_heads < tp ? tp / kv_heads : 1);
}

GroupList KeyValueGroups(const DeviceMesh& mesh, int64_t kv_heads) {
  const size_t sharers = KeyValueSharers(mesh.shape().tp, kv_heads);
  GroupList groups;
  for (const std::vector<int>& ranks : mesh.ListOf(MeshGroup::kTp)) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (r % sharers == 0) groups.emplace_back();
      groups.back().push_back(ranks[r]);
    }
  }
  return groups;
}

ResidualRows RowsOf(const DeviceMesh& mesh, const TensorParallelExchange& exchange) {
  const MeshShape& shape = mesh.shape();
  return {.chunks = {.rank = mesh.Coordinate(Axis::kCp), .ranks = shape.cp},
          .tp = exchange.splits_rows() ? shape.tp : 1,
          .r = exchange.splits_rows() ? mesh.Coordinate(Axis::kTp) : 0};
}

}  // namespace

ParallelLayers::ParallelLayers(DeviceMesh& mesh, const ParallelOptions& options)
    : mesh_(mesh),
      options_(options),
      tensor_(mesh.Group(MeshGroup::kTp)),
      exchange_(tensor_, {.sequence_parallel = options.sequence_parallel,
                          .overlap = options.tensor_backward_overlap,
                          .rings = options.tensor_overlap}),
      rows_(RowsOf(mesh, exchange_)) {
  if (mesh.shape().cp > 1) ring_ = mesh.NewGroup(MeshGroup::kCp, "ring");
  if (mesh.shape().ep > 1) experts_ = mesh.NewGroup(MeshGroup::kEp, "experts");
  const bool shares_heads = options.kv_heads > 0 && options.kv_heads < tensor_.size();
  if (tensor_.size() > 1 && (options.sequence_parallel || (shares_heads && options.kv_heads == 1)))
    tensor_sums_ = mesh.NewGroup(MeshGroup::kTp, "tp gradients");
  if (shares_heads && options.kv_heads > 1)
    key_value_sums_ = mesh.NewGroups(KeyValueGroups(mesh, options.kv_heads), "key values");
}

// The first rank owns what all share; the first of those that share key/value heads owns these.
bool ParallelLayers::TellOwnersApart(bool briefly) {
  std::vector<int> kinds(static_cast<size_t>(tensor_.size()));
  const size_t sharers = KeyValueSharers(tensor_.size(), options_.kv_heads);
  for (size_t r = 1; r < kinds.size(); ++r) kinds[r] = r % sharers == 0 ? 1 : 2;
  const std::string why = "ranks along tp compute different parts of the gradient norm";
  if (briefly) return tensor_.RanksDifferBriefly(kinds, why);
  tensor_.RanksDiffer(kinds, why);
  return false;
}

nn::Placing ParallelLayers::PlacesOfRows() const {
  if (rows_.all()) return nullptr;
  return [rows = rows_](const Shape& local) { return rows.PositionsOf(local); };
}

nn::Placing ParallelLayers::PlacesOfElements() const {
  if (rows_.all()) return nullptr;
  return [rows = rows_](const Shape& local) { return rows.ElementsOf(local); };
}

// ---- Into the residual stream and out of it ----

nn::TokenEmbedding ParallelLayers::Embedding(int64_t vocab, int64_t hidden, DType dtype, nn::Init init) {
  if (!splits_layers()) return Layers::Embedding(vocab, hidden, dtype, init);
  auto module = std::make_unique<VocabParallelEmbedding>(exchange_, vocab, hidden, dtype, init);
  nn::Parameter* weight = module->weight();
  return {std::move(module), weight};
}

std::unique_ptr<nn::Module> ParallelLayers::Positions(int64_t sequence, int64_t hidden, DType dtype, nn::Init init) {
  auto module = std::make_unique<nn::PositionEmbedding>(sequence, hidden, dtype, init, PlacesOfRows());
  for (nn::Parameter* p : module->Parameters()) ShareAmong(exchange_, *p);
  return module;
}

std::unique_ptr<nn::Module> ParallelLayers::Head(const nn::LinearConfig& config, nn::Parameter* shared) {
  if (!splits_layers()) return Layers::Head(config, shared);
  TWOFOLD_CHECK(!config.bias, "a head over a vocabulary that is split has no bias");
  if (shared != nullptr) return std::make_unique<ColumnParallelLinear>(exchange_, shared);
  return std::make_unique<ColumnParallelLinear>(exchange_, config, VocabularyShare(config.out, tensor_).ranges());
}

std::unique_ptr<nn::Loss> ParallelLayers::MakeLoss(int64_t classes) {
  if (!splits_layers()) return Layers::MakeLoss(classes);
  return std::make_unique<VocabParallelCrossEntropy>(tensor_, classes);
}

// ---- On the residual stream: row by row; each rank computes its own rows ----

std::unique_ptr<nn::Module> ParallelLayers::MakeNorm(nn::Norm norm, int64_t hidden, DType dtype, double eps) {
  std::unique_ptr<nn::Module> module = Layers::MakeNorm(norm, hidden, dtype, eps);
  for (nn::Parameter* p : module->Parameters()) ShareAmong(exchange_, *p);
  return module;
}

std::unique_ptr<nn::Module> ParallelLayers::MakeDropout(double p, nn::DropoutMasks masks) {
  return std::make_unique<nn::Dropout>(p, masks, "", PlacesOfElements());
}

std::unique_ptr<nn::Module> ParallelLayers::Whole(const nn::LinearConfig& config) {
  std::unique_ptr<nn::Module> module = Layers::Whole(config);
  for (nn::Parameter* p : module->Parameters()) ShareAmong(exchange_, *p);
  return module;
}

// ---- Within a branch of a block ----

nn::LinearConfig ParallelLayers::InRecipe(nn::LinearConfig config) const {
  config.fp8 = options_.fp8;
  return config;
}

std::unique_ptr<nn::Module> ParallelLayers::Column(const nn::LinearConfig& of, std::vector<int64_t> parts) {
  const nn::LinearConfig config = InRecipe(of);
  if (!splits_layers()) return Layers::Column(config, std::move(parts));
  return std::make_unique<ColumnParallelLinear>(exchange_, config, SplitParts(parts, tensor_.rank(), tensor_.size()));
}

std::unique_ptr<nn::Module> ParallelLayers::Row(const nn::LinearConfig& of) {
  const nn::LinearConfig config = InRecipe(of);
  if (!splits_layers()) return Layers::Row(config);
  return std::make_unique<RowParallelLinear>(exchange_, config);
}

// Draws the masks of columns [r n, (r + 1) n) of the whole.
std::unique_ptr<nn::Module> ParallelLayers::MakeFeatureDropout(double p, nn::DropoutMasks masks) {
  if (!splits_layers()) return MakeDropout(p, masks);
  TWOFOLD_CHECK(rows_.all(), "features are dropped where ranks have all rows");
  const auto places = [r = tensor_.rank(), ranks = tensor_.size()](const Shape& local) {
    const int64_t n = local[-1];
    return ops::IndexMap{.block = n, .stride = ranks * n, .offset = {r * n}};
  };
  return std::make_unique<nn::Dropout>(p, masks, "", places);
}

std::unique_ptr<nn::Module> ParallelLayers::MakeExperts(const nn::MixtureConfig& config) {
  ProcessGroup& experts = experts_ != nullptr ? *experts_ : mesh_.Group(MeshGroup::kEp);  // else a group of one rank
  if (config.assumed != nullptr && config.assumed->ranks_differ()) {
    std::vector<int> each(static_cast<size_t>(mesh_.world().size()));
    std::iota(each.begin(), each.end(), 0);
    mesh_.world().RanksDiffer(each, "the tokens of each expert are given rank by rank");
  }
  return MakeExpertParallel(config,
                            {.experts = experts, .tensor = tensor_, .sequence_parallel = options_.sequence_parallel});
}

std::unique_ptr<nn::Module> ParallelLayers::Qkv(const nn::LinearConfig& of, const nn::Heads& heads) {
  const nn::LinearConfig config = InRecipe(of);
  if (!splits_layers()) return Layers::Qkv(config, heads);
  return std::make_unique<ColumnParallelLinear>(exchange_, config,
                                                HeadShare(heads, tensor_.rank(), tensor_.size()).ranges(heads));
}

std::unique_ptr<nn::Module> ParallelLayers::MakeRotary(std::shared_ptr<nn::RotaryTable> table, const nn::Heads& heads) {
  const nn::Heads local = HeadShare(heads, tensor_.rank(), tensor_.size()).local;
  nn::Placing positions;  // ignores tp: within a block a rank has all rows along tp
  if (rows_.chunks.ranks > 1) positions = [chunks = rows_.chunks](const Shape& x) { return chunks.Positions(x[1]); };
  return std::make_unique<nn::Rotary>(std::move(table), local.queries + local.keys, std::move(positions));
}

std::unique_ptr<nn::Module> ParallelLayers::AttentionCore(const nn::Heads& heads) {
  const nn::Heads local = HeadShare(heads, tensor_.rank(), tensor_.size()).local;
  if (ring_ != nullptr) return std::make_unique<RingAttention>(local, *ring_, options_.overlap);
  return std::make_unique<nn::AttentionCore>(local.queries, local.keys, options_.score_limit);
}

// Dropout on the probabilities draws the masks that one rank alone would draw: those of heads [first, first + n) of
// [b, heads, t, t].
std::unique_ptr<nn::Module> ParallelLayers::UnfusedAttentionCore(const nn::Heads& heads, double dropout,
                                                                 nn::DropoutMasks masks) {
  const HeadShare share(heads, tensor_.rank(), tensor_.size());
  nn::Placing places;
  if (splits_layers()) {
    places = [all = heads.queries, first = share.first_query](const Shape& p) {
      const int64_t square = p[2] * p[3];
      return ops::IndexMap{.block = p[1] * square, .stride = all * square, .offset = {first * square}};
    };
  }
  return std::make_unique<nn::UnfusedAttentionCore>(share.local.queries, share.local.keys, dropout, masks,
                                                    std::move(places));
}

}  // namespace twofold
