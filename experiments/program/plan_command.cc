// twofold plan: which layout should a job have?
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "backends/host/simulated_cluster.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/plan/layouts_csv.h"
#include "experiments/program/plan/search.h"
#include "experiments/program/plan/table.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "strategies/from_spec.h"
#include "topologies/build.h"

namespace twofold {
namespace {

struct PlanOptions {
  std::string spec, model, cluster, framework, gap = "1%", budget, out, codecs;
  int64_t nodes = 0, ranks = 0, global_batch = 0, sequence = 0, top = 10;
  double price = 0;
  int processes = 0;
  std::vector<std::string> sets;
  bool exhaustive = false, what_if = false, json = false;
};

// ---- The question ----

absl::StatusOr<std::string> TextOf(const PlanOptions& o) {
  if (!o.spec.empty()) {
    if (!o.model.empty())
      return InvalidArgument("--model=", o.model, ": SPEC has a model; use --set=model.preset=", o.model);
    return ReadFile(o.spec);
  }
  if (o.model.empty())
    return InvalidArgument("SPEC or --model is missing: a spec, or a name of `twofold list models` such as llama3-70b");
  return StrCat("model { preset: \"", o.model,
                "\" }\ntrain { clip_norm: 1 precision { parameter: BF16 reduce: F32 } }\n");
}

std::vector<std::string> SetsOf(const PlanOptions& o) {
  std::vector<std::string> sets = o.sets;
  if (!o.cluster.empty()) sets.push_back(StrCat("fabric.simulated.cluster=", o.cluster));
  if (o.nodes > 0) sets.push_back(StrCat("fabric.simulated.nodes=", o.nodes));
  if (o.global_batch > 0) sets.push_back(StrCat("train.global_batch=", o.global_batch));
  if (!o.framework.empty()) sets.push_back(StrCat("framework=", o.framework));
  return sets;
}

absl::Status SetSequence(int64_t sequence, spec::Model& model) {
  if (sequence == 0) return absl::OkStatus();
  if (model.has_gpt()) return model.mutable_gpt()->set_sequence(sequence), absl::OkStatus();
  if (model.has_llama()) return model.mutable_llama()->set_sequence(sequence), absl::OkStatus();
  if (model.has_moe()) return model.mutable_moe()->mutable_llama()->set_sequence(sequence), absl::OkStatus();
  return InvalidArgument("--sequence=", sequence, ": the model has no sequences; leave it out");
}

// What a plan cannot answer.
absl::Status CheckPlannable(const spec::Spec& spec, const std::string& file) {
  const spec::Train& train = spec.train();
  const auto refuse = [&file](const char* field, const char* why) {
    return InvalidArgument(file, ": ", field, ": ", why);
  };
  if (ModelOf(spec.model()) == nullptr) return refuse("model", "is missing; give a preset, or sizes");
  if (!train.has_global_batch())
    return refuse("train.global_batch", "is missing; a plan divides it among ranks: give --global-batch, or set it");
  if (train.has_local_update() || spec.parallel().islands() > 1)
    return refuse("train.local_update", "islands are not planned; leave it out");
  if (train.has_async_sgd()) return refuse("train.async_sgd", "only synchronous training is planned; leave it out");
  if (train.has_elastic()) return refuse("train.elastic", "only runs of a fixed size are planned; leave it out");
  if (spec.fabric().simulated().faults_size() > 0)
    return refuse("fabric.simulated.faults", "a plan is for a run without faults; leave them out");
  if (spec.model().moe().routing().has_counts())
    return refuse("model.moe.routing.counts", "is known only for one layout; use balanced or zipf");
  if (spec.fabric().simulated().data() == spec::Simulated::REAL)
    return refuse("fabric.simulated.data", "REAL computes everything; use SYMBOLIC");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> CodecsOf(const std::string& text) {
  std::vector<std::string> codecs = absl::StrSplit(text, ',', absl::SkipEmpty()), known;
  const auto& oneof = *spec::Compression::descriptor()->FindOneofByName("codec");
  for (int i = 0; i < oneof.field_count(); ++i) known.push_back(oneof.field(i)->name());
  for (const std::string& codec : codecs) {
    if (std::find(known.begin(), known.end(), codec) == known.end())
      return InvalidArgument("--codecs: \"", codec, "\" is not a codec", Suggestion(codec, known));
  }
  return codecs;
}

absl::StatusOr<plan::Question> QuestionOf(const PlanOptions& o) {
  const absl::StatusOr<std::string> text = TextOf(o);
  if (!text.ok()) return text.status();
  plan::Question q;
  q.file = o.spec.empty() ? o.model : o.spec;
  absl::StatusOr<spec::Spec> given = GivenSpec(*text, q.file, "simulated", SetsOf(o));
  if (!given.ok()) return given.status();
  q.given = *std::move(given);
  if (absl::Status s = SetSequence(o.sequence, *q.given.mutable_model()); !s.ok()) return s;
  if (absl::Status s = CheckPlannable(q.given, q.file); !s.ok()) return s;
  absl::StatusOr<std::vector<std::string>> codecs = CodecsOf(o.codecs);
  if (!codecs.ok()) return codecs.status();
  q.codecs = *std::move(codecs);
  const spec::Simulated& simulated = q.given.fabric().simulated();
  const auto cluster = host::FindSimulatedCluster(simulated);
  if (!cluster.ok()) return cluster.status();
  const absl::StatusOr<int> each = DevicesPerNode(*cluster);
  q.ranks_per_node = each.ok() ? *each : 1;
  const spec::Parallel& p = q.given.parallel();
  if (o.ranks != 0)
    q.ranks = o.ranks;
  else if (simulated.has_nodes())
    q.ranks = simulated.nodes() * q.ranks_per_node;
  else if (p.has_dp() && p.has_tp() && p.has_pp())
    q.ranks = p.dp() * p.tp() * p.pp() * std::max<int64_t>(1, p.cp());
  else
    return InvalidArgument(q.file,
                           ": fabric.simulated.nodes: is missing; say how large the job is: --nodes=32 or --ranks=256");
  constexpr int64_t kMostRanks = 1 << 20;
  if (q.ranks < 1 || q.ranks > kMostRanks)
    return InvalidArgument("--ranks: ", q.ranks, " is out of range; use 1 to ", kMostRanks);
  return q;
}

absl::StatusOr<double> GapOf(std::string text) {
  double percent = 0;
  const std::string given = text;
  if (absl::EndsWith(text, "%")) text.pop_back();
  if (!absl::SimpleAtod(text, &percent) || !(percent >= 0 && percent < 100))
    return InvalidArgument("--gap=", given,
                           ": use a share of the best time from 0 to below 100, in percent, such as 1%");
  return percent / 100;
}

absl::StatusOr<double> BudgetOf(std::string text) {
  if (text.empty()) return 0.0;
  double seconds = 0, unit = 1;
  const std::string given = text;
  if (absl::EndsWith(text, "s")) text.pop_back();
  if (absl::EndsWith(text, "min")) unit = 60, text.resize(text.size() - 3);
  if (!absl::SimpleAtod(text, &seconds) || !(seconds > 0 && seconds < 1e9))
    return InvalidArgument("--budget=", given, ": use a time above 0, such as 30s or 5min");
  return seconds * unit;
}

// ---- The answer ----

void ShowProgress(const std::string& doing) {
  if (HasStatusLine()) ShowStatusLine(doing);
}

absl::Status WriteWinner(const plan::Question& question, const plan::Plan& plan, const plan::Shown& shown,
                         const std::string& folder) {
  spec::Spec winner = question.given;
  plan::Apply(plan.ranked[0].layout, winner);
  return WriteFiles(folder, {{"spec.textproto", SpecToText(winner)},
                             {"plan.json", JsonText(PlanJson(plan, shown))},
                             {"layouts.csv", plan::LayoutsCsv(plan)}});
}

// A legal layout's spec, for what all layouts have in common.
std::optional<spec::Spec> AnySpec(const plan::Question& question) {
  std::optional<spec::Spec> any;
  for (int part = 0; part < 16 && !any; ++part) {
    (void)plan::Enumerate(question, {.index = part, .of = 16}, [&any](const plan::Layout&, const spec::Spec& spec) {
      if (!any) any = spec;
    });
  }
  return any;
}

// The shortest step of a question's space. Fills in shown.device.
absl::StatusOr<plan::Plan> Solve(const plan::Question& question, int processes, plan::Journal* journal,
                                 plan::Shown& shown) {
  std::optional<spec::Spec> any = AnySpec(question);
  if (!any) {
    const plan::Space none = plan::Enumerate(question, {}, [](const plan::Layout&, const spec::Spec&) {});
    return plan::CheckAny(question, none);
  }
  const absl::StatusOr<TrainingData> data = LoadTrainingData(*any, question.file);
  if (!data.ok()) return data.status();
  absl::StatusOr<std::unique_ptr<plan::Bounds>> bounds = plan::Bounds::Make(*any, data->samples());
  if (!bounds.ok()) {
    const absl::Status& why = bounds.status();
    return absl::Status(why.code(), StrCat(question.file, ": ", std::string(why.message())));
  }
  shown.device = (*bounds)->device_memory();
  plan::Worker worker(question, **bounds, PredictHere);
  auto pool = plan::Pool::Make(processes, [&worker](const std::string& task) { return worker.Do(task); });
  if (!pool.ok()) return pool.status();
  auto plan = plan::Search(question, shown.device, **pool, journal, shown.options);
  if (HasStatusLine()) ClearStatusLine();
  return plan;
}

// ---- What if ----

struct Variation {
  std::string name;
  plan::Question question;
};

std::vector<Variation> VariationsOf(const plan::Question& question) {
  std::vector<Variation> all;
  const auto simulated = [](plan::Question& q) { return q.given.mutable_fabric()->mutable_simulated(); };
  if (question.ranks > question.ranks_per_node) {
    all.push_back({"half the network's bandwidth", question});
    spec::Network& network = *simulated(all.back().question)->mutable_network();
    network.set_background(1 - (1 - network.background()) / 2);
  }
  all.push_back({"twice the nodes", question});
  all.back().question.ranks *= 2;
  if (question.given.fabric().simulated().has_nodes())
    simulated(all.back().question)->set_nodes(2 * question.given.fabric().simulated().nodes());
  return all;
}

std::vector<plan::WhatIf> AnswerVariations(const plan::Question& question, int processes, const plan::Shown& shown) {
  std::vector<plan::WhatIf> answers;
  for (const Variation& variation : VariationsOf(question)) {
    plan::Shown own = shown;
    own.ranks = variation.question.ranks;
    answers.push_back({variation.name, Solve(variation.question, processes, nullptr, own), shown.options});
  }
  return answers;
}

absl::StatusOr<int> MakePlanFor(const PlanOptions& o) {
  const absl::StatusOr<plan::Question> question = QuestionOf(o);
  if (!question.ok()) return question.status();
  plan::Shown shown{.rows = o.top, .price = o.price, .ranks = question->ranks};
  const absl::StatusOr<double> gap = GapOf(o.gap), budget = BudgetOf(o.budget);
  if (!gap.ok()) return gap.status();
  if (!budget.ok()) return budget.status();
  if (o.top < 1) return InvalidArgument("--top must be at least 1 (got ", o.top, ")");
  if (o.processes < 0) return InvalidArgument("--processes must be at least 0 (got ", o.processes, ")");
  if (!(o.price >= 0)) return InvalidArgument("--price must be at least 0 (got ", o.price, ")");
  shown.options = {.gap = *gap, .top = o.top, .budget = *budget, .exhaustive = o.exhaustive, .progress = ShowProgress};
  std::unique_ptr<plan::Journal> journal;
  if (!o.out.empty()) {
    if (absl::Status s = MakeOutFolder("--out", o.out); !s.ok()) return s;
    auto opened = plan::Journal::Open((std::filesystem::path(o.out) / "journal.jsonl").string(), *question);
    if (!opened.ok()) return opened.status();
    journal = *std::move(opened);
  }
  const int processes =
      o.processes > 0 ? o.processes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const auto plan = Solve(*question, processes, journal.get(), shown);
  if (!plan.ok()) return plan.status();
  if (o.what_if && !plan->ranked.empty()) shown.what_if = AnswerVariations(*question, processes, shown);
  std::printf("%s", o.json ? JsonText(PlanJson(*plan, shown)).c_str() : PlanText(*plan, shown).c_str());
  if (plan->ranked.empty()) return plan->open > 0 ? kExitFailed : kExitPredictedFailure;
  if (o.out.empty()) return kExitFine;
  if (absl::Status s = WriteWinner(*question, *plan, shown, o.out); !s.ok()) return s;
  LogInfo("the first layout's spec: ", (std::filesystem::path(o.out) / "spec.textproto").string());
  return kExitFine;
}

int PlanCommand(const PlanOptions& options) {
  const absl::StatusOr<int> status = MakePlanFor(options);
  if (status.ok()) return *status;
  LogError(status.status().message());
  return absl::IsInternal(status.status()) ? kExitFailed : kExitWrongInput;
}

}  // namespace

void AddPlanCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("plan", "searches for the fastest layout of a job that fits, and says what is proven");
  auto o = std::make_shared<PlanOptions>();
  command.AddOption("SPEC", o->spec,
                    "a spec, .textproto: what it says of the layout is fixed, what it leaves out is free");
  command.AddOption("--model", o->model,
                    "without SPEC: a model of `twofold list models`, in BF16 with F32 gradients and AdamW");
  command.AddOption("--cluster", o->cluster, "a cluster of `twofold list clusters`, or a file");
  command.AddOption("--nodes", o->nodes, "number of nodes; all their devices are used");
  command.AddOption("--ranks", o->ranks, "number of devices, instead of --nodes");
  command.AddOption("--global-batch", o->global_batch, "samples of a step");
  command.AddOption("--sequence", o->sequence, "tokens of a sample, instead of the model's");
  command.AddOption("--framework", o->framework, "predict for MEGATRON, DEEPSPEED, ... (docs/frameworks.md)");
  command.AddOption("--set", o->sets, "path=value: set a field of the spec, and so fix it; may be repeated")
      .Repeatable();
  command.AddOption("--codecs", o->codecs,
                    "also try compressed gradients: top_k,power_sgd,... (they change what is learned)");
  command.AddOption("--gap", o->gap, "stop when no layout can be faster by more than this; 0 proves the best --top")
      .ShowDefault();
  command.AddOption("--budget", o->budget, "stop after this time, screening included: 30s, 5min");
  command.AddOption("--top", o->top, "layouts to print").ShowDefault();
  command.AddOption("--price", o->price, "of a device and hour: prints the price of a billion tokens");
  command.AddFlag("--what-if", o->what_if,
                  "also plan for half the network's bandwidth, and for twice the nodes; each takes as long again");
  command.AddOption("--out", o->out,
                    "folder for the first layout's spec, plan.json, layouts.csv (all legal layouts; `twofold report` "
                    "draws them), and a "
                    "journal from which an interrupted plan goes on");
  command.AddOption("--processes", o->processes, "processes that bound and simulate (default: one for each core)");
  command.AddFlag("--exhaustive", o->exhaustive,
                  "simulate every legal layout: for small spaces; --json also has what their bounds were");
  command.AddFlag("--json", o->json, "print JSON");
  command.Footer(
      "Every legal combination of tp, pp, cp, ep, dp, sharding, schedule, virtual stages, micro-batch, recomputation,\n"
      "offload, sequence parallelism, bucket size and order of axes is considered (docs/planning.md). Lower bounds on\n"
      "memory and time leave out those that cannot fit or cannot win; the rest is simulated, the most promising "
      "first,\n"
      "until no other layout can be faster. The last lines say what was proven, and what was left open. A proof rests "
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
      "  twofold plan my.textproto --nodes=4 --set=parallel.tp=8 --budget=30s --out=runs/my-plan");
  command.OnParsed([o, &exit_status] { exit_status = PlanCommand(*o); });
}

}  // namespace twofold
