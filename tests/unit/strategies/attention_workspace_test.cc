// What a spec lets the scores of attention take on a GPU (cuda.attention_workspace_mib) reaches the operation.
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "strategies/from_spec.h"
#include "strategies/model_parallel/layers.h"
#include "tests/unit/nn/symbolic_device.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace attention_workspace_test {

constexpr int64_t kT = 256, kHeads = 4, kDim = 8;
constexpr int64_t kScores = 2 * kHeads * kT * kT;  // 0.5 MiB, and 0.25 MiB for two of the heads

TEST(AttentionWorkspace, IsTheSpecs) {
  spec::Spec spec;
  spec::Llama& llama = *spec.mutable_model()->mutable_llama();
  llama.set_layers(2), llama.set_hidden(16), llama.set_heads(2), llama.set_kv_heads(2), llama.set_head_dim(8);
  llama.set_ffn(32), llama.set_vocab(64), llama.set_sequence(8);
  spec.mutable_parallel()->set_pp(1), spec.mutable_parallel()->set_virtual_stages(1);
  EXPECT_EQ(TrainingOptionsOf(spec).layers.score_limit, 0);
  spec.mutable_cuda()->set_attention_workspace_mib(0.5);
  EXPECT_EQ(TrainingOptionsOf(spec).layers.score_limit, kScores);
}

// What the backward pass of a rank's heads reserves beyond its tensors.
Bytes Reserved(RankContext& rank, int tp, int64_t limit) {
  DeviceMesh mesh(rank.world(), MeshShape{.tp = tp});
  ParallelLayers layers(mesh, {.score_limit = limit});
  const auto core = layers.AttentionCore({.queries = kHeads, .keys = kHeads, .width = kDim});
  test::SymbolicDevice device(DeviceKind::kCuda);
  nn::Context nn{.device = device, .stream = device.compute()};
  const int64_t columns = kHeads / tp * kDim;
  const Tensor qkv = nn.Activation({1, kT, 3 * columns}, DType::kBF16),
               dy = nn.Activation({1, kT, columns}, DType::kBF16);
  nn::Saved saved;
  const Tensor y = core->Forward(nn, qkv, saved);
  const Tensor dqkv = core->BackwardInput(nn, dy, saved);
  return device.memory().peak - device.memory().live - Bytes(4 * kHeads / tp * kT);  // lse is given back by now
}

TEST(AttentionWorkspace, IsWhatARanksHeadsReserve) {
  for (const int tp : {1, 2}) {
    test::ExpectOnRanks(tp, [tp](RankContext& rank) {
      const int64_t delta = 4 * kHeads / tp * kT, sums = delta * kDim, scores = kScores / tp;
      std::string wrong;
      for (const auto& [limit, want] : {std::pair{int64_t{0}, sums}, {scores - 1, sums}, {scores, scores}}) {
        const int64_t got = Reserved(rank, tp, limit).value();
        // qkv's gradient is live in both; the workspace is delta, the larger of two, and 512 bytes of the engine's
        if (got != delta + want + 512)
          StrAppend(&wrong, "limit ", limit, ": ", got, ", not ", delta + want + 512, "; ");
      }
      return wrong;
    });
  }
}

}  // namespace attention_workspace_test
}  // namespace twofold
