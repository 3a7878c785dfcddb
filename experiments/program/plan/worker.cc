#include "experiments/program/plan/worker.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/plan/fewer_micro_batches.h"

namespace twofold::plan {
namespace {

using Json = nlohmann::ordered_json;

Layout LayoutOf(const std::string& line) {
  absl::StatusOr<Layout> layout = FromLine(line);
  TWOFOLD_CHECK(layout.ok(), std::string(layout.status().message()));
  return *std::move(layout);
}

// JSON has no place for text that is not UTF-8.
std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Seconds of cores that this process has used, and its children that have ended.
double CoreSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    TWOFOLD_CHECK_EQ(getrusage(who, &used), 0);
    for (const timeval& t : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  }
  return seconds;
}

int64_t BytesOf(const report::Report& report) {
  int64_t most = 0;
  for (const report::Rank& rank : report.ranks())
    most = std::max(most, rank.has_framework() ? rank.framework().least_device_bytes() : rank.reserved_bytes());
  return most;
}

// The share of a run of two steps by which ranks that are folded may be late. In one step, that is kExtensionError.
constexpr double kFoldingError = kExtensionError / 2;

// Lets ranks that differ briefly, or are late by so little, be folded. False: the spec allows it already, or does not
// fold.
bool AllowFolding(double share, spec::Spec& spec) {
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  if (simulated.folding() != spec::Simulated::AUTO || simulated.folding_error() >= share) return false;
  simulated.set_folding_error(share);
  return true;
}

// What the interval of a step adds at one end.
StepError ErrorOf(const Simulated& s, double Simulated::*end) {
  return {.seconds = s.seconds,
          .links = std::max(0.0, s.exposed - s.bubble * s.seconds),
          .error = std::abs(s.*end - s.seconds)};
}

}  // namespace

std::string ToJsonLine(const Simulated& s) {
  Json json{{"layout", ToLine(s.layout)}, {"fits", s.fits}, {"failed", s.failed}, {"message", s.message}};
  json["core_seconds"] = s.core_seconds;
  if (s.foretold) {
    json["foretold"] = Json{{"quick", s.foretold->quick},
                            {"path", s.foretold->path},
                            {"tight", s.foretold->tight},
                            {"bytes", s.foretold->bytes},
                            {"too_large", s.foretold->too_large}};
  }
  if (s.fits) {
    json.update(Json{{"seconds", s.seconds},
                     {"low", s.low},
                     {"high", s.high},
                     {"tokens_per_second", s.tokens_per_second},
                     {"mfu", s.mfu},
                     {"bubble", s.bubble},
                     {"exposed", s.exposed},
                     {"bytes", s.bytes},
                     {"extended", s.extended},
                     {"folding_adds", s.folding_adds},
                     {"for_gap", s.for_gap}});
  }
  return Dump(json);
}

absl::StatusOr<Simulated> SimulatedFrom(const std::string& line) try {
  const Json json = Json::parse(line);
  Simulated s;
  absl::StatusOr<Layout> layout = FromLine(json.at("layout").get<std::string>());
  if (!layout.ok()) return layout.status();
  s.layout = *std::move(layout);
  s.fits = json.at("fits").get<bool>(), s.failed = json.at("failed").get<bool>();
  s.message = json.at("message").get<std::string>();
  s.core_seconds = json.value("core_seconds", 0.0);  // journals of earlier versions do not have it
  if (json.contains("foretold")) {
    const Json& f = json["foretold"];
    const auto seconds = [&f](const char* key) { return f.at(key).get<double>(); };
    s.foretold = {.quick = seconds("quick"),
                  .path = seconds("path"),
                  .tight = seconds("tight"),
                  .bytes = f.at("bytes").get<int64_t>(),
                  .too_large = f.at("too_large").get<bool>()};
  }
  if (!s.fits) return s;
  const auto number = [&json](const char* key) { return json.at(key).get<double>(); };
  s.seconds = number("seconds"), s.low = number("low"), s.high = number("high");
  s.tokens_per_second = number("tokens_per_second"), s.mfu = number("mfu");
  s.bubble = number("bubble"), s.exposed = number("exposed");
  s.bytes = json.at("bytes").get<int64_t>();
  s.extended = json.value("extended", false), s.folding_adds = json.value("folding_adds", 0.0);
  s.for_gap = json.value("for_gap", s.extended);
  return s;
} catch (const Json::exception& error) {
  return InvalidArgument("not a simulated layout: ", error.what());
}

spec::Spec SimulatedSpecOf(const Question& question, const Layout& layout) {
  spec::Spec spec = SpecOf(question, layout);
  spec.mutable_trace()->set_enabled(false);
  spec::Train& train = *spec.mutable_train();
  train.set_shuffle(false);
  train.clear_checkpoint(), train.clear_resume(), train.clear_validation();
  if (!spec.parallel().has_compression() && !train.optimizer().has_one_bit_adam()) {
    train.clear_epochs();
    train.set_steps(2), train.set_warmup_steps(1), train.set_report_loss_every(1);
  }
  return spec;
}

