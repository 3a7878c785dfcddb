// twofold list models|clusters|strategies|fabrics|devices|frameworks
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/host/cuda.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/commands.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/presets.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "topologies/catalogue.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// The preset's number of parameters; nothing is allocated.
int64_t CountOf(const ModelPreset& preset) {
  spec::Spec spec;
  spec.mutable_model()->set_preset(std::string(preset.name));
  TWOFOLD_CHECK(ExpandPreset(spec, "list").ok(), preset.name);
  FillDefaults(spec, "list");
  return ParameterCount(*ModelOf(spec.model()));
}

Rows Models() {
  Rows rows;
  for (const ModelPreset& preset : ModelPresets()) {
    rows.push_back({std::string(preset.name), std::string(preset.summary),
                    StrCat(CountText(CountOf(preset)), " parameters"), std::string(preset.model)});
  }
  return rows;
}

Rows Clusters() {
  Rows rows;
  for (const ClusterInfo& cluster : ListClusters()) rows.push_back({cluster.name, cluster.summary});
  return rows;
}

// A name, its effect on memory and communication, when to use it, and how a spec requests it.
Rows Strategies() {
  return {
      {"NO_SHARD",
       "distributed data parallelism (DDP): the whole model on every rank; gradients are averaged in buckets, which "
       "sends 2 A bytes per rank and step (A: bytes of all gradients); use it whenever the model fits",
       "parallel { dp: N sharding: NO_SHARD bucket_mib: 25 }"},
      {"SHARD_OPTIMIZER, ZERO_1",
       "shards the optimizer state: each rank holds 1/N of it and sends no more bytes than with NO_SHARD; try it first",
       "parallel { dp: N sharding: ZERO_1 }"},
      {"SHARD_GRAD_OP, ZERO_2",
       "also shards gradients: those outside the shard are freed as soon as they are reduced; with gradient "
       "accumulation, each micro-batch after the first adds A bytes",
       "parallel { dp: N sharding: ZERO_2 }"},
      {"FULL_SHARD, ZERO_3",
       "also shards parameters (FSDP): each rank holds 1/N of everything, and parameters are gathered unit by unit "
       "where they are used; sends 3 A bytes per micro-batch; use it when nothing else fits",
       "parallel { dp: N sharding: ZERO_3 wrap { module: \"transformer_block\" } prefetch: 1 }"},
      {"HYBRID_SHARD",
       "FULL_SHARD within groups of ranks, such as nodes; gradients are averaged between groups, so slow links carry "
       "less traffic; each rank holds 1/(size of a group) of everything",
       "parallel { dp: N sharding: HYBRID_SHARD shard_group: 8 }"},
      {"ZeRO++",
       "FULL_SHARD with fewer bytes, and fewer of them between nodes: parameters travel as 8-bit codes, a second copy "
       "of "
       "the shards within a node serves all gathers but the first after an update, and gradients travel as 4-bit "
       "codes, "
       "first within the node; use it if links between nodes are slow; the second copy takes 1/(ranks of a node) of "
       "the "
       "parameters",
       "parallel { dp: N sharding: ZERO_3 zero_plus_plus { quantized_weights: true secondary_shard: 8 "
       "quantized_gradients: true } }"},
      {"gradient compression",
       "gradients travel as codes of 8 or 4 bits, as signs, as few elements or as factors of low rank; what is left "
       "out is kept for the next step, 4 bytes per gradient; use it if links are so slow that computing does not hide "
       "them",
       "parallel { dp: N compression { quantize { bits: 8 } } }, or top_k {}, random_k {}, power_sgd {}, one_bit {}; "
       "for Adam, train { optimizer { one_bit_adam {} } }"},
      {"local updates",
       "islands of ranks train on their own and meet every H steps: DiLoCo applies the mean of their changes with "
       "Nesterov momentum, local SGD averages parameters; sends 1/H of DDP's bytes; use it where the links between "
       "islands are slow",
       "train { local_update { diloco { every_steps: 30 } } } parallel { dp: N islands: 4 }"},
      {"elastic training",
       "ranks may be lost and may come while the run trains; those that are left go on with the state that copies of "
       "it "
       "keep; a barrier a step, and with shard_copies 1/N more memory; use it where machines are taken away",
       "train { elastic { min_dp: 2 shard_copies: 1 } } parallel { dp: N sharding: ZERO_1 }"},
      {"tensor parallelism",
       "each rank has 1/N of the heads, of the feed-forward layers and of the vocabulary; needs 4 all-reduces of an "
       "activation per block and micro-batch, which computing does not hide in the forward pass; of an mlp, each rank "
       "has 1/N of every pair of layers; use it within a node",
       "parallel { tp: N }"},
      {"sequence parallelism",
       "with tp: also splits norms and dropouts along the sequence; each rank keeps 1/N of their activations and sends "
       "as many bytes as with tp alone; use it whenever the sequence divides evenly",
       "parallel { tp: N sequence_parallel: true }"},
      {"context parallelism",
       "each rank has 1/N of every sequence; keys and values travel around a ring while attention computes; use it for "
       "long sequences whose activations do not fit",
       "parallel { cp: N }"},
      {"expert parallelism",
       "each rank has 1/N of the experts of a mixture; tokens travel to their experts and back, in 4 all-to-alls per "
       "block and micro-batch; use it within a node, if the experts do not fit on one rank",
       "model { moe { ... experts: E } } parallel { dp: M ep: N }"},
      {"GPIPE",
       "pipeline of N stages with 1/N of the layers each, of any model; neighbours exchange an activation and its "
       "gradient per "
       "micro-batch; with m micro-batches, stages are idle for (N - 1)/(m + N - 1) of the time and keep the "
       "activations of all m; use it with few micro-batches, or with recomputation",
       "parallel { pp: N schedule: GPIPE }"},
      {"ONE_F_ONE_B",
       "1F1B: stages are idle as long as with GPIPE, but keep the activations of at most N micro-batches; the default",
       "parallel { pp: N schedule: ONE_F_ONE_B }"},
      {"INTERLEAVED_ONE_F_ONE_B",
       "1F1B with V chunks of the model on each stage: stages are idle 1/V as long as with ONE_F_ONE_B and send V "
       "times as many bytes; use it with few micro-batches in a long pipeline",
       "parallel { pp: N schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: V }"},
      {"ZERO_BUBBLE_H1",
       "1F1B that postpones the gradients of weights to time in which a stage would be idle; stages are idle about a "
       "third as long as with ONE_F_ONE_B, but every stage keeps somewhat more activations than its first stage",
       "parallel { pp: N schedule: ZERO_BUBBLE_H1 }"},
      {"hybrids", "combinations of these: pp * dp * cp * tp ranks, ep within dp, and a sharding over dp",
       "parallel { pp: 4 dp: 8 tp: 8 sequence_parallel: true sharding: ZERO_1 order: \"pp dp cp tp\" }"}};
}

