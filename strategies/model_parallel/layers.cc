#include "strategies/model_parallel/layers.h"

#include <algorithm>

#include "strategies/expert_parallel/experts.h"

namespace twofold {
namespace {

// Of tp ranks, as many in a row as share heads of keys and values: tp / kv_heads where heads are fewer than ranks, else one.
std::vector<std::vector<int>> KeyValueGroups(const MeshShape& shape, int64_t kv_heads) {
  const auto sharers = static_cast<size_t>(kv_heads > 0 && kv_heads < shape.tp ? shape.tp / kv_heads : 1);
  std::vector<std::vector<int>> groups;
  for (const std::vector<int>& ranks : GroupsOf(shape, Along::kTp)) {
    for (size_t r = 0; r < ranks.size(); ++r) {
      if (r % sharers == 0) groups.emplace_back();
      groups.back().push_back(ranks[r]);
    }
  }
  return groups;
}

}  // namespace

ParallelOptions ParallelOptionsOf(const spec::Spec& spec) {
  const spec::Model& model = spec.model();
  const spec::Llama* llama = model.has_llama() ? &model.llama() : model.has_moe() ? &model.moe().llama() : nullptr;
  return {.sequence_parallel = spec.parallel().sequence_parallel(),
          .overlap = spec.parallel().overlap(),
          .kv_heads = llama == nullptr ? 0 : llama->kv_heads() > 0 ? llama->kv_heads() : llama->heads()};
}

ParallelLayers::ParallelLayers(DeviceMesh& mesh, const ParallelOptions& options)
    : mesh_(mesh), options_(options), tensor_(mesh.Group(Along::kTp)) {
  if (mesh.shape().ep > 1) experts_ = mesh.NewGroup(Along::kEp, "experts");
  if (options.kv_heads == 0 || options.kv_heads >= tensor_.size()) return;
  if (options.kv_heads == 1) {
    key_value_ = &tensor_;
    return;
  }
  owned_key_value_ = mesh.NewGroups(KeyValueGroups(mesh.shape(), options.kv_heads), "key values");
  key_value_ = owned_key_value_.get();
}

std::unique_ptr<nn::Module> ParallelLayers::MakeExperts(const nn::MixtureConfig& config) {
  ProcessGroup& experts = experts_ != nullptr ? *experts_ : mesh_.Group(Along::kEp);  // else of one
  return MakeExpertParallel(config, {.experts = experts, .tensor = tensor_, .sequence_parallel = options_.sequence_parallel});
}

}  // namespace twofold