std::string Worker::ScreenTask(const Slice& slice) { return StrCat("screen ", slice.index, " ", slice.of); }
std::string Worker::BoundTask(const Layout& layout, double enough) {
  const bool any = enough == std::numeric_limits<double>::infinity();  // JSON has no infinity
  return StrCat("bound ", any ? "1e300" : Json(enough).dump(), " ", ToLine(layout));
}
std::string Worker::SimulateTask(const Layout& layout) { return StrCat("simulate ", ToLine(layout)); }
std::string Worker::ExtendTask(const Layout& layout) { return StrCat("extend ", ToLine(layout)); }
std::string Worker::CheckTask(const Layout& layout) { return StrCat("check ", ToLine(layout)); }

std::string Worker::Do(const std::string& task) {
  std::istringstream in(task);
  std::string what, line;
  const double begin = CoreSeconds();
  in >> what;
  if (what == "screen") {
    Slice slice;
    in >> slice.index >> slice.of;
    return Screen(slice);
  }
  if (what == "bound") {
    double enough = 0;
    in >> enough;
    std::getline(in, line);
    const BoundAnswer answer = Bound(LayoutOf(line), enough);
    return Dump(Json{{"seconds", answer.seconds},
                     {"tight", answer.tight},
                     {"message", answer.message},
                     {"core_seconds", CoreSeconds() - begin}});
  }
  TWOFOLD_CHECK(what == "simulate" || what == "extend" || what == "check", task);
  std::getline(in, line);
  Simulated simulated = what == "extend" ? RunFewer(LayoutOf(line)) : Run(LayoutOf(line));
  simulated.core_seconds = CoreSeconds() - begin;
  if (what == "check") simulated.foretold = Foretell(simulated.layout);
  return ToJsonLine(simulated);
}

// ---- Screening ----

// Lines: one of counts, one for each refusal (two, with its example), one for each layout.
std::string Worker::Screen(const Slice& slice) {
  const double begin = CoreSeconds();
  std::string lines;
  int64_t count = 0;
  const Space space = Enumerate(question_, slice, [&](const Layout& layout, const spec::Spec& spec) {
    const Bounds::Quick quick = bounds_.QuickOf(spec, false);
    StrAppend(&lines, Json(quick.seconds).dump(), " ", quick.bytes, " ", quick.what.empty() ? "-" : quick.what, " ",
              ToLine(layout), "\n");
    ++count;
  });
  std::string head = StrCat(space.legal, " ", space.combinations, " ", space.refused.size(), " ", count, " ",
                            Json(CoreSeconds() - begin).dump(), "\n");
  for (const auto& [reason, refusal] : space.refused)
    StrAppend(&head, refusal.count, "\n", reason, "\n", refusal.example, "\n");
  return head + lines;
}

Worker::ScreenAnswer Worker::ScreenAnswerFrom(const std::string& bytes) {
  ScreenAnswer answer;
  std::istringstream in(bytes);
  size_t refused = 0, layouts = 0;
  in >> answer.space.legal >> answer.space.combinations >> refused >> layouts >> answer.core_seconds;
  std::string line, reason;
  std::getline(in, line);
  for (size_t i = 0; i < refused; ++i) {
    Refusal refusal;
    std::getline(in, line);
    refusal.count = std::stoll(line);
    std::getline(in, reason), std::getline(in, refusal.example);
    answer.space.refused[reason] = refusal;
  }
  answer.screened.reserve(layouts);
  for (size_t i = 0; i < layouts; ++i) {
    Screened& s = answer.screened.emplace_back();
    in >> s.seconds >> s.bytes >> s.what;
    std::getline(in, line);
    s.layout = LayoutOf(line);
  }
  return answer;
}

// ---- Bounds ----

Worker::BoundAnswer Worker::Bound(const Layout& layout, double enough) {
  const spec::Spec spec = SpecOf(question_, layout);
  BoundAnswer answer{.seconds = bounds_.QuickOf(spec, true).seconds};
  if (answer.seconds >= enough) return answer;
  const absl::StatusOr<double> tight = bounds_.TightOf(spec, enough);
  answer.tight = true;
  if (tight.ok())
    answer.seconds = std::max(answer.seconds, *tight);
  else if (absl::IsResourceExhausted(tight.status()))
    answer.message = std::string(tight.status().message());
  return answer;  // of other errors the simulation says more
}

Foretold Worker::Foretell(const Layout& layout) {
  const spec::Spec spec = SpecOf(question_, layout);
  const Bounds::Quick quick = bounds_.QuickOf(spec, false);
  Foretold f{.quick = quick.seconds, .path = bounds_.QuickOf(spec, true).seconds, .bytes = quick.bytes};
  const absl::StatusOr<double> tight = bounds_.TightOf(spec);
  if (tight.ok()) f.tight = *tight;
  f.too_large = absl::IsResourceExhausted(tight.status());
  return f;
}

