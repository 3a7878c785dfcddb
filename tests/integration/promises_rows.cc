#include "tests/integration/promises_rows.h"

#include <gtest/gtest.h>

#include "absl/strings/str_join.h"
#include "core/base/strings.h"

namespace twofold::promises {

const std::vector<Column>& Table() {
  static const auto& table = *new std::vector<Column>{
      /* model */ {Column::kOfModel,
                   {{"Gpt", kGpt, ""},
                    {"Llama", kLlama, ""},
                    {"Varied", kVaried, ""},
                    {"Moe", kMoe, ""},
                    {"Mlp", kMlp, ""},
                    {"Cnn", kCnn, ""},
                    {"SyncCnn", kSyncCnn, ""}}},
      /* attention */ {Column::kOfModel, {{"", kUsual, ""}, {"Unfused", kUnfused, ""}}},
      /* dropout */ {Column::kOfModel, {{"", kNone, ""}, {"Dropout", kDrawn, ""}, {"StoredMasks", kStored, ""}}},
      /* dp */ {Column::kOfParallel, {{"", 1, ""}, {"Dp2", 2, "dp: 2"}, {"Dp3", 3, "dp: 3"}, {"Dp4", 4, "dp: 4"}}},
      /* tp */
      {Column::kOfParallel,
       {{"", 1, ""},
        {"Tp2", 2, "tp: 2"},
        {"Sp2", 2, "tp: 2 sequence_parallel: true"},
        {"Tp4", 4, "tp: 4"},
        {"Sp4", 4, "tp: 4 sequence_parallel: true"}}},
      /* cp */ {Column::kOfParallel, {{"", 1, ""}, {"Cp2", 2, "cp: 2"}, {"Cp3", 3, "cp: 3"}, {"Cp4", 4, "cp: 4"}}},
      /* pp: the number is of the schedule, ranks are RanksOf() */
      {Column::kOfParallel,
       {{"", kNone, ""},
        {"GPipe2", 1, "pp: 2 schedule: GPIPE"},
        {"GPipe4", 1, "pp: 4 schedule: GPIPE"},
        {"OneFOneB2", 1, "pp: 2"},
        {"OneFOneB4", 1, "pp: 4"},
        {"Interleaved2", kInterleaved, "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
        {"Interleaved4", kDeep, "pp: 4 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
        {"ZeroBubble2", 1, "pp: 2 schedule: ZERO_BUBBLE_H1"},
        {"ZeroBubble4", 1, "pp: 4 schedule: ZERO_BUBBLE_H1"},
        {"StageLayers", 1, "pp: 2 stage_layers: [1, 3]"},
        {"ByCost", 1, "pp: 2 stage_balance: BY_COST"},
        {"EmptyEnds", 1, "pp: 4 stage_layers: [0, 2, 2, 0]"}}},
      /* ep */ {Column::kOfParallel, {{"", 1, ""}, {"Ep2", 2, "ep: 2"}, {"Ep4", 4, "ep: 4"}}},
      /* order */ {Column::kOfParallel, {{"", kUsual, ""}, {"OtherOrder", 1, "order: \"tp dp pp cp\""}}},
      /* messages of a pipeline */
      {Column::kOfParallel, {{"", kUsual, ""}, {"ScatterGather", 1, "scatter_gather_messages: true"}}},
      /* sharding */
      {Column::kOfParallel,
       {{"", kNoShard, "bucket_mib: 0.005"},
        {"Zero1", kZero1, "sharding: ZERO_1"},
        {"Zero2", kZero2, "sharding: ZERO_2"},
        {"Zero3", kZero3, "sharding: ZERO_3"},
        {"HybridShard", kHybrid, "sharding: HYBRID_SHARD shard_group: 2"}}},
      /* gathering */
      {Column::kOfParallel,
       {{"", kUsual, ""},
        {"Shallow", kAhead, "prefetch: 0 backward_prefetch: BACKWARD_NONE"},
        {"Deep", kAhead, "prefetch: 3"},
        {"Limited", kAhead, "prefetch: 3 prefetch_limit_mib: 0.02"},
        {"Post", kAhead, "backward_prefetch: BACKWARD_POST"},
        {"NotResharded", kKept, "reshard_after_forward: false"}}},
      /* reduction */
      {Column::kOfParallel,
       {{"", kUsual, ""},
        {"ReduceEvery", kEvery, "reduce_every_micro_batch: true"},
        {"ReduceOnce", kOnce, "reduce_every_micro_batch: false"}}},
      /* units */
      {Column::kOfParallel,
       {{"", kUsual, ""},
        {"OneUnit", 1, "wrap { min_parameters: 1000000 }"},
        {"SmallUnits", 2, "wrap { min_parameters: 500 }"},
        {"UnitsByHand", kUnitsByHand, "wrap { paths { path: \"blocks.2\" path: \"blocks.0.mlp\" } }"},
        {"NestedUnits", kNested,
         "wrap { paths { path: \"blocks.1\" path: \"blocks.1.mlp\" path: \"blocks.1.attention.qkv\" } }"}}},
      /* overlap */ {Column::kOfParallel, {{"", kUsual, ""}, {"NoOverlap", 1, "overlap: false"}}},
      /* precision */
      {Column::kOfTrain,
       {{"", kF32, ""},
        {"Bf16", kBf16, "precision { parameter: BF16 }"},
        {"Bf16Mixed", kBf16, "precision { parameter: BF16 reduce: F32 }"},
        {"Bf16Wire", kBf16, "precision { parameter: BF16 gradient: F32 reduce: BF16 buffer: F64 }"},
        {"Stochastic", kBf16, "precision { parameter: BF16 reduce: F32 stochastic_rounding: true }"},
        {"F16", kF16, "precision { parameter: F16 loss_scale { dynamic { initial: 1024 } } }"},
        {"F16Mixed", kF16, "precision { parameter: F16 gradient: F32 reduce: F16 loss_scale { fixed: 128 } }"},
        // kFp8Choices, which have rows of their own
        {"Fp8", kBf16, "precision { parameter: BF16 reduce: F32 matmul: FP8 }"},
        {"Fp8Block", kBf16, "precision { parameter: BF16 reduce: F32 matmul: FP8 fp8 { scaling: BLOCK } }"}}},
      /* recomputation */
      {Column::kOfTrain,
       {{"", kNone, ""},
        {"Recomputed", 1, "activation_checkpointing {}"},
        {"EarlyStop", 1, "activation_checkpointing { early_stop: true }"},
        {"EverySecond", 2, "activation_checkpointing { every: 2 }"},
        {"Selective", kSelective, "activation_checkpointing { recompute: SELECTIVE }"}}},
      /* micro-batches a step and replica */ {Column::kOfTrain, {{"", 1, ""}, {"Parts2", 2, ""}, {"Parts4", 4, ""}}},
      /* clipping */ {Column::kOfTrain, {{"", kNone, ""}, {"Clipped", 1, "clip_norm: 0.5"}}},
      /* optimizer */
      {Column::kOfTrain,
       {{"", kUsual, "optimizer { adamw { lr: 1e-3 weight_decay: 0.1 } }"},
        {"Sgd", 1, "optimizer { sgd { lr: 0.1 momentum: 0.9 } }"}}},
      /* offload */
      {Column::kOfParallel,
       {{"", kNone, ""},
        {"OptimizerOffloaded", kOptimizerAlone, "offload: OFFLOAD_OPTIMIZER"},
        {"AllOffloaded", kAllOfIt, "offload: OFFLOAD_ALL"}}},
      /* validation */
      {Column::kOfTrain, {{"", kNone, ""}, {"Validated", 1, "validation { every_steps: 3 samples: 7 batch: 2 }"}}},
  };
  return table;
}

namespace {

bool ModelFits(const Spec& s) {
  const bool image = s.HasImages(), linear = s.Is(kModel, kMlp), rows = image || linear;
  if (rows && (s.Unusual(kCp) || s.Has(kTp, "sequence") || s.Unusual(kAttention))) return false;  // no sequences
  if (rows && s.Has(kPp, "[0,")) return false;  // only a transformer's ends do without a layer
  if (image && s.Unusual(kTp)) return false;
  if (linear && s.Unusual(kRecompute)) return false;
  // Messages within a pair of layers are split already.
  if (linear && s.Unusual(kMessages) && (s.stages() == 4 || s.Interleaves() || s.Has(kPp, "1, 3"))) return false;
  if (s.Unusual(kDropout) && (image || s.Is(kModel, kLlama) || s.Is(kModel, kVaried) || s.Is(kModel, kMoe)))
    return false;  // they have none
  if (s.Has(kPrecision, "FP8") && (rows || s.Is(kModel, kMoe))) return false;
  if (s.Unusual(kEp) && s.IsNot(kModel, kMoe)) return false;
  if (s.Is(kRecompute, kSelective) && (rows || s.Is(kAttention, kUsual))) return false;
  if (s.Is(kUnits, kUnitsByHand) && (rows || s.Is(kModel, kMoe))) return false;
  return !(s.Is(kUnits, kNested) && s.IsNot(kModel, kGpt));
}

bool MeshFits(const Spec& s) {
  if (s.Ranks() > 8) return false;
  if (s.Unusual(kCp) && s.Unusual(kAttention)) return false;  // a ring has no rows of scores
  if (s.Has(kTp, "sequence") && s.Unusual(kCp) && 24 % (2 * s.Number(kCp) * s.Number(kTp)) != 0) return false;
  if (!s.open(kDp) && !s.open(kEp) && s.Number(kDp) % s.Number(kEp) != 0) return false;
  if (s.Unusual(kMessages) && (s.Is(kTp, 1) || s.Has(kTp, "sequence") || s.Is(kPp, kNone))) return false;
  if (s.Interleaves() && !s.open(kParts) && s.Number(kParts) % s.stages() != 0) return false;
  // Another order than the usual one, of axes that there are.
  const bool settled = !s.open(kDp) && !s.open(kTp) && !s.open(kCp) && !s.open(kPp);
  const bool several = s.Number(kDp) > 1 && s.stages() > 1, beside = s.Number(kTp) > 1 && s.Ranks() > s.Number(kTp);
  return !(s.Unusual(kOrder) && settled && !several && !beside);
}

bool ShardingFits(const Spec& s) {
  const bool whole_parameters = s.Is(kSharding, kNoShard) || s.Is(kSharding, kZero1) || s.Is(kSharding, kZero2);
  if (whole_parameters && (s.Unusual(kGathering) || s.Is(kOffload, kAllOfIt))) return false;
  if (s.Is(kSharding, kNoShard) && s.Unusual(kUnits)) return false;
  if (s.Is(kSharding, kHybrid) && (s.Is(kDp, 1) || s.Is(kDp, 3) || s.Unusual(kEp))) return false;
  if (s.Is(kSharding, kZero1) && s.Is(kReduction, kEvery)) return false;
  if (s.Interleaves() && s.Is(kSharding, kNoShard) && s.Is(kReduction, kEvery)) return false;
  return !(s.Unusual(kOverlap) && s.Is(kGathering, kAhead));
}

// Vocabularies that no number of ranks divides, fewer heads of keys and values than there may be ranks along tp, and
// room for all tokens with their experts: what is left out otherwise depends on who else is in the micro-batch.
std::string ModelText(const Spec& s, int64_t layers) {
  const std::string sizes = StrCat("layers: ", layers, " hidden: 16 heads: 4 vocab: 259 sequence: 24 "),
                    llama = sizes + "kv_heads: 2 ffn: 24 ";
  const bool drops = s.Unusual(kDropout);
  const auto of_kind = [&]() -> std::string {
    switch (s.Number(kModel)) {
      case kGpt:
        return StrCat("gpt { ", sizes, drops ? "dropout: 0.1 " : "",
                      drops && s.Unusual(kAttention) ? "attention_dropout: 0.2 " : "", "}");
      case kLlama: return StrCat("llama { ", llama, "}");
      case kVaried:
        return StrCat(
            "llama { ", llama,
            "head_dim: 6 qkv_bias: true tied_embeddings: true rope_scaling { llama3 { original_sequence: 4 } } }");
      case kMoe: return StrCat("moe { llama { ", llama, "} experts: 4 top_k: 2 capacity_factor: 2 every: 2 }");
      case kMlp:
        return StrCat("mlp { inputs: 8 hidden: [24, 16, 20, 12", layers > 4 ? ", 12, 20, 16, 24" : "", "] classes: 5 ",
                      drops ? "dropout: 0.3 " : "", "}");
      case kCnn: return StrCat("cnn { height: 8 width: 8 widths: [4, 6] blocks: [1, ", layers - 1, "] classes: 5 }");
      default:
        return StrCat("cnn { height: 8 width: 9 channels: 1 widths: [4, 6] blocks: [1, ", layers - 1,
                      "] classes: 5 stem: IMAGENET sync_batch_norm: true }");
    }
  };
  return StrCat("model { ", of_kind(), s.Unusual(kAttention) ? " attention: UNFUSED" : "",
                s.Is(kDropout, kStored) ? " dropout_masks: STORED" : "", " }\n");
}

}  // namespace

bool Fits(const Row& row) {
  const Spec s(row);
  return ModelFits(s) && MeshFits(s) && ShardingFits(s);
}

test::Factors AllFactors() {
  test::Factors factors{.choices = {}, .fits = Fits};
  for (const Column& column : Table()) factors.choices.push_back(static_cast<int>(column.choices.size()));
  return factors;
}

test::Factors TheFactors() {
  test::Factors factors = AllFactors();
  factors.choices[kPrecision] -= kFp8Choices;
  return factors;
}

Row RowOf(const Chosen& chosen) {
  Row row(kFactors, 0);
  for (const auto& [factor, choice] : chosen) row[factor] = choice;
  EXPECT_TRUE(Fits(row)) << Name(row);
  return row;
}

std::string Name(const Row& row) {
  std::vector<std::string> names;
  for (size_t f = 0; f < kFactors; ++f) {
    const char* name = Spec(row).of(static_cast<Factor>(f)).name;
    if (*name != 0) names.push_back(name);
  }
  return absl::StrJoin(names, "_");
}

Length LengthOf(const Row& row, int steps) {
  const Spec s(row);
  return {.steps = steps, .layers = s.layers(), .samples = kMicroBatch * s.Number(kDp) * s.Number(kParts)};
}

std::string Text(const Row& row, const Length& length, const std::string& optimizer) {
  const Spec s(row);
  std::string train = optimizer, parallel;
  for (size_t f = 0; f < kFactors; ++f) {
    if (f == kOptimizer && !optimizer.empty()) continue;
    if (Table()[f].place == Column::kOfModel) continue;
    StrAppend(&(Table()[f].place == Column::kOfTrain ? train : parallel), s.of(static_cast<Factor>(f)).text, " ");
  }
  return StrCat(ModelText(s, length.layers), "train { steps: ", length.steps,
                " warmup_steps: 0 micro_batch: ", kMicroBatch, " global_batch: ", length.samples, " ", train,
                "}\nparallel { ", parallel, "}\n");
}

Row OneProcess(const Row& row) {
  const Spec s(row);
  Row one(kFactors, 0);
  for (const Factor f : {kModel, kAttention, kDropout, kPrecision, kClip, kOptimizer, kValidation}) one[f] = row[f];
  const bool of_replicas = s.Unusual(kDropout) || s.HasImages();
  for (const Factor f : {kDp, kParts}) one[f] = of_replicas ? row[f] : 0;
  return one;
}

}  // namespace twofold::promises
