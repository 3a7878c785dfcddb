// twofold init: a first spec.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/other_names.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/describe/template.h"
#include "experiments/program/report/files.h"
#include "experiments/program/spec/presets.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace {

struct InitOptions {
  std::string file, model = "gpt-3m", cluster, framework;
};

absl::Status CheckModel(const std::string& name) {
  std::vector<std::string> known;
  for (const ModelPreset& preset : ModelPresets()) known.emplace_back(preset.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
  return InvalidArgument("--model=", name, ": unknown model", Suggestion(name, known));
}

absl::Status CheckFramework(const InitOptions& options) {
  if (options.framework.empty()) return absl::OkStatus();
  const auto& field = *spec::Spec::descriptor()->FindFieldByNumber(spec::Spec::kFrameworkFieldNumber);
  if (field.enum_type()->FindValueByName(options.framework) == nullptr)
    return InvalidArgument("--framework=", options.framework, ": unknown framework",
                           ValueSuggestion(options.framework, field));
  if (!options.cluster.empty()) return absl::OkStatus();
  return InvalidArgument("--framework=", options.framework, ": predicts; name the cluster, too: --cluster=dgx-h100");
}

absl::StatusOr<std::string> TextOf(const InitOptions& options) {
  for (const absl::Status& fine : {CheckModel(options.model), CheckFramework(options)})
    if (!fine.ok()) return fine;
  TemplateChoice choice{.model = options.model, .cluster = options.cluster, .framework = options.framework};
  if (!options.cluster.empty()) {
    const absl::StatusOr<cluster::Cluster> cluster = FindCluster(options.cluster, "--cluster");
    if (!cluster.ok()) return cluster.status();
    choice.gpus = cluster->device().kind() == cluster::Device::GPU_DEVICE;
    const absl::StatusOr<int> devices = DevicesPerNode(*cluster);
    if (!devices.ok()) return devices.status();
    choice.ranks = *devices;
  }
  spec::Spec named;
  named.mutable_model()->set_preset(options.model);
  if (const absl::Status known = ExpandPreset(named, "init"); !known.ok()) return known;
  choice.tokens = ModelOf(named.model())->input().kind == ModelInput::kTokens;
  std::string text = SpecTemplate(SpecFields(), choice);
  const absl::StatusOr<spec::Spec> right = ResolveSpec(text, "init");  // what is printed is always valid
  if (!right.ok()) return right.status();
  return text;
}

absl::Status WriteNew(const std::string& path, const std::string& text) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, none)))
    return InvalidArgument(path, ": exists; init overwrites nothing. Remove it, or give another name");
  if (path.ends_with(".json"))
    return InvalidArgument(path, ": init writes text format, since JSON has no comments; use a name such as ",
                           std::filesystem::path(path).replace_extension(".textproto").string());
  if (absl::Status fine = CheckOutFile("FILE", path); !fine.ok()) return fine;
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) return Internal(path, ": cannot be written");
  return absl::OkStatus();
}

int Init(const InitOptions& options) {
  const absl::StatusOr<std::string> text = TextOf(options);
  if (!text.ok()) {
    LogError(text.status().message());
    return kExitWrongInput;
  }
  if (options.file.empty()) {
    std::printf("%s", text->c_str());
    return kExitFine;
  }
  if (const absl::Status written = WriteNew(options.file, *text); !written.ok()) {
    LogError(written.message());
    return absl::IsInternal(written) ? kExitFailed : kExitWrongInput;
  }
  std::printf("%s\n", options.file.c_str());
  LogInfo("next: twofold memory ", options.file, ", then twofold run ", options.file);
  return kExitFine;
}

}  // namespace

void AddInitCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("init", "writes a first spec, with comments, to edit");
  auto options = std::make_shared<InitOptions>();
  command.AddOption("FILE", options->file, "the spec to write, .textproto; default: it goes to stdout");
  command.AddOption("--model=MODEL", options->model, "value of model.preset; see `twofold list models`").ShowDefault();
  command.AddOption("--cluster=CLUSTER", options->cluster,
                    "predict on this cluster, one rank on each device of a node; default: train here, on 2 ranks");
  command.AddOption("--framework=FRAMEWORK", options->framework, "predict what it takes there; needs --cluster");
  command.Footer(
      "The spec is valid as it is. On GPUs it has BF16, sharded parameters and recomputation, which fit most models; "
      "`twofold plan` finds\n"
      "the fastest layout. Comments are those of `twofold spec`. A file that exists is not overwritten.\n"
      "Exit status: 0 fine; 1 the file cannot be written; 2 wrong input, or the file exists.\n"
      "\nExamples:\n"
      "  twofold init my.textproto\n"
      "  twofold init --model=llama3-8b --cluster=dgx-h100 my.textproto\n"
      "  twofold init --model=gpt2-124m --cluster=dgx-a100 --framework=MEGATRON");
  command.OnParsed([options, &exit_status] { exit_status = Init(*options); });
}

}  // namespace twofold
