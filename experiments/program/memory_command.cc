// twofold memory SPEC
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/memory_advice.h"
#include "experiments/program/memory_story.h"
#include "experiments/program/memory_table.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

struct MemoryOptions {
  MemoryQuestion asked;
  std::string out;
  bool json = false;
};

absl::Status Write(const std::string& folder, const MemoryStory& story) {
  return WriteFiles(folder, {{"spec.textproto", SpecFileText(story.spec)},
                             {"memory.json", JsonText(MemoryJson(story))},
                             {"report.json", JsonText(ToJson(MemoryReport(story)))}});
}

int MemoryCommand(const MemoryOptions& options) {
  const absl::StatusOr<MemoryStory> story = TellMemory(options.asked);
  if (!story.ok()) {
    LogError(story.status().message());
    return absl::IsInternal(story.status()) ? kExitFailed : kExitWrongInput;
  }
  if (!options.out.empty()) {
    if (const absl::Status made = MakeOutFolder("--out", options.out); !made.ok()) {
      LogError(made.message());
      return kExitWrongInput;
    }
  }
  std::optional<MemoryAdvice> advice;
  if (story->verdict.fits == false) advice = AdviseOn(options.asked, *story);
  if (options.json) {
    nlohmann::ordered_json json = MemoryJson(*story);
    json["advice"] = advice ? MemoryAdviceJson(*advice) : nlohmann::ordered_json();
    std::printf("%s", JsonText(json).c_str());
  } else {
    std::printf("%s", MemoryText(*story).c_str());
    if (advice) std::printf("\n%s", MemoryAdviceText(*advice).c_str());
  }
  if (!options.out.empty()) {
    if (const absl::Status written = Write(options.out, *story); !written.ok()) {
      LogError(written.message());
      return kExitFailed;
    }
    if (!options.json) std::printf("\nreport: %s\n", options.out.c_str());
  }
  const absl::Status& status = story->verdict.status;
  if (status.ok()) return kExitFine;
  LogError("OUT_OF_MEMORY: ", status.message());
  return kExitPredictedFailure;
}

}  // namespace

void AddMemoryCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("memory", "predicts the memory that a spec needs, within moments, and shows what uses it");
  auto options = std::make_shared<MemoryOptions>();
  command.AddOption("SPEC", options->asked.file, "a spec, .textproto or .json").Required();
  command.AddOption("--fabric=FABRIC", options->asked.fabric, "predict for this fabric instead of the spec's");
  command.AddOption("--set=FIELD=V", options->asked.sets, "replace a field of the spec; may be repeated").Repeatable();
  command.AddOption("--out=DIR", options->out, "folder for memory.json and report.json (default: nothing is written)");
  command.AddFlag("--json", options->json, "print JSON: what memory.json has, and `advice` if it does not fit");
  command.Footer(
      "Only one rank of each kind runs, on a fabric without a clock. The same code makes the same requests to the\n"
      "same allocator, so the bytes are those that a run of the spec measures. Steps that repeat earlier ones are\n"
      "left out, so that specs of any size and length take only a moment.\n"
      "\n"
      "  at the peak    bytes of each category when their sum is highest\n"
      "  own peak       the most bytes that each category ever has\n"
      "  between steps  bytes that remain: the model states of the ZeRO paper; its formula is shown below\n"
      "  reserved       what the allocator takes from the device, free blocks included\n"
      "\n"
      "What does not fit is followed by the three changes that make it fit and cost least, of BF16, recomputation,\n"
      "ZeRO, tp, offload and smaller micro-batches: each with its memory and, on fabric simulated, its step time.\n"
      "\n"
      "Exit status: 0 it fits, or that is not known (no such GPU here, or only the launcher knows the hosts);\n"
      "1 the prediction fails, or the report cannot be written; 2 wrong input; 3 it exceeds the memory of the\n"
      "device, memory.budget_mib or, if ranks share this machine's CPU, the memory of this machine.\n"
      "\nExamples:\n"
      "  twofold memory my.textproto\n"
      "  twofold memory my.textproto --set=parallel.dp=64 --set=parallel.sharding=ZERO_3\n"
      "  twofold memory my.textproto --set=memory.budget_mib=16384 --set=train.micro_batch=8\n"
      "  twofold memory my.textproto --set=fabric.simulated.cluster=star-h100 --out=runs/memory");
  command.OnParsed([options, &exit_status] { exit_status = MemoryCommand(*options); });
}

}  // namespace twofold
