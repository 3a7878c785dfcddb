#include "experiments/program/answers.h"
#include "experiments/program/cli/note_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/base/suggestion.h"
#include "core/proto/elsewhere.h"
#include "experiments/program/bench/plan.h"
#include "experiments/program/make_plan.h"
#include "experiments/program/memory_story.h"
#include "experiments/program/predict/sweep.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/run_sweep.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/sweep/table.h"

namespace twofold {
namespace {

using Json = nlohmann::ordered_json;

// ---- Arguments ----

constexpr const char* Expected(const std::string*) { return "text"; }
constexpr const char* Expected(const int64_t*) { return "a whole number"; }
constexpr const char* Expected(const int*) { return "a whole number"; }
constexpr const char* Expected(const double*) { return "a number"; }
constexpr const char* Expected(const bool*) { return "true or false"; }
constexpr const char* Expected(const std::vector<std::string>*) { return "a list of texts"; }

bool Read(const Json& json, std::string& value) { return json.is_string() && (value = json.get<std::string>(), true); }
bool Read(const Json& json, double& value) { return json.is_number() && (value = json.get<double>(), true); }
bool Read(const Json& json, bool& value) { return json.is_boolean() && (value = json.get<bool>(), true); }
bool Read(const Json& json, int64_t& value) {
  const bool fits = json.is_number_integer() && !(json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX);
  return fits && (value = json.get<int64_t>(), true);
}
bool Read(const Json& json, int& value) {
  int64_t wide = 0;
  return Read(json, wide) && wide >= INT32_MIN && wide <= INT32_MAX && (value = static_cast<int>(wide), true);
}
bool Read(const Json& json, std::vector<std::string>& values) {
  if (!json.is_array()) return false;
  for (const Json& one : json) {
    if (!Read(one, values.emplace_back())) return false;
  }
  return true;
}

// Takes arguments by name. The first that is wrong stays in `status`, and so does one that nobody takes.
class Arguments {
 public:
  explicit Arguments(const prediction::Question& question)
      : command_(question.command()), json_(Json::parse(question.arguments(), nullptr, /*allow_exceptions=*/false)) {
    if (!json_.is_object()) status_ = InvalidArgument(command_, ": the arguments are no JSON object");
  }
  template <class T>
  void Take(const char* name, T& value) {
    const Json* json = Find(name);
    if (json == nullptr || Read(*json, value)) return;
    Refuse(name, StrCat("expected ", Expected(static_cast<T*>(nullptr)), " (got ", JsonOf(*json), ")"));
  }
  template <class T>
  void Take(const char* name, std::optional<T>& value) {
    if (Find(name) != nullptr) Take(name, value.emplace());
  }
  // `spec` or `text`, and the name that begins errors.
  void TakeSpec(std::string& file, std::optional<std::string>& text) {
    Take("text", text);
    const Json* json = Find("spec");
    if (text || (json != nullptr && json->is_object())) file = "spec";
    if (json == nullptr) return;
    if (!json->is_object()) return Take("spec", file);
    spec::Spec spec;
    const absl::Status status = FromJson(*json, &spec);
    if (!status.ok()) return Refuse("spec", status.message());
    text = SpecToText(spec);
  }
  // `set`, and `names`: those of the fields that a caller wrote like arguments of the command, as in nodes=1.
  void TakeSets(std::vector<std::string>& sets) {
    Take("set", sets);
    Take("names", names_);
  }
  // Call it when all are taken.
  absl::Status status() {
    for (const auto& [name, value] : json_.items()) {
      if (std::find(known_.begin(), known_.end(), name) == known_.end())
        Refuse(name, StrCat("is no argument of ", command_, Suggestion(name, ShownNames())));
    }
    for (const std::string& name : names_) CheckField(name);
    return status_;
  }

