#include "tests/unit/plan/drawn_specs.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::plan::test {
namespace {

// Texts of specs, of which one is merged into a drawn spec, or none.
using Row = std::vector<std::string_view>;

const std::vector<Row>& Rows() {
  static const std::vector<Row> rows = {
      // The model
      {"model { gpt { ffn: 384 } }", "model { llama { ffn: 352 } }"},
      {"model { gpt { dropout: 0.1 } }", "model { mlp { dropout: 0.2 } }"},
      {"model { gpt { tied_embeddings: false } }", "model { llama { tied_embeddings: true } }",
       "model { moe { llama { tied_embeddings: true } } }"},
      {"model { gpt { attention_dropout: 0.1 } attention: UNFUSED }", "model { attention: UNFUSED }"},
      {"model { gpt { positions: NONE } }", "model { gpt { positions: ROTARY rope_theta: 500000 } }"},
      {"model { gpt { activation: SQUARED_RELU } }"},
      {"model { gpt { parallel_blocks: true } }"},
      {"model { gpt { layer_norm_1p: true } }"},
      {"model { gpt { embedding_norm: true } }"},
      {"model { gpt { biases: false } }"},
      {"model { gpt { kv_heads: 2 } }", "model { llama { kv_heads: 2 } }", "model { llama { kv_heads: 4 } }",
       "model { moe { llama { kv_heads: 2 } } }"},
      {"model { llama { head_dim: 64 } }", "model { moe { llama { head_dim: 32 } } }"},
      {"model { llama { rope_theta: 500000 norm_eps: 1e-6 } }"},
      {"model { llama { qkv_bias: true } }", "model { moe { llama { qkv_bias: true } } }"},
      {"model { llama { rope_scaling { linear { factor: 2 } } } }",
       "model { llama { rope_scaling { llama3 { factor: 4 low_freq_factor: 1 high_freq_factor: 4 original_sequence: "
       "128 } } } }"},
      {"model { llama { sliding_window: 4096 } }"},
      {"model { cnn { stem: IMAGENET } }"},
      {"model { cnn { sync_batch_norm: true norm_momentum: 0.2 norm_eps: 1e-4 } }"},
      {"model { moe { top_k: 1 } }", "model { moe { top_k: 4 } }"},
      {"model { moe { capacity_factor: 1 } }", "model { moe { capacity_factor: 4 } }",
       "model { moe { dropless: true } }",
       "model { moe { dropless: true routing { zipf { exponent: 0.8 seed: 3 } } } }",
       "model { moe { dropless: true routing { balanced {} } } }"},
      {"model { moe { every: 2 } }"},
      {"model { moe { aux_loss: 0.01 } }"},
      {"model { dropout_masks: STORED }"},
      // Training
      {"train { optimizer { sgd { lr: 0.1 } } }",
       "train { optimizer { sgd { lr: 0.1 momentum: 0.9 weight_decay: 0.01 nesterov: true } } }",
       "train { optimizer { adam { lr: 1e-4 beta1: 0.8 beta2: 0.99 eps: 1e-7 weight_decay: 0.1 } } }",
       "train { optimizer { adamw { lr: 1e-4 beta1: 0.8 beta2: 0.99 eps: 1e-7 weight_decay: 0.1 } } }",
       "train { steps: 4 optimizer { one_bit_adam { lr: 1e-4 beta1: 0.8 beta2: 0.99 eps: 1e-7 weight_decay: 0.1 "
       "freeze_step: 2 } } }"},
      {"train { precision { parameter: BF16 } }", "train { precision { parameter: F16 } }",
       "train { precision { parameter: F64 } }", "train { precision { parameter: BF16 stochastic_rounding: true } }",
       "train { precision { parameter: BF16 matmul: FP8 } }",
       "train { precision { parameter: BF16 matmul: FP8 fp8 { scaling: BLOCK } } }",
       "train { precision { parameter: BF16 matmul: FP8 fp8 { keep_weights: true } } }"},
      {"train { precision { parameter: BF16 reduce: F32 } }",
       "train { precision { parameter: BF16 reduce: BF16 gradient: F32 } }",
       "train { precision { parameter: F32 reduce: BF16 } }", "train { precision { parameter: F16 reduce: F16 } }"},
      {"train { precision { loss: F32 } }"},
      {"train { precision { buffer: F64 } }"},
      {"train { precision { parameter: F16 loss_scale { dynamic { initial: 1024 growth: 4 backoff: 0.25 "
       "growth_interval: 10 minimum: 2 } } } }",
       "train { precision { parameter: F16 loss_scale { fixed: 128 } } }"},
      {"train { activation_checkpointing { every: 1 } }", "train { activation_checkpointing { every: 2 } }",
       "train { activation_checkpointing { every: 1 early_stop: true } }",
       "train { activation_checkpointing { recompute: SELECTIVE } } model { attention: UNFUSED }"},
      {"train { clip_norm: 1 }"},
      {"train { schedule { constant {} warmup_steps: 2 } }",
       "train { schedule { cosine { decay_steps: 9 min_lr_ratio: 0.2 } } }",
       "train { schedule { linear { decay_steps: 9 min_lr_ratio: 0.2 } } }"},
      {"train { seed: 7 }"},
      {"train { threads_per_rank: 2 }"},
      {"train { steps: 3 warmup_steps: 1 shuffle: false set_epoch: false report_loss_every: 2 }",
       "train { epochs: 1 }"},
      {"data { synthetic { samples: 512 } }"},
      // Parallelism
      {"parallel { sharding: NO_SHARD bucket_mib: 0.25 }", "parallel { sharding: ZERO_1 }",
       "parallel { sharding: ZERO_2 }", "parallel { sharding: ZERO_3 }",
       "parallel { sharding: HYBRID_SHARD shard_group: 2 }", "parallel { sharding: HYBRID_SHARD shard_group: 4 }"},
      {"parallel { schedule: GPIPE }", "parallel { schedule: ONE_F_ONE_B }", "parallel { schedule: ZERO_BUBBLE_H1 }",
       "parallel { schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2 }"},
      {"parallel { overlap: false }"},
      {"parallel { sharding: ZERO_3 wrap { module: \"block\" } }",
       "parallel { sharding: ZERO_3 wrap { min_parameters: 20000 } }",
       "parallel { sharding: ZERO_2 wrap { paths { path: \"blocks.0\" path: \"blocks.1\" } } }"},
      {"parallel { sharding: ZERO_3 prefetch: 0 }", "parallel { sharding: ZERO_3 prefetch: 3 }",
       "parallel { sharding: ZERO_3 prefetch: 3 prefetch_limit_mib: 0.5 }"},
      {"parallel { sharding: ZERO_3 reshard_after_forward: false }"},
      {"parallel { sharding: ZERO_3 backward_prefetch: BACKWARD_POST }",
       "parallel { sharding: ZERO_3 backward_prefetch: BACKWARD_NONE }"},
      {"parallel { reduce_every_micro_batch: true }", "parallel { reduce_every_micro_batch: false }"},
      {"parallel { offload: OFFLOAD_OPTIMIZER }", "parallel { sharding: ZERO_3 offload: OFFLOAD_ALL }",
       "parallel { offload: NO_OFFLOAD }"},
      {"parallel { sequence_parallel: true }", "parallel { sequence_parallel: true tp_overlap: true }",
       "parallel { overlap: false tp_backward_overlap: true }"},
      {"parallel { order: \"dp pp cp tp\" }", "parallel { order: \"tp cp dp pp\" }",
       "parallel { order: \"pp tp cp dp\" }"},
      {"parallel { pp: 2 stage_layers: [1, 3] }", "parallel { pp: 2 stage_layers: [0, 4] }",
       "parallel { stage_balance: BY_COST }"},
      {"parallel { scatter_gather_messages: true }"},
      {"train { steps: 3 } parallel { compression { top_k { density: 0.1 warmup_steps: 1 clip_norm: 1 "
       "momentum_correction: true } } }",
       "train { steps: 3 } parallel { compression { random_k { density: 0.2 } error_feedback: false } }",
       "train { steps: 4 } parallel { compression { power_sgd { rank: 2 start_step: 2 min_compression: 1.5 } } }",
       "train { steps: 3 } parallel { compression { one_bit {} } }",
       "train { steps: 3 } parallel { compression { quantize { bits: 4 block: 64 stochastic: true } } }"},
      {"parallel { sharding: ZERO_3 zero_plus_plus { quantized_weights: true } }",
       "parallel { sharding: ZERO_3 zero_plus_plus { secondary_shard: 2 } }",
       "parallel { sharding: ZERO_3 zero_plus_plus { quantized_weights: true secondary_shard: 2 quantized_gradients: "
       "true } }"},
      // The fabric
      {"fabric { simulated { folding: OFF } }", "fabric { simulated { folding: ON } }",
       "fabric { simulated { folding_error: 0.01 } }"},
      {"fabric { simulated { algorithm: \"ring\" } }", "fabric { simulated { algorithm: \"tree\" } }",
       "fabric { simulated { protocol: \"LL128\" } }", "fabric { simulated { protocol: \"Simple\" } }"},
      {"fabric { simulated { routing: \"deterministic\" } }", "fabric { simulated { routing: \"ecmp\" } }",
       "fabric { simulated { routing: \"spray\" } }", "fabric { simulated { routing: \"valiant\" } }"},
      {"fabric { simulated { placement { policy: RANDOM seed: 5 } } }",
       "fabric { simulated { placement { policy: BY_GROUP } } }",
       "fabric { simulated { placement { policy: HOSTS hosts: [3, 1, 0, 2] } } }",
       "fabric { simulated { placement { ranks_per_node: 2 } } }"},
      {"fabric { simulated { network { background: 0.5 } } }",
       "fabric { simulated { network { jitter: 0.1 seed: 3 } } }",
       "fabric { simulated { network { faults { link: \"*\" bandwidth: 0.5 latency_us: 3 } } } }",
       "fabric { simulated { network { faults { link: \"*\" failed: false latency_us: 1 } } } }"},
      {"fabric { simulated { stragglers { rank: 0 factor: 1.5 } } }",
       "fabric { simulated { stragglers { rank: 1 factor: 0.5 } } }"},
      {"fabric { simulated { sites { count: 2 between_gbps: 40 latency_ms: 0.5 } } }"},
      {"fabric { simulated { oversubscription: 4 } }", "fabric { simulated { top_oversubscription: 2 } }"},
      {"fabric { simulated { solver: SIMGRID } }"},
      {"fabric { simulated { steady_state: SIMULATE } }"},
      {"fabric { simulated { noise: OFF } }"},
      {"fabric { simulated { contention: OFF } }"},
      {"fabric { simulated { nodes: 16 } }"},
      {"fabric { simulated { cluster: \"this-machine\" links: \"in_memory\" link_gbps: 10 latency_us: 5 } }"},
      {"fabric { timeout_s: 30 }"},
      // Around it
      {"memory { budget_mib: 64 }", "memory { budget_mib: 8 }", "memory { budget_mib: 8 assume_fits: true }",
       "memory { host_budget_mib: 4096 }"},
      {"framework: MEGATRON", "framework: DEEPSPEED", "framework: PYTORCH_EAGER", "framework: PYTORCH_COMPILED"},
      {"trace { enabled: false }", "trace { last_steps: 2 ranks: 1 }"},
  };
  return rows;
}

constexpr std::string_view kClusters[] = {
    "dgx-h100",    "dgx-h100",   "dgx-a100",       "star-h100", "dgx-b200", "dgx-1v",
    "dgx-2",       "summit",     "l40s",           "mi300x",    "aws-p4d",  "azure-nc24ads-a100",
    "gb200-nvl72", "tpu-v4-pod", "hammingmesh-1k", "alps",      "polaris"};

class Draw {
 public:
  explicit Draw(std::mt19937_64& random) : random_(random) {}