Rows Fabrics() {
  Rows rows;
  for (const Backend& backend : Backends()) {
    const std::string why_not = backend.why_not();
    rows.push_back({std::string(backend.name), std::string(backend.summary),
                    why_not.empty() ? "available" : StrCat("not available: ", why_not)});
  }
  return rows;
}

Rows Devices() {
  Rows rows = {{"CPU", "the default: this machine's processor, train.threads_per_rank threads per rank", "available"}};
  const std::string why_not = host::WhyNoCuda();
  rows.push_back(
      {"CUDA", "this machine's NVIDIA GPUs; ranks of fabric in_memory share them, and fabric simulated predicts them",
       why_not.empty() ? "available" : StrCat("not available: ", why_not)});
  for (int gpu = 0; gpu < host::GpusHere(); ++gpu) rows.back().push_back(host::DescribeGpu(gpu));
  rows.push_back({"EMULATED",
                  "waits for the modelled time of another device and computes nothing; communication is real",
                  "available"});
  return rows;
}

Rows Frameworks() {
  Rows rows = {{"TWOFOLD", "the default: this program"}};
  for (const FrameworkInfo& f : ListFrameworks()) rows.push_back({f.name, f.summary, StrCat("from: ", f.source)});
  return rows;
}

constexpr char kExitText[] = "Exit status: 0 fine; 1 stdout cannot be written; 2 wrong input.";

