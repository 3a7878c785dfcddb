#include "tests/unit/strategies/split_models.h"

#include <memory>

#include "core/nn/gpt.h"
#include "core/nn/llama.h"
#include "core/nn/recompute.h"
#include "core/nn/rows.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/data_parallel/sharded.h"
#include "strategies/model_parallel/gradient_norm.h"
#include "strategies/model_parallel/layers.h"
#include "tests/unit/strategies/on_ranks.h"

namespace twofold::split_models {
namespace {

std::unique_ptr<nn::Module> MakeModel(const Case& c, nn::Layers& layers) {
  if (c.llama) {
    return std::make_unique<nn::LlamaModel>(nn::LlamaConfig{.layers = c.layers,
                                                            .hidden = kHidden,
                                                            .heads = kHeads,
                                                            .vocab = kVocab,
                                                            .kv_heads = c.kv_heads,
                                                            .ffn = 24,
                                                            .sequence = kTokens,
                                                            .qkv_bias = c.bias,
                                                            .tied = c.tied,
                                                            .unfused_attention = c.unfused,
                                                            .dtype = c.dtype},
                                            nn::ModelPart::Whole(c.layers), layers);
  }
  return std::make_unique<nn::GptModel>(
      nn::GptConfig{.layers = c.layers,
                    .hidden = kHidden,
                    .heads = kHeads,
                    .vocab = kVocab,
                    .sequence = kTokens,
                    .dropout = c.dropout,
                    .attention_dropout = c.unfused ? c.dropout : 0,
                    .unfused_attention = c.unfused,
                    .masks = c.masks,
                    .positions = c.variant ? nn::GptConfig::kRotary : nn::GptConfig::kLearned,
                    .kv_heads = c.variant ? c.kv_heads : 0,
                    .squared_relu = c.variant,
                    .parallel_blocks = c.variant,
                    .layer_norm_1p = c.variant,
                    .embedding_norm = c.variant,
                    .biases = !c.variant,
                    .tied = c.tied,
                    .dtype = c.dtype},
      nn::ModelPart::Whole(c.layers), layers);
}

double ValueAt(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::kBF16) return static_cast<float>(t.data<BF16>()[i]);
  return t.dtype() == DType::kF64 ? t.data<double>()[i] : t.data<float>()[i];
}
void SetValue(const Tensor& t, int64_t i, double v) {
  if (t.dtype() == DType::kF64)
    t.data<double>()[i] = v;
  else if (t.dtype() == DType::kBF16)
    t.data<BF16>()[i] = BF16(static_cast<float>(v));
  else
    t.data<float>()[i] = static_cast<float>(v);
}

class Rank {
 public:
  Rank(RankContext& ctx, const Case& c, int tp)
      : c_(c),
        rank_(ctx),
        nn_{.device = ctx.device(), .stream = ctx.device().compute(), .seed = 5},
        mesh_(ctx.world(), {.dp = ctx.world_size() / tp, .tp = tp}),
        layers_(mesh_, {.sequence_parallel = c.sequence_parallel,
                        .overlap = c.overlap,
                        .tensor_backward_overlap = c.backward_overlap,
                        .tensor_overlap = c.rings,
                        .kv_heads = c.llama || c.variant ? c.kv_heads : 0}) {
    nn::Layers& layers = tp > 1 ? static_cast<nn::Layers&>(layers_) : nn::OneRank();
    loss_ = layers.MakeLoss(kVocab);
    std::unique_ptr<nn::Module> model = MakeModel(c, layers);
    model->Finalize();
    for (size_t i = 0; c.recompute && i < model->children().size(); ++i) {
      if (model->children()[i].module->kind() != "transformer_block") continue;
      model->WrapChild(
          i, [](std::unique_ptr<nn::Module> block) { return std::make_unique<nn::Recompute>(std::move(block)); });
    }
    const DType gradient = ops::AccumulationType(c.dtype);
    const ReplicaGroups replicas(mesh_.Group(MeshGroup::kReplicas),
                                 {{kTensorTag, &layers_.tensor_sums()}, {kKeyValueTag, layers_.key_value_sums()}});
    if (c.sharded) {
      layout_ = std::make_unique<ShardedDataParallel>(nn_, OneChunk(std::move(model)), replicas,
                                                      ShardedOptions{.stage = ShardedOptions::kGradients,
                                                                     .wrap = WrapByKind("transformer_block"),
                                                                     .gradient = gradient,
                                                                     .reduce = gradient});
    } else {
      layout_ = std::make_unique<DistributedDataParallel>(nn_, OneChunk(std::move(model)), replicas,
                                                          DdpOptions{.gradient = gradient});
    }
    if (!c.sharded) Perturb();
  }

  Outcome Step() {
    Outcome out;
    GradientNorm norm(nn_, *layout_, mesh_.Group(MeshGroup::kModel));
    const auto before = Messages();
    const Bytes live = Live();
    layout_->BeginStep();
    layout_->BeginMicroBatch(true);
    Pass(out);
    out.left = Live() - live;
    out.peak = rank_.memory().peak_by_category[static_cast<size_t>(Category::kActivations)];
    layout_->FinishGradients();
    for (const auto& [key, now] : Messages()) {
      if (key.first == layers_.tensor_sums().name() &&
          layers_.tensor_sums().name() != mesh_.Group(MeshGroup::kTp).name())
        continue;  // sums of gradients
      const auto was = before.find(key);
      const auto sent =
          was == before.end() ? now : std::make_pair(now.first - was->second.first, now.second - was->second.second);
      if (sent.first > 0) out.messages[key] = sent;
    }
    const Tensor squares = norm.Squared();
    out.squared_norm = ValueAt(squares, 0);
    Collect(out);
    return out;
  }