  DrawnSpec Spec() {
    DrawnSpec drawn{.ranks = OneOf<int64_t>({1, 2, 4, 4, 6, 8, 8, 8, 12, 16, 16, 32})};
    spec::Spec& spec = drawn.spec;
    spec.mutable_fabric()->mutable_simulated()->set_cluster(std::string(kClusters[Below(std::size(kClusters))]));
    Merge(Model(), spec);
    const std::vector<Row>& rows = Rows();
    for (uint64_t n = Below(7); n > 0; --n) {
      const Row& row = rows[Below(rows.size())];
      Merge(row[Below(row.size())], spec);
    }
    Degrees(drawn.ranks, spec);
    return drawn;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  template <class T>
  T OneOf(std::initializer_list<T> all) {
    return all.begin()[Below(all.size())];
  }

  // Of another kind of model than the spec's, a text is left out.
  static void Merge(std::string_view text, spec::Spec& spec) {
    spec::Spec more;
    TWOFOLD_CHECK(google::protobuf::TextFormat::ParseFromString(std::string(text), &more), std::string(text));
    const auto kind = more.model().kind_case();
    if (spec.has_model() && kind != spec::Model::KIND_NOT_SET && kind != spec.model().kind_case()) return;
    spec.MergeFrom(more);
  }

  std::string Sizes() {
    const int64_t heads = OneOf<int64_t>({2, 4, 8, 16});
    return StrCat("layers: ", OneOf<int64_t>({2, 3, 4, 4, 6, 8}),
                  " hidden: ", heads * OneOf<int64_t>({16, 32, 64, 128}), " heads: ", heads,
                  " vocab: ", OneOf<int64_t>({256, 1000, 4096, 50257}),
                  " sequence: ", OneOf<int64_t>({64, 128, 256, 512, 1024}));
  }
  std::string Model() {
    switch (Below(10)) {
      case 0:
        return StrCat("model { mlp { inputs: 64 hidden: [", OneOf<int64_t>({128, 512}),
                      ", 256, 256, 128] classes: 10 } }");
      case 1: return "model { cnn { channels: 3 height: 32 width: 32 widths: [16, 32] blocks: [2, 2] classes: 10 } }";
      case 2:
      case 3: return StrCat("model { moe { experts: ", OneOf<int64_t>({4, 8}), " llama { ", Sizes(), " ffn: 256 } } }");
      case 4:
      case 5:
      case 6: return StrCat("model { llama { ", Sizes(), " } }");
      default: return StrCat("model { gpt { ", Sizes(), " } }");
    }
  }

  int64_t Divisor(int64_t n) {
    std::vector<int64_t> all;
    for (int64_t i = 1; i <= n; ++i)
      if (n % i == 0) all.push_back(i);
    return all[Below(all.size())];
  }
  // dp is what is left; the plan sets it.
  void Degrees(int64_t ranks, spec::Spec& spec) {
    spec::Parallel& p = *spec.mutable_parallel();
    int64_t left = ranks;
    const auto take = [&] {
      const int64_t degree = Below(2) == 0 ? 1 : Divisor(left);
      left /= degree;
      return degree;
    };
    if (!p.has_pp())
      p.set_pp(take());
    else
      left = left % p.pp() == 0 ? left / p.pp() : 1;
    p.set_tp(take()), p.set_cp(spec.model().has_gpt() || spec.model().has_llama() ? take() : 1);
    p.set_ep(spec.model().has_moe() ? Divisor(left) : 1);
    spec.mutable_train()->set_micro_batch(OneOf<int64_t>({1, 1, 2, 4}));
    spec.mutable_train()->set_global_batch(left * spec.train().micro_batch() * OneOf<int64_t>({1, 2, 4, 8}));
  }

  std::mt19937_64& random_;
};

void AddFields(const google::protobuf::Message& message, const std::string& prefix, std::set<std::string>& fields) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  message.GetReflection()->ListFields(message, &set);
  for (const auto* field : set) {
    const std::string path = StrCat(prefix, std::string(field->name()));
    if (field->message_type() == nullptr) {
      fields.insert(path);
    } else if (!field->is_repeated()) {
      const auto& inner = message.GetReflection()->GetMessage(message, field);
      if (field->message_type()->field_count() == 0) fields.insert(path);
      AddFields(inner, path + ".", fields);
    } else {
      for (int i = 0; i < message.GetReflection()->FieldSize(message, field); ++i)
        AddFields(message.GetReflection()->GetRepeatedMessage(message, field, i), path + ".", fields);
    }
  }
}

}  // namespace

