#include "experiments/program/memory/activations.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "backends/replay/replay.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"

namespace twofold {
namespace {

// Takes from `saved`, layer by layer, what a forward pass of `module` saved, and counts the bytes that this frees.
class Meter {
 public:
  explicit Meter(const MemoryLedger& ledger) : ledger_(ledger) {}
  void Release(const nn::Module& module, nn::Saved& saved) {
    for (size_t i = 0; i < module.children().size(); ++i) Release(*module.children()[i].module, saved.child(i));
    Count(module.kind(), [&saved] { saved.Clear(); });
  }
  void Count(std::string_view kind, absl::FunctionRef<void()> release) {
    const Bytes before = Live();
    release();
    if (Live() == before) return;
    auto at =
        std::find_if(rows_.begin(), rows_.end(), [kind](const LayerActivations& row) { return row.kind == kind; });
    if (at == rows_.end()) at = rows_.insert(rows_.end(), {.kind = std::string(kind)});
    ++at->count, at->bytes += (before - Live()).value();
  }
  const std::vector<LayerActivations>& rows() const { return rows_; }

 private:
  Bytes Live() const { return ledger_.stats().live_by_category[static_cast<size_t>(Category::kActivations)]; }
  const MemoryLedger& ledger_;
  std::vector<LayerActivations> rows_;
};

// A part's input for one micro-batch.
Tensor NewInput(RankContext& ctx, const TrainingOptions& run, const nn::ModelPart& part) {
  const ModelInput input = run.model->input();
  const DType dtype = run.types.parameter;
  const int64_t n = run.micro_batch;
  const auto tensor = [&ctx](const Shape& shape, DType type) {
    return ctx.device().NewTensor(shape, type, Category::kActivations);
  };
  if (!part.embedding) return tensor(run.model->BoundaryBefore(part.first_block, run.Share(n)).shape, dtype);
  if (input.kind == ModelInput::kTokens) return tensor(Shape{n, input.length / run.mesh.cp}, DType::kI32);
  return tensor(
      input.kind == ModelInput::kImages ? Shape{n, input.height, input.width, input.channels} : Shape{n, input.length},
      dtype);
}

// In what a model and its run differ from those of the formula. `full`, `selective`: what of all layers is recomputed.
std::vector<std::string> DifferencesOf(const spec::Spec& spec, const TrainingOptions& run, bool full, bool selective) {
  const spec::Gpt& gpt = spec.model().gpt();
  const spec::ActivationCheckpointing& recompute = spec.train().activation_checkpointing();
  std::vector<std::string> differs;
  const spec::DType type = spec.train().precision().parameter();
  if (type != spec::BF16 && type != spec::F16)
    differs.push_back(StrCat("activations are ", spec::DType_Name(type), ", not 16 bits wide"));
  if (!full && run.layers.fp8.recipe != nn::Fp8Recipe::kOff)
    differs.push_back("linear layers keep their inputs in FP8: 1 byte an element, attention's projection in addition");
  const bool scores = !full && !selective;  // the formula includes the scores
  const bool drawn_again = spec.model().dropout_masks() == spec::Model::RECOMPUTED;
  if (scores && spec.model().attention() == spec::Model::TILED) {
    differs.push_back("tiled attention keeps no scores: leave out 5 a s / h");
  } else if (scores && gpt.attention_dropout() == 0) {
    differs.push_back("attention probabilities have no dropout: leave out 3 a s s b per layer");
  } else if (scores && drawn_again) {
    differs.push_back(
        "dropout masks of attention probabilities are drawn again, not kept: leave out a s s b per layer");
  }
  if (!full && gpt.dropout() == 0)
    differs.push_back("there is no dropout, and so no masks: leave out 2 s b h per layer");
  else if (!full && drawn_again)
    differs.push_back("dropout masks are drawn again, not kept: leave out 2 s b h per layer");
  if (!full && gpt.ffn() != 4 * gpt.hidden()) differs.push_back(StrCat("the MLP is ", gpt.ffn(), " wide, not 4 h"));
  if (!full && gpt.kv_heads() != gpt.heads()) differs.push_back("keys and values have fewer heads than queries");
  if (!full && gpt.parallel_blocks())
    differs.push_back("both branches of a block read one norm: leave out 4 s b h per layer");
  if (recompute.every() > 1) {
    const bool whole = recompute.recompute() == spec::ActivationCheckpointing::FULL;
    differs.push_back(StrCat("one block of ", recompute.every(),
                             whole ? " is recomputed, and keeps only its input"
                                   : " recomputes its attention scores: leave out 5 a s / h for it"));
  }
  differs.push_back(
      "the formula leaves out embeddings, logits, the loss, and tensors that live only during the pass of one layer");
  return differs;
}

}  // namespace

std::vector<LayerActivations> ActivationsByLayer(const spec::Spec& spec, const host::MemoryRules& rules, int rank) {
  std::vector<LayerActivations> rows;
  const TrainingOptions run = TrainingOptionsOf(spec);
  // A server of asynchronous SGD is not in the mesh, and computes no activations: those of a worker are shown.
  const ReplayedRank replayed{.rank = rank % run.mesh.size(),
                              .world_size = run.mesh.size(),
                              .kind = rules.kind,
                              .threads = static_cast<int>(spec.train().threads_per_rank())};
  const ReplayResult result = Replay(replayed, [&](RankContext& ctx) {
    nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
    DeviceMesh mesh(ctx.world(), run.mesh);
    ParallelLayers layers(mesh, run.layers);
    const std::vector<nn::ModelPart> parts = PartsOfStage(run.parts, mesh.Coordinate(Axis::kPp), run.mesh.pp);
    const Chunks chunks = MakeStage(*run.model, run.types.parameter, parts, layers, run.recomputation);
    const auto allocate = [&ctx](const std::vector<nn::Parameter*>& all) {
      for (nn::Parameter* p : all) p->set_data(ctx.device().NewTensor(p->shape(), p->dtype(), Category::kParameters));
    };
    for (const std::unique_ptr<nn::Module>& chunk : chunks) allocate(chunk->Parameters()), allocate(chunk->Buffers());
    Meter meter(ctx.device().allocator().ledger());
    for (size_t c = 0; c < chunks.size(); ++c) {
      nn::Saved saved;
      Tensor out = chunks[c]->Forward(nn, NewInput(ctx, run, parts[c]), saved);
      meter.Release(*chunks[c], saved);
      meter.Count(parts[c].head ? "logits" : "sent", [&out] { const Tensor freed = std::move(out); });
    }
    rows = meter.rows();
    return std::string();
  });
  TWOFOLD_CHECK(result.status.ok(), result.status.message());
  return rows;
}

std::optional<ActivationFormula> KorthikantiFormula(const spec::Spec& spec, int stage) {
  if (!spec.model().has_gpt()) return std::nullopt;
  const spec::Gpt& gpt = spec.model().gpt();
  const spec::ActivationCheckpointing& recompute = spec.train().activation_checkpointing();
  int64_t layers = 0;
  const TrainingOptions run = TrainingOptionsOf(spec);
  for (const nn::ModelPart& part : PartsOfStage(run.parts, stage, run.mesh.pp))
    layers += part.last_block - part.first_block;
  const int64_t tokens = gpt.sequence() / spec.parallel().cp();
  const auto s = static_cast<double>(tokens), b = static_cast<double>(spec.train().micro_batch());
  const auto h = static_cast<double>(gpt.hidden()), a = static_cast<double>(gpt.heads()),
             l = static_cast<double>(layers);
  const spec::Parallel& parallel = spec.parallel();
  const bool split = parallel.tp() > 1, along = split && parallel.sequence_parallel();
  const auto t = static_cast<double>(parallel.tp());
  ActivationFormula formula;
  const bool full = recompute.every() == 1 && recompute.recompute() == spec::ActivationCheckpointing::FULL;
  const bool selective = recompute.every() == 1 && !full;
  // Bytes of a layer per s b h, without the scores; then those of the scores.
  const double layer = full ? (along ? 2 / t : 2) : along ? 34 / t : split ? 10 + 24 / t : 34;
  const double scores_of_layer = full || selective ? 0 : 5 * a * s / (h * t);
  formula.bytes = l * s * b * h * (layer + scores_of_layer);
  if (full)
    formula.text = along ? "2 L s b h / t" : "2 L s b h";
  else if (selective)
    formula.text = along ? "34 L s b h / t" : split ? "L s b h (10 + 24 / t)" : "34 L s b h";
  else
    formula.text = along   ? "L s b h / t (34 + 5 a s / h)"
                   : split ? "L s b h (10 + 24 / t + 5 a s / (h t))"
                           : "L s b h (34 + 5 a s / h)";
  StrAppend(&formula.text, ", L = ", layers, ", s = ", tokens, ", b = ", spec.train().micro_batch(),
            ", h = ", gpt.hidden(), ", a = ", gpt.heads(), split ? StrCat(", t = ", parallel.tp()) : "");
  formula.differs = DifferencesOf(spec, run, full, selective);
  return formula;
}

}  // namespace twofold
