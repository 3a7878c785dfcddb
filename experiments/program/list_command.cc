// twofold list models|clusters|strategies|fabrics
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/registry.h"
#include "core/base/strings.h"
#include "experiments/program/commands.h"
#include "experiments/program/text.h"
#include "experiments/spec/presets.h"
#include "experiments/spec/spec.h"
#include "strategies/model_factory.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// What the model would hold; nothing is allocated for it.
int64_t ParameterCount(const ModelPreset& preset) {
  spec::Spec spec;
  spec.mutable_model()->set_preset(std::string(preset.name));
  TWOFOLD_CHECK(ExpandPreset(spec, "list").ok(), preset.name);
  FillDefaults(spec, "list");
  return MakeModel(spec.model(), DType::kF32)->ParameterCount();
}

Rows Models() {
  Rows rows;
  for (const ModelPreset& preset : ModelPresets()) {
    rows.push_back({std::string(preset.name), std::string(preset.summary),
                    StrCat(CountText(ParameterCount(preset)), " parameters"), std::string(preset.model)});
  }
  return rows;
}

Rows Clusters() {
  Rows rows;
  for (const ClusterInfo& cluster : ListClusters()) rows.push_back({cluster.name, cluster.summary});
  return rows;
}

Rows Strategies() {
  return {{"NO_SHARD",
           "distributed data parallelism (DDP): whole model on every rank, gradients averaged in buckets",
           "parallel { dp: N sharding: NO_SHARD bucket_mib: 25 }"},
          {"SHARD_OPTIMIZER, ZERO_1",
           "optimizer state sharded: less memory for no more communication", "parallel { dp: N sharding: ZERO_1 }"},
          {"SHARD_GRAD_OP, ZERO_2", "gradients, too: freed outside the shard as soon as they are reduced",
           "parallel { dp: N sharding: ZERO_2 }"},
          {"FULL_SHARD, ZERO_3",
           "parameters, too (FSDP): gathered unit by unit where they are used; half as much communication again",
           "parallel { dp: N sharding: ZERO_3 wrap { module: \"transformer_block\" } prefetch: 1 }"},
          {"HYBRID_SHARD", "FULL_SHARD within groups, such as nodes; gradients averaged between them",
           "parallel { dp: N sharding: HYBRID_SHARD shard_group: 8 }"}};
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

void AddTopic(CLI::App& list, const std::string& name, const std::string& summary, Rows (*rows)(),
              int& exit_status) {
  list.add_subcommand(name, summary)->callback([rows, &exit_status] {
    for (const auto& row : rows()) {
      std::printf("%s\n", row[0].c_str());
      for (size_t i = 1; i < row.size(); ++i) std::printf("    %s\n", row[i].c_str());
    }
    exit_status = kExitFine;
  });
}

}  // namespace

void AddListCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("list", "says what a spec can name");
  command->require_subcommand(1);
  AddTopic(*command, "models", "what model.preset can be", Models, exit_status);
  AddTopic(*command, "clusters", "what fabric.simulated.cluster can be", Clusters, exit_status);
  AddTopic(*command, "strategies", "layouts of parameters, gradients and work over ranks", Strategies,
           exit_status);
  AddTopic(*command, "fabrics", "what --fabric can be, and what this build and machine lack", Fabrics,
           exit_status);
  command->footer("Examples:\n  twofold list models\n  twofold list fabrics");
}

}  // namespace twofold
