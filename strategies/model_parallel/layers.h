// The layers of a transformer whose work ranks share: which ones are split, and by which idea. A model (gpt.h, llama.h) says what
// layers there are and this says how each is done on a mesh, so that a model's text is the same on one rank and on thousands:
//     along tp  matrices by columns and rows, heads, vocabulary       strategies/tensor_parallel/
//     along cp  the tokens of a sequence                              strategies/context_parallel/
//     along ep  experts                                               strategies/expert_parallel/
// pp is none of its business: a stage is a part of the model (nn::ModelPart), made with the same layers. Along an axis of one, layers
// are those of one rank.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/layers.h"
#include "core/proto/spec.pb.h"
#include "strategies/model_parallel/residual_rows.h"
#include "strategies/tensor_parallel/exchange.h"

namespace twofold {

struct ParallelOptions {
  bool sequence_parallel = false;  // along tp: split between the split layers, too (Korthikanti et al. 2022)
  bool overlap = true;             // communicate while computing; false: wait for every call, for comparison
  int64_t kv_heads = 0;            // of the model, where they may be fewer than tp; 0: they are not
};
// What a resolved spec says of them.
ParallelOptions ParallelOptionsOf(const spec::Spec& spec);

// One rank's. Used from its thread; the layers that it makes refer to it and to the mesh, which outlive them.
class ParallelLayers final : public nn::Layers {
 public:
  // Collective over the mesh's world.
  ParallelLayers(DeviceMesh& mesh, const ParallelOptions& options);

  DeviceMesh& mesh() { return mesh_; }
  const ParallelOptions& options() const { return options_; }
  // Those along tp that hold the same heads of keys and values (ShardLayout::Sum::kKeyValue); null: none do.
  ProcessGroup* key_value_group() { return key_value_; }
  // Those of the residual stream that this rank has.
  const ResidualRows& rows() const { return rows_; }

  nn::TokenEmbedding Embedding(int64_t vocab, int64_t hidden, DType dtype, nn::Init init) override;
  std::unique_ptr<nn::Module> Positions(int64_t sequence, int64_t hidden, DType dtype, nn::Init init) override;
  std::unique_ptr<nn::Module> Head(const nn::LinearConfig& config, nn::Parameter* shared) override;
  std::unique_ptr<nn::Loss> MakeLoss(int64_t classes) override;

  std::unique_ptr<nn::Module> MakeNorm(nn::Norm norm, int64_t hidden, DType dtype, double eps) override;
  std::unique_ptr<nn::Module> MakeDropout(double p, nn::DropoutMasks masks) override;

  std::unique_ptr<nn::Module> Column(const nn::LinearConfig& config, std::vector<int64_t> parts) override;
  std::unique_ptr<nn::Module> Row(const nn::LinearConfig& config) override;
  std::unique_ptr<nn::Module> Qkv(const nn::LinearConfig& config, const nn::Heads& heads) override;
  // With this rank's heads, of this rank's tokens:
  std::unique_ptr<nn::Module> MakeRotary(std::shared_ptr<nn::RotaryTable> table, const nn::Heads& heads) override;
  std::unique_ptr<nn::Module> AttentionCore(const nn::Heads& heads) override;
  std::unique_ptr<nn::Module> UnfusedAttentionCore(const nn::Heads& heads, double dropout, nn::DropoutMasks masks) override;
  std::unique_ptr<nn::Module> MakeExperts(const nn::MixtureConfig& config) override;

 private:
  bool splits_layers() const { return tensor_.size() > 1; }
  // Null where this rank has all rows.
  nn::Placing PlacesOfRows() const;
  nn::Placing PlacesOfElements() const;

  DeviceMesh& mesh_;
  const ParallelOptions options_;
  ProcessGroup& tensor_;  // along tp
  const TensorParallelExchange exchange_;
  const ResidualRows rows_;
  std::unique_ptr<ProcessGroup> ring_;  // along cp, with a stream of its own; null: there are no others
  std::unique_ptr<ProcessGroup> experts_;  // along ep; null: one rank has them all
  std::unique_ptr<ProcessGroup> owned_key_value_;
  ProcessGroup* key_value_ = nullptr;
};

}  // namespace twofold