// What the elements of a row are: the name first. Further elements are a list.
using Keys = std::vector<const char*>;

nlohmann::ordered_json RowJson(const std::vector<std::string>& row, const Keys& keys) {
  nlohmann::ordered_json json;
  for (size_t i = 0; i < row.size(); ++i) {
    if (i < keys.size())
      json[keys[i]] = row[i];
    else
      json["more"].push_back(row[i]);
  }
  return json;
}

void Print(const Rows& rows, const Keys& keys, bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    if (as_json) {
      json.push_back(RowJson(row, keys));
      continue;
    }
    std::printf("%s\n", row[0].c_str());
    for (size_t i = 1; i < row.size(); ++i) std::printf("    %s\n", row[i].c_str());
  }
  if (as_json) std::printf("%s", JsonText(json).c_str());
}

void AddTopic(const Command& list, const std::string& name, const std::string& summary, const char* more,
              Rows (*rows)(), Keys keys, int& exit_status) {
  const Command topic = list.AddCommand(name, summary);
  auto json = std::make_shared<bool>(false);
  topic.AddFlag("--json", *json, StrCat("print JSON: a list of {", absl::StrJoin(keys, ", "), "}"));
  topic.Footer(StrCat(more, "\n", kExitText));
  topic.OnParsed([rows, keys, json, &exit_status] {
    Print(rows(), keys, *json);
    exit_status = kExitFine;
  });
}

}  // namespace

void AddListCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("list", "lists the names that a spec can use");
  command.RequireCommand();
  AddTopic(command, "models", "values of model.preset",
           "For each: what it is, its number of parameters, and the sizes that it stands for, which a spec may state "
           "instead.\n"
           "  twofold run SPEC --set=model.preset=gpt2-124m --fabric=simulated\n",
           Models, {"name", "summary", "parameters", "model"}, exit_status);
  AddTopic(command, "clusters", "values of fabric.simulated.cluster",
           "  twofold run SPEC --fabric=simulated --set=fabric.simulated.cluster=dgx-h100\n"
           "`twofold topology show NAME` draws one. A spec can also name a .textproto file of your own.\n",
           Clusters, {"name", "summary"}, exit_status);
  AddTopic(command, "strategies", "layouts of parameters, gradients and work over ranks",
           "For each: what it does, when to use it, and the block of a spec that selects it.\n"
           "  twofold run SPEC '--set=parallel={dp: 4 sharding: ZERO_1}'\n",
           Strategies, {"name", "summary", "spec"}, exit_status);
  AddTopic(command, "fabrics", "values of --fabric, and which of them this build and machine lack",
           "  twofold run SPEC --fabric=in_memory\n", Fabrics, {"name", "summary", "status"}, exit_status);
  AddTopic(command, "devices", "values of a spec's device, and which of them this build and machine lack",
           "  twofold run SPEC --set=device=EMULATED\n", Devices, {"name", "summary", "status"}, exit_status);
  AddTopic(
      command, "frameworks", "values of a spec's framework, whose time and memory can be predicted",
      "  twofold memory SPEC --fabric=simulated --set=fabric.simulated.cluster=dgx-a100 --set=framework=DEEPSPEED\n"
      "A spec can also name a .textproto file of your own in framework_profile (docs/frameworks.md).\n",
      Frameworks, {"name", "summary", "source"}, exit_status);
  command.Footer(StrCat("Examples:\n  twofold list models\n  twofold list fabrics\n\n", kExitText));
}

}  // namespace twofold