 private:
  // Biases and norms, too, must matter: every element gets a value by its place in the whole.
  void Perturb() {
    for (nn::Parameter* p : layout_->Parameters()) {
      const bool gain = p->name().find("norm") != std::string::npos && p->name().find("weight") != std::string::npos;
      p->ForParts(0, p->numel(), [&](const nn::Parameter::Stretch& stretch) {
        if (stretch.part.padding) return;
        for (int64_t i = 0; i < stretch.where.count; ++i) {
          const auto index = static_cast<uint64_t>(stretch.where.IndexOf(i));
          SetValue(p->data(), stretch.local + i, (gain ? 1 : 0) + 0.3 * NormalAt(MakeKey(7, p->name()), index));
        }
      });
    }
  }

  void Pass(Outcome& out) {
    const int64_t replica = mesh_.Coordinate(Axis::kDp);
    Tensor ids = nn_.Activation(Shape{kBatch, kTokens}, DType::kI32),
           targets = nn_.Activation(Shape{kBatch, kTokens}, DType::kI32);
    for (int64_t i = 0; i < kBatch * kTokens; ++i) {
      ids.data<int32_t>()[i] = static_cast<int32_t>((7 * i + 3 + i * i + 5 * replica) % kVocab);
      targets.data<int32_t>()[i] = static_cast<int32_t>((5 * i + 1 + 2 * replica) % kVocab);
    }
    nn_.micro_batch = replica;
    nn::Saved saved, saved_loss;
    Tensor logits = layout_->chunks()[0]->Forward(nn_, std::exchange(ids, Tensor()), saved);
    CollectLogits(logits, out);
    out.correct = Count(logits, targets);
    const Tensor losses = loss_->Losses(nn_, logits, targets);
    for (int64_t i = 0; i < losses.numel(); ++i) out.losses += ValueAt(losses, i) * static_cast<double>(i + 1);
    const Tensor loss =
        loss_->Forward(nn_, std::exchange(logits, Tensor()), std::exchange(targets, Tensor()), saved_loss);
    out.loss = ValueAt(loss, 0);
    Tensor dlogits = loss_->Backward(nn_, saved_loss, 1);
    if (c_.later) {
      layout_->chunks()[0]->BackwardInput(nn_, std::move(dlogits), saved);
      layout_->chunks()[0]->BackwardWeights(nn_, saved);
    } else {
      layout_->chunks()[0]->Backward(nn_, std::move(dlogits), saved);
    }
    out.kept = !saved.empty() || !saved_loss.empty();
  }

  double Count(const Tensor& logits, const Tensor& targets) {
    const Tensor total = nn_.Activation(Shape{1}, ops::AccumulationType(c_.dtype));
    SetValue(total, 0, 2);  // it is added to
    loss_->CountCorrect(nn_, logits, targets, total);
    return ValueAt(total, 0);
  }

  // The padding is left out.
  void CollectLogits(const Tensor& logits, Outcome& out) {
    const ProcessGroup& group = mesh_.Group(MeshGroup::kTp);
    const int64_t columns = logits.dim(-1), first = group.rank() * columns;
    for (int64_t i = 0; i < logits.numel(); ++i) {
      const int64_t column = first + i % columns;
      if (column < kVocab) out.logits[i / columns * kVocab + column] = ValueAt(logits, i);
    }
  }

  void Collect(Outcome& out) {
    for (const optim::Slice& slice : layout_->Slices()) {
      optim::ForStretches(slice.parts, [&](int64_t at, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
        if (stretch.part.padding) return;
        for (int64_t i = 0; i < stretch.where.count; ++i)
          out.gradients[p.name()][stretch.where.IndexOf(i)] = {ValueAt(slice.gradient, at + i), stretch.part.owned};
      });
    }
  }

  std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> Messages() const {
    std::map<std::pair<std::string, std::string>, std::pair<int64_t, int64_t>> messages;
    for (const auto& [key, entry] : rank_.communication().entries()) {
      messages[{key.first, std::string(KindName(key.second))}] = {entry.count, entry.bytes.value()};
    }
    return messages;
  }
  Bytes Live() const { return rank_.memory().live_by_category[static_cast<size_t>(Category::kActivations)]; }

  const Case c_;
  RankContext& rank_;
  nn::Context nn_;
  DeviceMesh mesh_;
  ParallelLayers layers_;
  std::unique_ptr<nn::Loss> loss_;
  std::unique_ptr<ParameterLayout> layout_;
};

}  // namespace

std::vector<Outcome> Train(const Case& c, int ranks, int tp) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  test::ExpectOnRanks(ranks, [&](RankContext& ctx) -> std::string {
    outcomes[static_cast<size_t>(ctx.rank())] = Rank(ctx, c, tp).Step();
    return "";
  });
  return outcomes;
}

}  // namespace twofold::split_models
