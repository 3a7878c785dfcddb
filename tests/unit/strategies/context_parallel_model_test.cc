// Models whose sequences are divided among ranks, against the same models on one rank; what they send.
#include <algorithm>
#include <cmath>

#include "tests/unit/strategies/context_parallel.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold {
namespace context_parallel_model_test {

// "" or what of this rank's is not as on one rank, in f64.
std::string AgainstOneRank(RankContext& rank, const Case& c) {
  Rank parallel(rank, c);
  const double loss = First(parallel.Step());

  nn::Context& ctx = parallel.ctx;
  std::unique_ptr<ProcessGroup> alone = rank.world().Alone("alone");
  DistributedDataParallel whole(ctx, OneChunk(MakeModel(c, nn::OneRank())), *alone, DdpOptions{.gradient = c.dtype});
  whole.BeginStep();
  double whole_loss = 0;
  for (int64_t replica = 0; replica < c.mesh.dp; ++replica) {
    whole.BeginMicroBatch(replica + 1 == c.mesh.dp);
    whole_loss += First(Pass(ctx, *whole.chunks()[0], *nn::OneRank().MakeLoss(kVocab), replica, {})) / c.mesh.dp;
  }
  std::string wrong;
  if (!(std::abs(loss - whole_loss) <= 1e-12 * whole_loss))
    StrAppend(&wrong, "loss ", loss, ", not ", whole_loss, "; ");
  const std::vector<nn::Parameter*> want = whole.Parameters(), got = parallel.layout.Parameters();
  for (size_t p = 0; p < want.size(); ++p) {
    const double* w = want[p]->gradient().data<double>();
    const double* g = got[p]->gradient().data<double>();
    double largest = 1e-6, furthest = 0;
    for (int64_t i = 0; i < want[p]->numel(); ++i) largest = std::max(largest, std::abs(w[i]) / c.mesh.dp);
    got[p]->ForParts(0, got[p]->numel(), [&](const nn::Parameter::Stretch& stretch) {
      if (stretch.part.padding) return;
      for (int64_t i = 0; i < stretch.where.count; ++i)
        furthest = std::max(furthest, std::abs(g[stretch.local + i] - w[stretch.where.IndexOf(i)] / c.mesh.dp));
    });
    if (!(furthest <= 1e-10 * largest)) StrAppend(&wrong, got[p]->name(), " off by ", furthest, " of ", largest, "; ");
  }
  return wrong;
}

TEST(ContextParallel, ModelsTrainAsOnOneRank) {
  const Case cases[] = {
      {.mesh = {.cp = 2}},
      {.mesh = {.cp = 3}},
      {.mesh = {.cp = 4}},
      {.mesh = {.cp = 2}, .overlap = false},
      {.mesh = {.cp = 2}, .dropout = 0.3},
      {.mesh = {.cp = 4}, .dropout = 0.3, .masks = nn::DropoutMasks::kStored},
      {.mesh = {.cp = 2}, .llama_kv_heads = 1},
      {.mesh = {.cp = 3}, .llama_kv_heads = 2},
      {.mesh = {.cp = 4}, .llama_kv_heads = 4},
      {.mesh = {.dp = 2, .cp = 2}, .dropout = 0.3},
      {.mesh = {.cp = 2, .tp = 2}},
      {.mesh = {.cp = 2, .tp = 2}, .llama_kv_heads = 1},
      {.mesh = {.cp = 3, .tp = 2}, .dropout = 0.3, .sequence_parallel = true},
      {.mesh = {.cp = 2, .tp = 2}, .llama_kv_heads = 2, .sequence_parallel = true},
      {.mesh = {.dp = 2, .cp = 2, .tp = 2},
       .dropout = 0.3,
       .masks = nn::DropoutMasks::kStored,
       .sequence_parallel = true},
      {.mesh = {.dp = 2, .cp = 2, .tp = 2, .order = {Axis::kPp, Axis::kCp, Axis::kTp, Axis::kDp}}, .llama_kv_heads = 2},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name());
    test::ExpectOnRanks(c.mesh.size(), [&](RankContext& rank) { return AgainstOneRank(rank, c); });
  }
}

// ---- What is sent ----

// Per layer, in bytes: (n - 1) K forward and (n - 1) (K + G) backward (ring_attention.h).
TEST(ContextParallel, SendsTheClosedForm) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const int64_t kv_heads : {1, 4}) {
      for (const int n : {2, 3, 4}) {
        SCOPED_TRACE(StrCat(std::string(DTypeName(dtype)), " ", kv_heads, " heads, ", n, " ranks"));
        const Case c{.mesh = {.cp = n}, .llama_kv_heads = kv_heads, .dtype = dtype};
        const int64_t elements = 2 * kBatch * (kTokens / n) * kv_heads * (kHidden / kHeads);
        const int64_t keys = elements * ElementSize(dtype), gradients = elements * 4;
        const std::string want = StrCat(kLayers * (n - 1) * (2 * keys + gradients));
        EXPECT_THAT(test::OnRanks(n,
                                  [&](RankContext& rank) {
                                    Rank(rank, c).Step();
                                    std::string sent;
                                    for (const auto& [key, entry] : rank.communication().entries()) {
                                      if (key.first == "ring")
                                        StrAppend(&sent, key.second == Communication::kBatch ? "" : "not a batch ",
                                                  entry.bytes.value());
                                    }
                                    return sent;
                                  }),
                    ::testing::Each(want));
      }
    }
  }
}

}  // namespace context_parallel_model_test
}  // namespace twofold
