// twofold plan: which layout should a job have?
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "experiments/program/cli/log.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/make_plan.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

struct PlanOptions {
  PlanAsked asked;
  bool json = false;
};

absl::StatusOr<int> MakePlanFor(const PlanOptions& options) {
  const PlanAsked& o = options.asked;
  const absl::StatusOr<PlanMade> made = MakePlan(o, TellProgress);
  if (HasStatusLine()) ClearStatusLine();
  if (!made.ok()) return made.status();
  const auto& [question, plan, shown, name] = *made;
  if (!question.given.fabric().simulated().has_cluster())
    LogInfo("no --cluster is given, so this plan is for this machine (`twofold list clusters` lists others)");
  std::printf("%s", options.json ? JsonText(PlanJson(plan, shown)).c_str() : PlanText(plan, shown).c_str());
  LogInfo("the plan took ", PlanCostText(plan));
  if (plan.ranked.empty()) return plan.open > 0 ? kExitFailed : kExitPredictedFailure;
  if (o.out.empty()) return kExitFine;
  if (absl::Status s = WritePlan(*made, o.out); !s.ok()) return s;
  LogInfo("the first layout's spec: ", (std::filesystem::path(o.out) / "spec.textproto").string());
  return kExitFine;
}

int PlanCommand(const PlanOptions& options) {
  const absl::StatusOr<int> status = MakePlanFor(options);
  if (status.ok()) return *status;
  LogError(status.status().message());
  return absl::IsInternal(status.status()) ? kExitFailed : kExitWrongInput;
}

constexpr char kPlanHelp[] =
    "Every legal combination of tp, pp, cp, ep, dp, sharding, schedule, virtual stages, micro-batch, recomputation,\n"
    "offload, sequence parallelism, bucket size and order of axes is considered (docs/planning.md). Lower bounds on\n"
    "memory and time leave out those that cannot fit or cannot win; the rest is simulated, the most promising "
    "first,\n"
    "until no other layout can be faster. Of layouts that are not told apart, the plainest is listed first: it may "
    "be\n"
    "slower than the fastest by what their times may be off (≈). The last lines say what was proven, and what was "
    "left\n"
    "open. A proof rests "
    "on\n"
    "the bounds, which are tested on small spaces.\n"
    "\n"
    "Times are those of the second of two simulated steps, as `twofold predict` gives them.\n"
    "\n"
    "Exit status: 0 a layout was found; 1 a failure, or --budget ended before one was; 2 wrong input; 3 no layout\n"
    "fits.\n"
    "\nExamples:\n"
    "  twofold plan --model=llama3-70b --cluster=dgx-h100 --nodes=32 --global-batch=1024\n"
    "  twofold plan --model=llama3-8b --cluster=dgx-a100 --nodes=1 --global-batch=64 --gap=0 --top=5\n"
    "  twofold plan my.textproto --nodes=4 --set=parallel.tp=8 --budget=30s --out=runs/my-plan";

}  // namespace

void AddPlanCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("plan", "searches for the fastest layout of a job that fits, and says what is proven");
  auto o = std::make_shared<PlanOptions>();
  command.AddOption("SPEC", o->asked.spec,
                    "a spec, .textproto or .json: what it says of the layout is fixed, what it leaves out is free");
  command.Group("The job").AddOption(
      "--model=MODEL", o->asked.model,
      "without SPEC: a model of `twofold list models`, in BF16 with F32 gradients and AdamW");
  command.AddOption("--cluster=CLUSTER", o->asked.cluster, "a cluster of `twofold list clusters`, or a file");
  command.AddOption("--nodes=N", o->asked.nodes, "number of nodes; all their devices are used");
  command.AddOption("--ranks=N", o->asked.ranks, "number of devices, instead of --nodes");
  command.AddOption("--global-batch=N", o->asked.global_batch, "samples of a step");
  command.AddOption("--sequence=N", o->asked.sequence, "tokens of a sample, instead of the model's");
  command.AddOption("--framework=FRAMEWORK", o->asked.framework,
                    "predict for MEGATRON, DEEPSPEED, ... (docs/frameworks.md)");
  command.AddOption("--set=FIELD=V", o->asked.sets, "set a field of the spec, and so fix it; may be repeated")
      .Repeatable();
  command.Group("The search")
      .AddOption("--codecs=CODEC,CODEC", o->asked.codecs,
                 "also try compressed gradients: top_k,power_sgd,... (they change what is learned)");
  command
      .AddOption("--gap=PERCENT", o->asked.gap,
                 "stop when no layout can be faster by more than this; 0 proves the best --top")
      .ShowDefault();
  command.AddOption("--budget=TIME", o->asked.budget,
                    "stop after this time, counted from the start, but not before all layouts are screened: 30s, 5min");
  command.Group("Results").AddOption("--top=N", o->asked.top, "layouts to print").ShowDefault();
  command.AddOption("--price=PRICE", o->asked.price, "of a device and hour: prints the price of a billion tokens");
  command.Group("The search")
      .AddFlag("--what-if", o->asked.what_if,
               "also plan for half the network's bandwidth, and for twice the nodes; each takes as long again");
  command.Group("Results").AddOption(
      "--out=DIR", o->asked.out,
      "folder for the first layout's spec, plan.json, layouts.csv (all legal layouts; `twofold report` draws them), "
      "and a journal from which an interrupted plan goes on");
  command.Group("The search")
      .AddOption("--processes=N", o->asked.processes, "processes that bound and simulate (default: one for each core)");
  command.AddFlag("--exhaustive", o->asked.exhaustive,
                  "simulate every legal layout: for small spaces; --json also has what their bounds were");
  command.Group("Results").AddFlag("--json", o->json, "print JSON");
  command.Footer(kPlanHelp);
  command.OnParsed([o, &exit_status] { exit_status = PlanCommand(*o); });
}

}  // namespace twofold
