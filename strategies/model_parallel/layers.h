// The layers of a transformer whose work ranks share: which ones are split, and by which idea. A model (gpt.h, llama.h) says what
// layers there are and this says how each is done on a mesh, so that a model's text is the same on one rank and on thousands:
//     along tp  matrices by columns and rows, heads, vocabulary       strategies/tensor_parallel/
//     along cp  the tokens of a sequence                              strategies/context_parallel/
//     along ep  experts                                               strategies/expert_parallel/
// pp is none of its business: a stage is a part of the model (nn::Part), made with the same layers. Along an axis of one, layers
// are those of one rank.
#pragma once

#include <memory>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/layers.h"
#include "core/proto/spec.pb.h"

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
  // Those along tp that hold the same heads of keys and values (Cut::Sum::kKeyValue); null: none do.
  ProcessGroup* key_value_group() { return key_value_; }

  std::unique_ptr<nn::Module> MakeExperts(const nn::MixtureConfig& config) override;

 private:
  DeviceMesh& mesh_;
  const ParallelOptions options_;
  ProcessGroup& tensor_;  // along tp
  std::unique_ptr<ProcessGroup> experts_;  // along ep; null: one rank has them all
  std::unique_ptr<ProcessGroup> owned_key_value_;
  ProcessGroup* key_value_ = nullptr;
};

}  // namespace twofold
