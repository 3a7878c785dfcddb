#include "experiments/program/make_plan.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "backends/host/simulated_cluster.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "experiments/program/plan/layouts_csv.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "strategies/from_spec.h"
#include "topologies/build.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

// ---- The question ----

constexpr char kOtherModels[] =
    "for a model without a name there, give a SPEC with model { hf_config: \"config.json\" }, or with its sizes";

absl::StatusOr<std::string> TextOf(const PlanAsked& o) {
  if (!o.spec.empty() || o.text) {
    if (!o.model.empty())
      return InvalidArgument("--model=", o.model, ": SPEC has a model; use --set=model.preset=", o.model);
    return o.text ? absl::StatusOr<std::string>(*o.text) : ReadFile(o.spec);
  }
  if (o.model.empty())
    return InvalidArgument(
        "SPEC or --model is missing: a spec, or a name of `twofold list models` such as llama3-70b; ", kOtherModels);
  if (o.model.find_first_of("./") != std::string::npos && std::filesystem::is_regular_file(o.model)) {
    return InvalidArgument("--model=", o.model, ": is a file, and --model takes a name of `twofold list models`; ",
                           kOtherModels);
  }
  return StrCat("model { preset: \"", o.model,
                "\" }\ntrain { clip_norm: 1 precision { parameter: BF16 reduce: F32 } }\n");
}

std::vector<std::string> SetsOf(const PlanAsked& o) {
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

absl::StatusOr<plan::Question> QuestionOf(const PlanAsked& o) {
  const absl::StatusOr<std::string> text = TextOf(o);
  if (!text.ok()) return text.status();
  plan::Question q;
  q.file = o.spec.empty() ? o.model : o.spec;
  absl::StatusOr<spec::Spec> given = GivenSpec(*text, q.file, "simulated", SetsOf(o));
  if (!given.ok()) return given.status();
  q.given = *std::move(given);
  if (q.given.framework() != spec::TWOFOLD) {
    const absl::StatusOr<framework::Framework> found = FindFramework(q.given);
    if (!found.ok()) return found.status();
    const spec::Train& defaults = found->defaults().train();
    q.early_stop = defaults.activation_checkpointing().early_stop();
    // It depends on the layout, too. The default is already in the spec.
    spec::Precision& precision = *q.given.mutable_train()->mutable_precision();
    q.keep_weights = precision.matmul() == spec::Precision::FP8 && defaults.precision().fp8().keep_weights();
    if (q.keep_weights && precision.fp8().keep_weights()) precision.mutable_fp8()->clear_keep_weights();
  }
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

// Of a planned spec without a name, whose file is always called spec.textproto: its runs get a folder named after the
// model or the spec that was asked about.
std::string NameOfPlanned(const PlanAsked& asked) {
  std::string name = asked.spec.empty() ? asked.model : std::filesystem::path(asked.spec).stem().string();
  const auto unusual = [](char c) {
    return !absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.';
  };
  std::replace_if(name.begin(), name.end(), unusual, '_');
  return StrCat(name.empty() ? "spec" : name, "-planned");
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
  plan::Worker worker(question, **bounds, PredictSteps);
  auto pool = plan::Pool::Make(processes, [&worker](const std::string& task) { return worker.Do(task); });
  if (!pool.ok()) return pool.status();
  return plan::Search(question, shown.device, **pool, journal, shown.options);
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

absl::StatusOr<plan::Shown> ShownOf(const PlanAsked& o, std::function<void(const std::string& doing)> progress) {
  const absl::StatusOr<double> gap = GapOf(o.gap), budget = BudgetOf(o.budget);
  if (!gap.ok()) return gap.status();
  if (!budget.ok()) return budget.status();
  if (o.top < 1) return InvalidArgument("--top must be at least 1 (got ", o.top, ")");
  if (o.processes < 0) return InvalidArgument("--processes must be at least 0 (got ", o.processes, ")");
  if (!(o.price >= 0)) return InvalidArgument("--price must be at least 0 (got ", o.price, ")");
  plan::Shown shown{.rows = o.top, .price = o.price};
  shown.options = {
      .gap = *gap, .top = o.top, .budget = *budget, .exhaustive = o.exhaustive, .progress = std::move(progress)};
  return shown;
}

}  // namespace

absl::StatusOr<PlanMade> MakePlan(const PlanAsked& o, std::function<void(const std::string& doing)> progress) {
  absl::StatusOr<plan::Question> question = QuestionOf(o);
  if (!question.ok()) return question.status();
  absl::StatusOr<plan::Shown> shown = ShownOf(o, std::move(progress));
  if (!shown.ok()) return shown.status();
  shown->ranks = question->ranks;
  std::unique_ptr<plan::Journal> journal;
  if (!o.out.empty()) {
    if (absl::Status s = MakeOutFolder("--out", o.out); !s.ok()) return s;
    auto opened = plan::Journal::Open((std::filesystem::path(o.out) / "journal.jsonl").string(), *question);
    if (!opened.ok()) return opened.status();
    journal = *std::move(opened);
  }
  const int processes =
      o.processes > 0 ? o.processes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  absl::StatusOr<plan::Plan> plan = Solve(*question, processes, journal.get(), *shown);
  if (!plan.ok()) return plan.status();
  if (o.what_if && !plan->ranked.empty()) shown->what_if = AnswerVariations(*question, processes, *shown);
  return PlanMade{*std::move(question), *std::move(plan), *std::move(shown), NameOfPlanned(o)};
}

absl::Status WritePlan(const PlanMade& made, const std::string& folder) {
  spec::Spec winner = made.question.given;
  plan::Apply(made.plan.ranked[0].layout, winner);
  if (winner.name().empty()) winner.set_name(made.name);
  return WriteFiles(folder, {{"spec.textproto", SpecFileText(winner)},
                             {"plan.json", JsonText(PlanJson(made.plan, made.shown))},
                             {"layouts.csv", plan::LayoutsCsv(made.plan)}});
}

}  // namespace twofold