Worker::BoundAnswer Worker::BoundAnswerFrom(const std::string& bytes) {
  const Json json = Json::parse(bytes);
  return {json.at("seconds").get<double>(), json.at("tight").get<bool>(), json.at("message").get<std::string>(),
          json.at("core_seconds").get<double>()};
}

// ---- Simulation ----

Simulated Worker::Run(const Layout& layout) { return RunWhole(layout, SimulatedSpecOf(question_, layout)); }

Simulated Worker::RunWhole(const Layout& layout, const spec::Spec& spec) {
  return SimulatedBy(layout, spec, {}).back();
}

Simulated Worker::RunFewer(const Layout& layout) {
  spec::Spec spec = SimulatedSpecOf(question_, layout), fewer = spec;
  const bool allowed = AllowFolding(kFoldingError, spec);
  AllowFolding(kExtensionError, fewer);  // what that makes of the whole step is looked at then (MostLate)
  for (const FewerMicroBatches& of : FewerMicroBatchesOf(fewer)) {
    if (std::optional<Simulated> extended = RunExtended(layout, fewer, of)) return *std::move(extended);
  }
  Simulated s = RunWhole(layout, spec);
  // Of more than 1,024 ranks, a folding error allows more than it says (most_apart.h).
  if (allowed && s.folding_adds > kExtensionError) return RunWhole(layout, SimulatedSpecOf(question_, layout));
  s.for_gap = allowed && s.folding_adds > 0;
  return s;
}

// Nothing if the steps are not on a line, or if ranks may be too late in the whole one.
std::optional<Simulated> Worker::RunExtended(const Layout& layout, const spec::Spec& spec,
                                             const FewerMicroBatches& of) {
  const std::vector<Simulated> steps = SimulatedBy(layout, spec, {of.steps.begin(), of.steps.end()});
  Simulated s = steps.back();
  if (!s.fits) return s;
  const auto figures = [&steps](const auto& figure) {
    StepFigures all;
    for (size_t i = 0; i < kFewSteps; ++i) all[i] = figure(steps[i]);
    return all;
  };
  const StepFigures seconds = figures([](const Simulated& step) { return step.seconds; });
  if (!OnALine(of, seconds)) return std::nullopt;
  for (double Simulated::*figure : {&Simulated::seconds, &Simulated::exposed})
    s.*figure = Extend(of, figures([figure](const Simulated& step) { return step.*figure; }));
  s.bubble = Extend(of, figures([](const Simulated& step) { return step.bubble * step.seconds; })) / s.seconds;
  const auto error = [&](double Simulated::*end) {
    return ExtendedError(ErrorOf(steps[of.from[0]], end), ErrorOf(steps[of.to[1]], end), ErrorOf(s, end));
  };
  const double below = error(&Simulated::low), above = error(&Simulated::high);
  s.low = s.seconds - below, s.high = s.seconds + above;
  s.folding_adds *= MostLate(of, std::accumulate(seconds.begin(), seconds.end(), 0.0)) / s.seconds;
  if (s.folding_adds > kExtensionError) return std::nullopt;
  const absl::StatusOr<int64_t> reserved = bounds_.ReservedBy(spec);
  if (!reserved.ok()) {
    s.fits = false, s.failed = !absl::IsResourceExhausted(reserved.status());
    s.message = std::string(reserved.status().message());
    return s;
  }
  s.bytes = *reserved, s.extended = s.for_gap = true;
  const double quicker =
      static_cast<double>(of.whole) / static_cast<double>(of.steps.back()) * seconds.back() / s.seconds;
  s.tokens_per_second *= quicker, s.mfu *= quicker;
  return s;
}

// By step; if the run fails, one.
std::vector<Simulated> Worker::SimulatedBy(const Layout& layout, const spec::Spec& spec,
                                           const std::vector<int64_t>& micro_batches) {
  const absl::StatusOr<std::vector<report::Report>> reports = simulate_(spec, question_.file, micro_batches);
  if (!reports.ok()) return {{.layout = layout, .failed = true, .message = std::string(reports.status().message())}};
  std::vector<Simulated> steps;
  for (const report::Report& report : *reports) {
    Simulated& s = steps.emplace_back(Simulated{.layout = layout});
    s.fits = report.outcome() == report::OK;
    s.failed = !s.fits && report.outcome() != report::OUT_OF_MEMORY;
    if (!s.fits) s.message = StrCat(report::Outcome_Name(report.outcome()), ": ", report.message());
    if (!s.fits) continue;
    s.seconds = report.median_step_seconds(), s.low = report.low(), s.high = report.high();
    s.tokens_per_second = report.tokens_per_second(), s.mfu = report.mfu();
    s.bubble = report.bubble_fraction(), s.exposed = report.exposed_communication_seconds();
    s.bytes = BytesOf(report);
    // Of a whole run, as if ranks were late in this step alone.
    s.folding_adds = report.folding_adds() * (micro_batches.empty() ? report.steps_size() : 1);
  }
  return steps;
}

}  // namespace twofold::plan
