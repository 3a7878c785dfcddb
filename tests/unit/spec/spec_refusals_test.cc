// Every file in tests/specs/bad is refused, and the message says where, what, and what would be right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "experiments/spec/spec.h"

namespace twofold {
namespace {

using ::testing::HasSubstr;

struct Refusal {
  std::string name;
  std::vector<std::string> fragments;
};

// The file's name is expected in every message and therefore not in the table.
const std::vector<Refusal>& Refusals() {
  static const auto* rows = new std::vector<Refusal>{
      {"no_model", {"model: is missing", "preset: \"gpt-3m\""}},
      {"unknown_field", {":2:9: train.stepz:", "is not a field", "did you mean steps?"}},
      {"unknown_block", {":1:1: modle:", "is not a field", "did you mean model?"}},
      {"unknown_enum", {":2:28: fabric.simulated.data:", "\"REEL\" is not a value", "did you mean REAL?"}},
      {"text_for_number", {":2:16: train.steps:", "five", "use a whole number"}},
      {"fraction_for_whole", {":2:16: train.steps:", "2.5", "use a whole number"}},
      {"word_for_flag", {":2:", "train.shuffle:", "maybe", "true or false"}},
      {"number_for_text", {":1:17: model.preset:", "124", "text in double quotes"}},
      {"number_for_block", {":1:8: model:", "5", "a block { ... } of preset, gpt, mlp"}},
      {"unclosed_block", {":2:1: model.gpt: ", "the end of the file", "close every brace"}},
      {"twice", {":2:18: train.steps:", "write it once"}},
      {"two_fabrics", {"fabric.simulated:", "in_memory", "keep one of them"}},
      {"preset_unknown", {"model.preset: \"gpt2-124\" is not a preset", "did you mean gpt2-124m"}},
      {"preset_of_other_kind", {"model.preset: \"gpt-3m\" is of kind gpt", "model.mlp", "keep one of them"}},
      {"heads_do_not_divide",
       {"model.gpt.heads: 5 does not divide model.gpt.hidden = 256", "use a divisor such as 4 or 8"}},
      {"layers_missing", {"model.gpt.layers: is missing", "use a whole number from 1"}},
      {"layers_zero", {"model.gpt.layers: 0 is out of range", "from 1"}},
      {"hidden_huge", {"model.gpt.hidden: 9223372036854775807 is out of range", "to 262144"}},
      {"attention_dropout_tiled", {"model.gpt.attention_dropout: 0.1 needs stored probabilities", "model.attention: UNFUSED"}},
      {"mlp_unfused", {"model.attention: UNFUSED does not fit model.mlp", "use TILED"}},
      {"kv_heads_do_not_divide", {"model.llama.kv_heads: 3 does not divide model.llama.heads = 4", "2 or 4"}},
      {"head_dim_odd", {"model.llama.head_dim: 3 is odd", "use 4"}},
      {"longer_than_window", {"model.llama.sequence: 64 is longer than model.llama.sliding_window = 32", "use at most 32"}},
      {"rope_scaling_empty", {"model.llama.rope_scaling: says no kind", "llama3 { ... }"}},
      {"rope_factor_below_one",
       {"model.llama.rope_scaling.llama3.factor: 0.5 is out of range", "high_freq_factor: 1 is out of range", "above 1"}},
      {"hf_config_missing", {"model.hf_config: \"no/such/config.json\" cannot be read", "give the path"}},
      {"synthetic_huge", {"data.synthetic: the map of model.mlp's inputs and classes would take 4398046511104 bytes", "up to 1073741824"}},
      {"synthetic_images_huge", {"data.synthetic: a sample of model.cnn's height, width and channels would take", "use smaller ones"}},
      {"synthetic_for_llama", {"data: synthetic does not fit model.llama", "use text or tokens"}},
      {"dropout_one", {"model.gpt.dropout: 1 is out of range", "from 0 to below 1"}},
      {"vocab_below_bytes", {"model.gpt.vocab: 100 is too small for data.text", "use 256 or more"}},
      {"classes_one", {"model.mlp.classes: 1 is out of range", "from 2"}},
      {"mlp_hidden_negative", {"model.mlp.hidden[1]: -8 is out of range", "from 1"}},
      {"cnn_widths_missing", {"model.cnn.widths: is missing", "such as [16, 32, 64]"}},
      {"cnn_blocks_short", {"model.cnn.blocks: 1 stages where model.cnn.widths has 2", "a number of blocks for each"}},
      {"cnn_momentum", {"model.cnn.norm_momentum: 1.5 is out of range", "from 0 to 1"}},
      {"cnn_height_zero", {"model.cnn.height: 0 is out of range", "model.cnn.widths[0]: -3 is out of range", "from 1"}},
      {"text_for_cnn", {"data: text does not fit model.cnn, which learns images", "use synthetic, idx or cifar10"}},
      {"cifar10_for_gpt", {"data: cifar10 does not fit model.gpt", "use text or tokens"}},
      {"idx_without_labels", {"data.idx.labels: is missing", "data.idx.images: \"no/such/images\" does not exist", "IDX"}},
      {"cifar10_without_path", {"data.cifar10.path: is missing", "binary version"}},
      {"text_for_mlp", {"data: text does not fit model.mlp", "use synthetic"}},
      {"synthetic_for_gpt", {"data: synthetic does not fit model.gpt", "use text or tokens"}},
      {"text_missing",
       {"data.text.path: \"/does/not/exist\" does not exist", "give a file or folder of text"}},
      {"tokens_without_path", {"data.tokens.path: is missing", "give a .bin file"}},
      {"tokens_folder", {"data.tokens.path: \"tests\" is a folder", "give a .bin file"}},
      {"steps_zero", {"train.steps: 0 is out of range", "from 1"}},
      {"batch_not_whole",
       {"train.global_batch: 30 is not a multiple of parallel.dp * train.micro_batch = 4 * 4 = 16",
        "use 16 or 32"}},
      {"dp_zero", {"parallel.dp: 0 is out of range", "from 1"}},
      {"too_many_threads",
       {"parallel: pp * dp * cp * tp = 1 * 100000 * 1 * 1 = 100000 are too many ranks for fabric.in_memory", "use at most 4096"}},
      {"threads_per_rank", {"train.threads_per_rank: 4096 is out of range", "to 1024"}},
      {"warmup_leaves_nothing", {"train.warmup_steps: 4 leaves no step", "use at most 3"}},
      {"lr_zero", {"train.optimizer.sgd.lr: 0 is out of range", "a number above 0"}},
      {"lr_not_a_number", {"train.optimizer.adamw.lr: nan is not finite", "use a finite number"}},
      {"beta_one", {"train.optimizer.adam.beta2: 1 is out of range", "below 1"}},
      {"eps_negative", {"train.optimizer.adamw.eps: -1e-08 is out of range", "above 0"}},
      {"decay_negative", {"train.optimizer.sgd.weight_decay: -0.5 is out of range", "0 or more"}},
      {"nesterov_alone", {"train.optimizer.sgd.nesterov: true needs momentum", "such as 0.9"}},
      {"precision_whole",
       {"train.precision.parameter: I32 is not a floating-point type", "use F32, F64, BF16 or F16"}},
      {"reduce_whole", {"train.precision.reduce: U8 is not a floating-point type", "use F32"}},
      {"gradient_whole", {"train.precision.gradient: I32 is not a floating-point type", "use F32"}},
      {"precision_wide_gradient", {"train.precision.reduce: F64 (as gradient) does not go with train.precision.parameter: BF16", "F64 for all or for none"}},
      {"precision_wide_parameter", {"train.precision.reduce: F32 (as gradient) does not go with train.precision.parameter: F64"}},
      {"precision_two_halves", {"train.precision.reduce: F16 does not go with train.precision.parameter: BF16", "use BF16 or F32"}},
      {"buffer_narrow", {"train.precision.buffer: BF16 is too coarse", "use F32 or F64"}},
      {"buffer_below_parameter", {"train.precision.buffer: F32 does not go with train.precision.parameter: F64", "use F64"}},
      {"loss_scale_unused", {"train.precision.loss_scale: scales gradients into the range of F16", "leave it out"}},
      {"stochastic_rounding_wide", {"train.precision.stochastic_rounding: is for parameters that are narrower than their updates",
                                    "train.precision.parameter is F32", "use parameter: BF16"}},
      {"loss_scale_zero", {"train.precision.loss_scale.fixed: 0 is out of range", "above 0"}},
      {"loss_scale_rules", {"dynamic.initial: 0.5 is below minimum = 1", "dynamic.growth: 1 is out of range", "dynamic.backoff: 1 does not lower",
                            "dynamic.growth_interval: 0"}},
      {"clip_infinite", {"train.clip_norm: inf is not finite", "use a finite number"}},
      {"schedule_warmup",
       {"train.schedule.warmup_steps: 10 leaves no step",
        "less than train.schedule.cosine.decay_steps = 10"}},
      {"budget_negative", {"memory.budget_mib: -1 is out of range", "0 or more"}},
      {"budget_huge", {"memory.budget_mib: 1e+12 is out of range", "at most 1073741824", "0 for what the device has"}},
      {"host_budget_negative", {"memory.host_budget_mib: -0.5 is out of range", "0 or more"}},
      {"bucket_zero", {"parallel.bucket_mib: 0 is out of range", "above 0"}},
      {"timeout_zero", {"fabric.timeout_s: 0 is out of range", "above 0"}},
      {"last_steps_zero", {"trace.last_steps: 0 is out of range", "from 1"}},
      {"algorithm_unknown",
       {"fabric.simulated.algorithm: \"rings\" is not an algorithm", "did you mean ring?"}},
      {"profile_missing",
       {"fabric.simulated.profile: \"no/such.profile\" does not exist", "twofold calibrate"}},
      {"nodes_zero", {"fabric.simulated.nodes: 0 is out of range", "from 1"}},
      {"protocol_unknown", {"fabric.simulated.protocol: \"LL64\" is not a protocol", "LL128"}},
      {"routing_unknown", {"fabric.simulated.routing: \"adaptiv\" is not a routing policy", "did you mean adaptive?"}},
      {"placement_hosts_missing", {"fabric.simulated.placement.hosts: is missing", "such as hosts: [0, 4]"}},
      {"placement_hosts_unused", {"fabric.simulated.placement.hosts: is for policy: HOSTS", "placement.hosts[1]: -1 is out of range"}},
      {"placement_seed_unused", {"fabric.simulated.placement.seed: is for policy: RANDOM", "leave it out"}},
      {"fault_without_link", {"fabric.simulated.network.faults[0].link: is missing", "use a link's name", "network.faults[1]: says nothing that is wrong"}},
      {"fault_bandwidth_zero", {"network.faults[0].bandwidth: 0 is out of range", "failed: true", "network.faults[1].latency_us: of a link that has failed",
                                "network.faults[2].latency_us: -3 is out of range"}},
      {"background_one", {"network.background: 1 is out of range", "below 1", "network.jitter: -0.5 is out of range", "network.seed: -1 is out of range"}},
      {"straggler_twice", {"stragglers[1].rank: 1 is named twice", "stragglers[1].factor: 0 is out of range", "stragglers[2].rank: 4 is out of range; use a whole number from 0 to 3",
                           "stragglers[3].factor: is missing"}},
      {"name_with_slash", {"name: \"a/b\" cannot name a folder", "without /"}},
      {"tp_uneven", {"parallel.tp: 4 does not divide model.gpt.heads = 6; use a divisor such as 3 or 6"}},
      {"tp_kv_heads", {"parallel.tp: 4 and model.llama.kv_heads = 6: neither divides the other", "use a tp such as 6"}},
      {"tp_huge", {"parallel.tp: 1025 is out of range; use a whole number from 1 to 1024", "parallel.pp: 0 is out of range"}},
      {"tp_mlp",
       {"parallel.tp: 2 does not fit model.mlp, which every rank holds whole; use 1", "parallel.pp: 3 does not fit model.mlp",
        "parallel.sequence_parallel: true does not fit model.mlp; leave it out"}},
      {"tp_cnn", {"parallel.cp: 2 does not fit model.cnn", "parallel.ep: 2 does not fit model.cnn", "parallel.schedule: GPIPE is of a pipeline"}},
      {"world_too_large", {"parallel: pp * dp * cp * tp = 4 * 65536 * 4 * 2 = 2097152 ranks are too many; use at most 1048576"}},
      {"sequence_parallel_alone", {"parallel.sequence_parallel: true changes nothing", "parallel.tp = 1; leave it out"}},
      {"sequence_parallel_uneven",
       {"parallel.sequence_parallel: true cuts sequences into tp = 6 parts, and model.gpt.sequence = 10 does not divide so; use a sequence of 6 or 12, or false"}},
      {"sequence_parallel_chunks", {"parallel.sequence_parallel: true cuts sequences into 2 * cp * tp = 8 parts, and model.gpt.sequence = 12", "8 or 16, or false"}},
      {"cp_sequence", {"parallel.cp: 2 cuts sequences into 2 * 2 = 4 chunks, and model.gpt.sequence = 30 does not divide so; use a sequence of 28 or 32"}},
      {"cp_unfused", {"parallel.cp: 2 passes keys and values around a ring", "model.attention: UNFUSED stores them; use TILED, or a cp of 1"}},
      {"ep_without_experts", {"parallel.ep: 2 shares out experts, and model.gpt has none; use 1, or model { moe { ... } }"}},
      {"ep_uneven", {"parallel.ep: 4 does not divide parallel.dp = 6; use a divisor such as 3 or 6", "parallel.ep: 4 does not divide model.moe.experts = 6"}},
      {"ep_hybrid", {"parallel.sharding: HYBRID_SHARD does not go with parallel.ep = 2", "use FULL_SHARD, or an ep of 1"}},
      {"order_word", {"parallel.order: \"dp tp pp ep\"; it must have pp, dp, cp and tp, each once"}},
      {"order_permutes_nothing", {"parallel.order: \"cp pp dp tp\" changes nothing", "has its axes of more than one rank in the usual order"}},
      {"order_idle", {"parallel.order: \"tp dp cp pp\" changes nothing", "has one axis of more than one rank; leave it out"}},
      {"pp_too_many", {"parallel.pp: parallel.pp * virtual_stages = 5 * 1 = 5 parts need a layer each, and model.gpt.layers = 4; use fewer"}},
      {"virtual_stages_too_many", {"parallel.virtual_stages: parallel.pp * virtual_stages = 2 * 4 = 8 parts need a layer each"}},
      {"stage_layers_count",
       {"parallel.stage_balance: BY_COST and parallel.stage_layers = [1, 2, 1] both say", "keep one of them",
        "parallel.stage_layers: [1, 2, 1] are 3 numbers, and parallel.pp * virtual_stages = 2 * 1 = 2; use 2"}},
      {"stage_layers_sum", {"parallel.stage_layers: [1, 2] add up to 3, and the model has 4 layers; use numbers that add up to 4"}},
      {"stage_layers_zero", {"parallel.stage_layers[1]: 0 is out of range; use a whole number from 1 to 4"}},
      {"stages_alone",
       {"parallel.virtual_stages: 2 is of a pipeline, and parallel.pp = 1; leave it out, or use a pp of 2 or more",
        "parallel.stage_layers: [4] is of a pipeline", "parallel.stage_balance: BY_COST is of a pipeline"}},
      {"scatter_gather_one_stage", {"parallel.scatter_gather_messages: true is of a pipeline, and parallel.pp = 1; leave it out"}},
      {"scatter_gather_alone", {"parallel.scatter_gather_messages: true changes nothing", "parallel.tp = 1; leave it out, or use a tp of 2 or more"}},
      {"scatter_gather_sequence",
       {"parallel.scatter_gather_messages: true changes nothing: under parallel.sequence_parallel each rank of tp has its part", "leave one of them out"}},
      {"interleaved_once", {"parallel.schedule: INTERLEAVED_ONE_F_ONE_B of parallel.virtual_stages = 1 is ONE_F_ONE_B; use that, or 2 or more"}},
      {"virtual_stages_of_others", {"parallel.virtual_stages: 2 are of INTERLEAVED_ONE_F_ONE_B, and parallel.schedule is ONE_F_ONE_B"}},
      {"chunks_reduced_often", {"parallel.reduce_every_micro_batch: true does not fit parallel.virtual_stages = 2 under NO_SHARD"}},
      {"interleaved_uneven",
       {"parallel.schedule: INTERLEAVED_ONE_F_ONE_B of train.global_batch / (parallel.dp * train.micro_batch) = 12 / (2 * 2) = 3 micro-batches",
        "a multiple of its 2 stages as the number of micro-batches, not 3"}},
      {"shard_group_missing", {"parallel.shard_group: is missing", "from 2 to 4"}},
      {"shard_group_uneven", {"parallel.shard_group: 3 does not divide parallel.dp = 4", "use one of 2, 4"}},
      {"shard_group_unused", {"parallel.shard_group: 2 is of HYBRID_SHARD", "parallel.sharding is FULL_SHARD"}},
      {"hybrid_alone", {"parallel.sharding: HYBRID_SHARD needs ranks", "parallel.dp = 1; use 2 or more"}},
      {"prefetch_unused", {"parallel.prefetch: 2 is of FULL_SHARD and HYBRID_SHARD", "leave it out"}},
      {"reshard_unused", {"parallel.reshard_after_forward: false is of FULL_SHARD", "parallel.sharding is NO_SHARD"}},
      {"backward_prefetch_unused", {"parallel.backward_prefetch: BACKWARD_POST is of FULL_SHARD", "leave it out"}},
      {"prefetch_limit_negative", {"parallel.prefetch_limit_mib: -1 is out of range", "0 or more"}},
      {"bucket_sharded", {"parallel.bucket_mib: 4 is of NO_SHARD", "choose units by parallel.wrap"}},
      {"reduce_every_zero_1", {"parallel.reduce_every_micro_batch: true makes no sense under SHARD_OPTIMIZER", "use false"}},
      {"offload_whole_parameters", {"parallel.offload: OFFLOAD_ALL is of shards of parameters, and parallel.sharding is SHARD_GRAD_OP",
                                     "use OFFLOAD_OPTIMIZER, or FULL_SHARD or HYBRID_SHARD"}},
      {"host_budget_unused", {"memory.host_budget_mib: 100 is of what is offloaded", "parallel.offload is NO_OFFLOAD; leave it out"}},
      {"wrap_unsharded", {"parallel.wrap: a policy is of sharded layouts", "leave it out"}},
      {"wrap_module_unknown", {"parallel.wrap.module: \"transformer_blok\" is no kind of module", "did you mean transformer_block?"}},
      {"wrap_module_tied", {"parallel.wrap.module: \"embedding\": no module of this kind", "can be a unit"}},
      {"wrap_path_unknown", {"parallel.wrap.paths: \"blocks.7\" is no module of this model", "did you mean blocks."}},
      {"wrap_path_tied", {"parallel.wrap.paths: \"head\" cannot be a unit", "leave it to the root unit"}},
      {"prefetch_limit_tiny", {"parallel.prefetch_limit_mib: 1e-09 is out of range", "or 0 for no limit"}},
      {"prefetch_without_overlap", {"parallel.prefetch: 3 is of gathering ahead", "parallel.overlap = false switches off"}},
      {"schedule_alone", {"parallel.schedule: GPIPE is of a pipeline, and parallel.pp = 1; leave it out"}},
      {"hybrid_of_too_many", {"parallel.dp: 1000000000000 is out of range"}},
      {"recompute_off", {"recompute: SELECTIVE recomputes nothing", "use 1 or more"}},
      {"wrap_none", {"parallel.wrap.min_parameters: 0 is out of range", "from 1"}},
      {"checkpointing_mlp", {"train.activation_checkpointing.every: 1 does not fit model.mlp", "no blocks", "use 0"}},
      {"checkpointing_every", {"train.activation_checkpointing.every: 3 recomputes none of the model's 2 blocks", "at most 2"}},
      {"checkpointing_negative", {"train.activation_checkpointing.every: -1 is out of range", "from 0"}},
      {"checkpointing_tiled",
       {"train.activation_checkpointing.recompute: SELECTIVE", "TILED stores none", "use FULL, or model.attention: UNFUSED"}},
      {"checkpointing_selective_cnn", {"recompute: SELECTIVE does not fit model.cnn, which has no attention", "use FULL"}},
      {"nccl", {"fabric.nccl: nccl is not in this build", "use in_memory, mpi or simulated"}},
      {"cuda_mpi", {"device: CUDA on fabric.mpi, whose buffers would be a GPU's, is not in this build; use in_memory, whose ranks are threads"}},
      {"cuda_unused", {"cuda: is for device: CUDA, and device is CPU", "leave the block out"}},
      {"cuda_gpus", {"cuda.gpus[1]: -1 is out of range", "cuda.gpus[2]: 0 stands here twice"}},
      {"epochs_and_steps", {"train.epochs: 3 and train.steps = 20 are two lengths", "keep one of them"}},
      {"epochs_zero", {"train.epochs: 0 is out of range", "from 1"}},
      {"validation_two_sizes", {"train.validation.fraction: is given beside train.validation.samples", "keep one"}},
      {"validation_fraction_one", {"train.validation.fraction: 1 is out of range", "below 1"}},
      {"validation_every_zero", {"train.validation.every_steps: 0 is out of range", "from 1"}},
      {"validation_patience_off", {"train.validation.min_delta: is for stopping early", "patience = 0", "use 1 or more"}},
      {"validation_data_empty", {"train.validation.data: is empty", "name data, such as text"}},
      {"validation_data_missing",
       {"train.validation.data.text.path: \"/does/not/exist\" does not exist", "give a file or folder of text"}},
      {"validation_synthetic", {"train.validation.data.synthetic: would be the samples that are trained on", "are held out"}},
      {"emulated_unused", {"emulated: is for device: EMULATED, and device is CPU", "leave the block out"}},
      {"emulated_speed_zero", {"emulated.speed: 0 is out of range", "above 0"}},
      {"emulated_profile_missing", {"emulated.profile: \"no/such.profile\" does not exist", "twofold calibrate"}},
      {"emulated_real", {"fabric.simulated.data: REAL does not fit device: EMULATED", "use SYMBOLIC"}},
      {"link_rate_negative", {"fabric.in_memory.link_gbps: -1 is out of range", "0 or more"}},
      {"link_rate_tiny",
       {"fabric.in_memory.link_gbps: 1e-300 is out of range", "use 1e-9 to 1e9", "fabric.in_memory.latency_us: 1e+12 is out of range"}},
      {"link_latency_alone", {"fabric.in_memory.latency_us: 5 is of links that are slowed down", "such as 10"}},
      {"link_latency_alone_simulated", {"fabric.simulated.latency_us: 5 is of links", "fabric.simulated.link_gbps = 0"}},
      {"checkpoint_fields",
       {"train.checkpoint.every_steps: 0 is out of range", "train.checkpoint.keep_last: -1 is out of range",
        "train.checkpoint.path: \"tests/specs/bad/checkpoint_fields.textproto\" is no folder"}},
      {"checkpoint_emulated", {"train.checkpoint: goes with parameters", "use device: CPU"}},
      {"resume_missing", {"train.resume: \"no/such/checkpoints\" is no folder", "give a checkpoint"}},
      {"moe_sizes",
       {"model.moe.llama.heads: 5 does not divide model.moe.llama.hidden = 32", "model.moe.top_k: 5 is more than model.moe.experts = 4",
        "model.moe.capacity_factor: 0 is out of range", "model.moe.every: 3 is more than model.moe.llama.layers = 2",
        "model.moe.aux_loss: -1 is out of range"}},
      {"moe_missing", {"model.moe.experts: ", "model.moe.llama.vocab: 100 is too small for data.text"}},
      {"several_problems",
       {"model.gpt.layers: 0", "model.gpt.heads: 5 does not divide", "train.steps: -1 is out of range"}},
  };
  return *rows;
}

class SpecRefusals : public ::testing::TestWithParam<Refusal> {};

TEST_P(SpecRefusals, NameFileFieldValueAndRemedy) {
  const std::string path = "tests/specs/bad/" + GetParam().name + ".textproto";
  const absl::StatusOr<spec::Spec> spec = LoadSpec(path);
  ASSERT_FALSE(spec.ok()) << path << " was accepted";
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(spec.status().message());
  EXPECT_EQ(message.find(path), 0u) << message;
  for (const std::string& fragment : GetParam().fragments) EXPECT_THAT(message, HasSubstr(fragment));
}

INSTANTIATE_TEST_SUITE_P(Files, SpecRefusals, ::testing::ValuesIn(Refusals()),
                         [](const auto& info) { return info.param.name; });

TEST(SpecRefusalTable, HoldsEveryFile) {
  std::set<std::string> listed, found;
  for (const Refusal& row : Refusals()) listed.insert(row.name);
  for (const auto& file : std::filesystem::directory_iterator("tests/specs/bad"))
    found.insert(file.path().stem());
  EXPECT_EQ(listed, found);
}

}  // namespace
}  // namespace twofold