DrawnSpec DrawSpec(std::mt19937_64& random) { return Draw(random).Spec(); }

std::vector<std::string> DrawnFields() {
  std::set<std::string> fields;
  for (const Row& row : Rows()) {
    for (const std::string_view text : row) {
      spec::Spec spec;
      TWOFOLD_CHECK(google::protobuf::TextFormat::ParseFromString(std::string(text), &spec), std::string(text));
      AddFields(spec, "", fields);
    }
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) AddFields(DrawSpec(random).spec, "", fields);
  return {fields.begin(), fields.end()};
}

std::vector<LeftAlone> FieldsLeftAlone() {
  return {
      {"name", "names a folder"},
      {"model.preset", "gives sizes, as the fields of models do"},
      {"model.hf_config", "gives sizes, as the fields of models do"},
      {"model.moe.llama", "as model.llama"},
      {"model.moe.routing.counts", "a plan refuses it"},
      {"data", "a simulation of symbols reads none"},
      {"train.validation", "a plan leaves it out"},
      {"train.checkpoint", "a plan leaves it out"},
      {"train.resume", "a plan leaves it out"},
      {"train.local_update", "a plan refuses it"},
      {"train.elastic", "a plan refuses it"},
      {"train.async_sgd", "a plan refuses it"},
      {"parallel.islands", "a plan refuses it"},
      {"parallel.dp", "the plan sets it: the ranks that are left"},
      {"fabric.in_memory", "of another fabric"},
      {"fabric.mpi", "of another fabric"},
      {"fabric.gloo", "of another fabric"},
      {"fabric.nccl", "of real GPUs; simulated NCCL has none of it"},
      {"fabric.rendezvous", "of real fabrics"},
      {"fabric.simulated.data", "a plan refuses all but SYMBOLIC"},
      {"fabric.simulated.profile", "a file's path"},
      {"fabric.simulated.faults", "a plan refuses them"},
      {"fabric.simulated.membership", "of elastic training"},
      {"fabric.simulated.storage", "of checkpoints"},
      {"device", "of real runs"},
      {"emulated", "of real runs"},
      {"cuda", "of real GPUs"},
      {"trace", "a plan writes none"},
      {"framework_profile", "a file's path"},
      {"schema_version", "of the file"},
  };
}

}  // namespace twofold::plan::test