 private:
  // parallel__dp and parallel.dp need a block `parallel`; what it has, the spec checks.
  void CheckField(const std::string& name) {
    const google::protobuf::Descriptor& spec = *spec::Spec::descriptor();
    const std::string block = name.substr(0, std::min(name.find("__"), name.find('.')));
    if (spec.FindFieldByName(block) != nullptr) return;
    std::string paths;
    for (const std::string& path : PathsElsewhere(spec, block))
      StrAppend(&paths, paths.empty() ? "; a field is set by " : " or ", absl::StrReplaceAll(path, {{".", "__"}}), "=");
    Refuse(name, StrCat("is neither an argument of ", command_, " nor a field of the spec",
                        Suggestion(name, ShownNames()), paths));
  }
  std::vector<std::string> ShownNames() const {
    std::vector<std::string> shown;
    for (const std::string& name : known_) {
      if (name != "text" && name != "names") shown.push_back(name);
    }
    return shown;
  }
  static std::string JsonOf(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
  }
  const Json* Find(const char* name) {
    known_.emplace_back(name);
    const auto found = json_.find(name);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  void Refuse(absl::string_view name, absl::string_view why) {
    if (status_.ok()) status_ = InvalidArgument(name, ": ", why);
  }

  const std::string command_;
  const Json json_;
  std::vector<std::string> known_, names_;
  absl::Status status_;
};

// ---- Answers ----

// What people look at first: [name, value] each.
Json SummaryOf(const report::Report& r) {
  Json rows = Json::array();
  const auto add = [&rows](const char* name, const std::string& value) { rows.push_back({name, value}); };
  if (r.outcome() != report::OK) add("outcome", StrCat(report::Outcome_Name(r.outcome()), ": ", r.message()));
  add("ranks", CountText(r.world_size()));
  if (r.median_step_seconds() > 0) {
    add("step time", SecondsText(r.median_step_seconds()));
    add("interval", StrCat(SecondsText(r.low()), " to ", SecondsText(r.high())));
    add("tokens/s", RateText(r.tokens_per_second()));
    add("exposed communication", SecondsText(r.exposed_communication_seconds()));
  }
  if (r.mfu() > 0) add("MFU", ShareText(r.mfu()));
  int64_t peak = 0, reserved = 0, device = 0;
  for (const report::Rank& rank : r.ranks()) {
    peak = std::max(peak, rank.peak_bytes());
    reserved = std::max(reserved, rank.reserved_bytes());
    device = std::max(device, rank.framework().device_bytes());
  }
  if (device > 0) {
    add("device memory", BytesText(static_cast<double>(device)));
  } else {
    add("peak memory", BytesText(static_cast<double>(peak)));
    add("reserved memory", BytesText(static_cast<double>(reserved)));
  }
  return rows;
}

absl::StatusOr<Json> Predict(Arguments& arguments) {
  std::string file;
  std::optional<std::string> text;
  std::vector<std::string> sets;
  arguments.TakeSpec(file, text);
  arguments.TakeSets(sets);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  if (!text) {
    absl::StatusOr<std::string> read = ReadFile(file);
    if (!read.ok()) return read.status();
    text = *std::move(read);
  }
  absl::StatusOr<spec::Spec> spec = ResolveSpec(*text, file, "simulated", SetsOfPrediction(sets));
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<report::Report> report = PredictHere(*std::move(spec), file);
  if (!report.ok()) return report.status();
  return Json{{"report", ReportJson(*report)}, {"summary", SummaryOf(*report)}};
}

absl::StatusOr<Json> Memory(Arguments& arguments) {
  MemoryQuestion asked;
  bool advice = true;
  arguments.TakeSpec(asked.file, asked.text);
  arguments.TakeSets(asked.sets);
  arguments.Take("fabric", asked.fabric);
  arguments.Take("advice", advice);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  const absl::StatusOr<MemoryStory> story = TellMemory(asked);
  if (!story.ok()) return story.status();
  Json json{{"memory", MemoryJson(*story)}, {"report", ToJson(MemoryReport(*story))}, {"advice", nullptr}};
  std::string text = MemoryText(*story);
  if (advice && story->verdict.fits == false) {
    const MemoryAdvice advised = AdviseOn(asked, *story);
    json["advice"] = MemoryAdviceJson(advised);
    StrAppend(&text, "\n", MemoryAdviceText(advised));
  }
  json["text"] = text;
  return json;
}

absl::StatusOr<Json> Plan(Arguments& arguments) {
  PlanAsked o;
  arguments.TakeSpec(o.spec, o.text);
  arguments.Take("model", o.model);
  arguments.Take("cluster", o.cluster);
  arguments.Take("nodes", o.nodes);
  arguments.Take("ranks", o.ranks);
  arguments.Take("global_batch", o.global_batch);
  arguments.Take("sequence", o.sequence);
  arguments.Take("framework", o.framework);
  arguments.TakeSets(o.sets);
  arguments.Take("codecs", o.codecs);
  arguments.Take("gap", o.gap);
  arguments.Take("budget", o.budget);
  arguments.Take("top", o.top);
  arguments.Take("price", o.price);
  arguments.Take("what_if", o.what_if);
  arguments.Take("out", o.out);
  arguments.Take("processes", o.processes);
  arguments.Take("exhaustive", o.exhaustive);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  const absl::StatusOr<PlanMade> made = MakePlan(o, nullptr);
  if (!made.ok()) return made.status();
  if (!o.out.empty() && !made->plan.ranked.empty()) {
    if (absl::Status s = WritePlan(*made, o.out); !s.ok()) return absl::InternalError(s.message());
  }
  return Json{{"plan", PlanJson(made->plan, made->shown)}, {"text", PlanText(made->plan, made->shown)}};
}

absl::StatusOr<Json> Sweep(Arguments& arguments) {
  SweepAsked o;
  arguments.TakeSpec(o.points.file, o.text);
  arguments.Take("vary", o.points.varied);
  arguments.TakeSets(o.points.sets);
  arguments.Take("fixed", o.points.fixed);
  arguments.Take("predicted", o.points.predict);
  arguments.Take("measured", o.points.measure);
  arguments.Take("fabric", o.points.fabric);
  arguments.Take("scaling", o.points.scaling);
  arguments.Take("repeats", o.repeats);
  arguments.Take("processes", o.processes);
  arguments.Take("again", o.again);
  arguments.Take("out", o.out);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  const absl::StatusOr<SweepTold> told = RunSweep(o);
  if (!told.ok()) return told.status();
  if (!told->written.ok()) return absl::InternalError(told->written.message());
  return Json{{"sweep", sweep::ResultsJson(told->results)},
              {"text", told->text + NotesText(told->notes, "full")},
              {"out", told->out}};
}

absl::StatusOr<Json> Bench(Arguments& arguments) {
  bench::Options o;
  arguments.Take("operation", o.operation);
  arguments.Take("minbytes", o.least);
  arguments.Take("maxbytes", o.most);
  arguments.Take("stepfactor", o.factor);
  arguments.Take("stepbytes", o.step);
  arguments.Take("iters", o.iterations);
  arguments.Take("warmup_iters", o.warmup);
  arguments.Take("wait", o.wait);
  arguments.Take("op", o.reduce);
  arguments.Take("datatype", o.dtype);
  arguments.Take("root", o.root);
  arguments.Take("check", o.check);
  arguments.Take("fabric", o.fabric);
  arguments.Take("device", o.device);
  arguments.Take("ranks", o.ranks);
  arguments.Take("cluster", o.cluster);
  arguments.Take("nodes", o.nodes);
  arguments.Take("ranks_per_node", o.ranks_per_node);
  arguments.Take("algorithm", o.algorithm);
  arguments.Take("protocol", o.protocol);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  absl::StatusOr<bench::Plan> plan = bench::MakePlan(o);
  if (!plan.ok()) return plan.status();
  (void)bench::Run(*plan);  // its error is in the bench
  const bench::Bench& done = plan->bench;
  return Json{{"bench", Json::parse(bench::JsonText(done))},
              {"text", bench::HeaderText(done) + bench::RowsText(done) + bench::FooterText(done)}};
}

absl::StatusOr<Json> Load(Arguments& arguments) {
  std::string folder;
  arguments.Take("folder", folder);
  if (absl::Status s = arguments.status(); !s.ok()) return s;
  const absl::StatusOr<report::Report> report = ReadReport(folder);
  if (!report.ok()) return report.status();
  const absl::StatusOr<spec::Spec> spec = ReadSpecOf(folder);
  if (!spec.ok()) return spec.status();
  return Json{{"report", ReportJson(*report)}, {"spec", SpecFileText(*spec)}, {"summary", SummaryOf(*report)}};
}

// ---- JSON ----

std::string Dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// The parts of the report that are lists or objects as lines of their own: who asks for a figure parses no more.
std::string InLines(Json json) {
  Json names = Json::array();
  std::string parts;
  for (auto& [name, value] : json["report"].items()) {
    if (!value.is_structured()) continue;
    names.push_back(name);
    StrAppend(&parts, "\n", Dumped(std::exchange(value, nullptr)));
  }
  json["lines"] = std::move(names);
  return Dumped(json) + parts;
}

struct Command {
  const char* name;
  absl::StatusOr<Json> (*answer)(Arguments& arguments);
  std::string (*written)(Json json);
};
std::string InOneLine(Json json) { return Dumped(json); }
constexpr Command kCommands[] = {{"predict", Predict, InLines}, {"memory", Memory, InOneLine},
                                 {"plan", Plan, InOneLine},     {"sweep", Sweep, InOneLine},
                                 {"bench", Bench, InOneLine},   {"load", Load, InOneLine}};

}  // namespace

absl::StatusOr<std::string> AnswerQuestion(const prediction::Question& question) {
  for (const Command& command : kCommands) {
    if (question.command() != command.name) continue;
    Arguments arguments(question);
    absl::StatusOr<Json> json = command.answer(arguments);
    if (!json.ok()) return json.status();
    return command.written(*std::move(json));
  }
  return InvalidArgument("\"", question.command(), "\" is no question");
}

}  // namespace twofold
