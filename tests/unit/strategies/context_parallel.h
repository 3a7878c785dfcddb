// A small model whose sequences are divided among ranks, and what a rank does with it in a step.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/run/rank_context.h"
#include "strategies/context_parallel/zig_zag.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/model_parallel/layers.h"

namespace twofold {

constexpr int64_t kBatch = 2, kTokens = 24, kHidden = 16, kHeads = 4, kVocab = 13, kLayers = 2;

struct Case {
  MeshShape mesh;
  int64_t llama_kv_heads = 0;  // 0: a GPT
  double dropout = 0;
  nn::DropoutMasks masks = nn::DropoutMasks::kRecomputed;
  bool sequence_parallel = false, overlap = true;
  DType dtype = DType::kF64;
  std::string name() const {
    return StrCat("cp ", mesh.cp, " tp ", mesh.tp, " dp ", mesh.dp, " kv ", llama_kv_heads,
                  dropout > 0 ? " dropout" : "", masks == nn::DropoutMasks::kStored ? " stored" : "",
                  sequence_parallel ? " sp" : "");
  }
};

inline std::unique_ptr<nn::Module> MakeModel(const Case& c, nn::Layers& layers) {
  std::unique_ptr<nn::Module> model;
  if (c.llama_kv_heads > 0) {
    model = std::make_unique<nn::LlamaModel>(nn::LlamaConfig{.layers = kLayers,
                                                             .hidden = kHidden,
                                                             .heads = kHeads,
                                                             .vocab = kVocab,
                                                             .kv_heads = c.llama_kv_heads,
                                                             .ffn = 24,
                                                             .sequence = kTokens,
                                                             .dtype = c.dtype},
                                             nn::ModelPart::Whole(kLayers), layers);
  } else {
    model = std::make_unique<nn::GptModel>(nn::GptConfig{.layers = kLayers,
                                                         .hidden = kHidden,
                                                         .heads = kHeads,
                                                         .vocab = kVocab,
                                                         .sequence = kTokens,
                                                         .dropout = c.dropout,
                                                         .masks = c.masks,
                                                         .dtype = c.dtype},
                                           nn::ModelPart::Whole(kLayers), layers);
  }
  model->Finalize();
  return model;
}

// A replica's samples [b, t], or a rank's tokens of them; the next ones are the targets.
inline Tensor Ids(nn::Context& ctx, int64_t replica, int64_t ahead, const ZigZag& place) {
  const int64_t tokens = kTokens / place.ranks;
  const ops::IndexMap positions = place.Positions(tokens);
  Tensor ids = ctx.Activation(Shape{kBatch, tokens}, DType::kI32);
  ctx.device.Upload(ids, [&](std::span<std::byte> out) {
    for (int64_t row = 0; row < kBatch * tokens; ++row) {
      const int64_t i = (replica * kBatch + row / tokens) * kTokens + positions.Of(row) + ahead;
      const auto id = static_cast<int32_t>((7 * i + i * i / 5 + 3) % kVocab);
      std::memcpy(out.data() + 4 * row, &id, 4);
    }
  });
  return ids;
}

// Forward and backward of a replica's samples. Returns the mean of this rank's losses.
inline Tensor Pass(nn::Context& ctx, nn::Module& model, nn::Loss& loss, int64_t replica, const ZigZag& place) {
  ctx.micro_batch = replica;
  nn::Saved saved, loss_saved;
  Tensor logits = model.Forward(ctx, Ids(ctx, replica, 0, place), saved);
  const Tensor mean = loss.Forward(ctx, std::exchange(logits, Tensor()), Ids(ctx, replica, 1, place), loss_saved);
  model.Backward(ctx, loss.Backward(ctx, loss_saved, 1), saved);
  return mean;
}

// Everything of one rank of the mesh.
struct Rank {
  Rank(RankContext& rank, const Case& c)
      : ctx{.device = rank.device(), .stream = rank.device().compute(), .seed = 5},
        mesh(rank.world(), c.mesh),
        layers(mesh, {.sequence_parallel = c.sequence_parallel, .overlap = c.overlap, .kv_heads = c.llama_kv_heads}),
        loss(layers.MakeLoss(kVocab)),
        layout(ctx, OneChunk(MakeModel(c, layers)),
               {mesh.Group(MeshGroup::kReplicas),
                {{kTensorTag, &layers.tensor_sums()}, {kKeyValueTag, layers.key_value_sums()}}},
               DdpOptions{.gradient = c.dtype}),
        place{.rank = mesh.Coordinate(Axis::kCp), .ranks = c.mesh.cp} {}

  // The mean over all tokens; gradients are complete after it.
  Tensor Step() {
    layout.BeginStep();
    layout.BeginMicroBatch(true);
    Tensor mean = Pass(ctx, *layout.chunks()[0], *loss, mesh.Coordinate(Axis::kDp), place);
    layout.FinishGradients();
    mesh.Group(MeshGroup::kReplicas).AllReduce(mean, ReduceOp::kAvg).WaitOn(ctx.stream);
    return mean;
  }

  nn::Context ctx;
  DeviceMesh mesh;
  ParallelLayers layers;
  std::unique_ptr<nn::Loss> loss;
  DistributedDataParallel layout;
  const ZigZag place;
};

inline double First(const Tensor& t) { return t.dtype() == DType::kF64 ? t.data<double>()[0] : t.data<float>()[0]; }

}  // namespace twofold
