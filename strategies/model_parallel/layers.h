// The layers of a model, split over ranks. A model (core/nn/gpt.h, mlp_model.h, ...) says which layers there are, and
// this class says how each is computed on a mesh, so the model's code is the same on one rank and on thousands:
//     along tp  matrices by columns and rows, heads, vocabulary       strategies/tensor_parallel/
//     along cp  the tokens of a sequence                              strategies/context_parallel/
//     along ep  experts                                               strategies/expert_parallel/
// It does not handle pp: a stage is a part of the model (nn::ModelPart) made with the same layers. Along an axis of
// size 1 the layers are the single-rank ones.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/layers.h"
#include "strategies/groups/group_tags.h"
#include "strategies/model_parallel/residual_rows.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

struct ParallelOptions {
  bool sequence_parallel = false;  // also split activations between split layers along tp (Korthikanti et al. 2022)
  bool overlap = true;             // communicate while computing; false: wait for every call, for comparison
  bool tensor_backward_overlap = true;  // along tp, beside products of backward that do not depend on it
  bool tensor_overlap = false;          // also while computing what depends on it, along tp (ring_product.h)
  nn::Fp8Options fp8 = {};              // of the products in branches of blocks: Column, Row and Qkv
  int64_t score_limit = 0;  // bytes for the gradients of attention's scores on a GPU (ops::AttentionBackward)
  int64_t kv_heads = 0;     // the model's key/value heads, of which there may be fewer than tp ranks; 0: none
};

// One object per rank, used from the rank's thread. It and the mesh must outlive the layers that it makes.
class ParallelLayers final : public nn::Layers {
 public:
  // Collective over the mesh's world.
  ParallelLayers(DeviceMesh& mesh, const ParallelOptions& options);

  DeviceMesh& mesh() { return mesh_; }
  const ParallelOptions& options() const { return options_; }
  // Two groups over which gradients are summed and initial values are shared (data_parallel/holder_sums.h,
  // initial_values.h). A group that sums has a stream of its own, so that no message between layers waits for a sum.
  // The ranks along tp (kTensorTag).
  ProcessGroup& tensor_sums() { return tensor_sums_ != nullptr ? *tensor_sums_ : tensor_; }
  // The ranks along tp with the same key/value heads (kKeyValueTag). Null if no two ranks share heads.
  ProcessGroup* key_value_sums() { return options_.kv_heads == 1 ? tensor_sums_.get() : key_value_sums_.get(); }
  // Tells ranks along tp apart by which copies of shared parameters they own (ProcessGroup::RanksDiffer; `briefly`:
  // RanksDifferBriefly). For trainings that need norms of gradients. Returns whether this rank stands for others.
  bool TellOwnersApart(bool briefly);
  // The rows of the residual stream that this rank holds.
  const ResidualRows& rows() const { return rows_; }

  nn::TokenEmbedding Embedding(int64_t vocab, int64_t hidden, DType dtype, nn::Init init) override;
  std::unique_ptr<nn::Module> Positions(int64_t sequence, int64_t hidden, DType dtype, nn::Init init) override;
  std::unique_ptr<nn::Module> Head(const nn::LinearConfig& config, nn::Parameter* shared) override;
  nn::GroupTag table_holders() const override { return kEmbeddingTag; }
  std::unique_ptr<nn::Loss> MakeLoss(int64_t classes) override;

  std::unique_ptr<nn::Module> MakeNorm(nn::Norm norm, int64_t hidden, DType dtype, double eps) override;
  std::unique_ptr<nn::Module> MakeDropout(double p, nn::DropoutMasks masks) override;
  std::unique_ptr<nn::Module> Whole(const nn::LinearConfig& config) override;

  std::unique_ptr<nn::Module> Column(const nn::LinearConfig& config, std::vector<int64_t> parts) override;
  std::unique_ptr<nn::Module> Row(const nn::LinearConfig& config) override;
  std::unique_ptr<nn::Module> MakeFeatureDropout(double p, nn::DropoutMasks masks) override;
  std::unique_ptr<nn::Module> Qkv(const nn::LinearConfig& config, const nn::Heads& heads) override;
  // These use this rank's heads and this rank's tokens.
  std::unique_ptr<nn::Module> MakeRotary(std::shared_ptr<nn::RotaryTable> table, const nn::Heads& heads) override;
  std::unique_ptr<nn::Module> AttentionCore(const nn::Heads& heads) override;
  std::unique_ptr<nn::Module> UnfusedAttentionCore(const nn::Heads& heads, double dropout,
                                                   nn::DropoutMasks masks) override;
  std::unique_ptr<nn::Module> MakeExperts(const nn::MixtureConfig& config) override;

 private:
  nn::LinearConfig InRecipe(nn::LinearConfig config) const;
  bool splits_layers() const { return tensor_.size() > 1; }
  // Null if this rank holds all rows.
  nn::Placing PlacesOfRows() const;
  nn::Placing PlacesOfElements() const;

  DeviceMesh& mesh_;
  const ParallelOptions options_;
  ProcessGroup& tensor_;  // along tp
  const TensorParallelExchange exchange_;
  const ResidualRows rows_;
  std::unique_ptr<ProcessGroup> ring_;                          // along cp, with a stream of its own; null if cp is 1
  std::unique_ptr<ProcessGroup> experts_;                       // along ep; null if ep is 1
  std::unique_ptr<ProcessGroup> tensor_sums_, key_value_sums_;  // null if nothing is summed
};

}  // namespace twofold
