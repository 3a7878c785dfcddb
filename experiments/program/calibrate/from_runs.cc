#include "experiments/program/calibrate/from_runs.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/host/interrupt.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/world_size.h"
#include "experiments/program/calibrate/law_table.h"
#include "experiments/program/calibrate/out_file.h"
#include "experiments/program/calibrate/samples.h"
#include "experiments/program/calibrate/search.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"
#include "topologies/frameworks.h"

namespace twofold::calibrate {
namespace {

using framework::Family;

constexpr size_t kLeastRuns = 10;
constexpr int kMostRunRounds = 20, kToldRuns = 20;
constexpr double kStay = 0.02;        // a constant that doubles counts as an error of 1.4 %
constexpr double kSmallError = 0.03;  // errors below it count by their squares, so that the search finds its way
constexpr double kOwnLaunch = 5;      // microseconds: where the search begins if the profile leaves it to the device
constexpr double kNoCommunication = 0.5;  // microseconds: less is none
constexpr double kFirstCommunication = 20;
constexpr char kNone[] = "none";

struct MeasuredRun {
  std::string name;  // the fields of its row
  spec::Spec spec;
  double seconds;
  bool left_out;
  double before = 0, after = 0;  // predicted
};

absl::StatusOr<std::vector<MeasuredRun>> RunsOf(const LawTable& table, const std::string& spec) {
  if (!table.Has("seconds")) {
    return InvalidArgument("--from=", table.path(), ": has the columns ", absl::StrJoin(table.columns(), ", "),
                           "; a table of runs has seconds, and columns that are named by fields of the spec");
  }
  const auto seconds = table.Numbers("seconds");
  if (!seconds.ok()) return seconds.status();
  if (table.rows() < kLeastRuns)
    return InvalidArgument(table.path(), ": has ", table.rows(), " rows; a fit needs ", kLeastRuns, " or more");
  std::vector<MeasuredRun> runs;
  for (size_t i = 0; i < table.rows(); ++i) {
    const auto row = [&] { return StrCat(table.path(), ": row ", i + 1, ": "); };
    if (!((*seconds)[i] > 0)) return InvalidArgument(row(), "seconds: ", (*seconds)[i], ": must be greater than 0");
    std::vector<std::string> fields;
    for (const std::string& column : table.columns()) {
      const std::string_view value = table.Text(i, column);
      if (column != "seconds" && !value.empty()) fields.push_back(StrCat(column, "=", value));
    }
    std::vector<std::string> sets = {"trace.enabled=false", "memory.assume_fits=true"};  // it ran, so it fitted
    sets.insert(sets.end(), fields.begin(), fields.end());
    absl::StatusOr<spec::Spec> resolved = LoadSpec(spec, "simulated", sets);
    if (!resolved.ok()) return InvalidArgument(row(), resolved.status().message());
    const std::string name = absl::StrJoin(fields, " ");
    runs.push_back({name, *std::move(resolved), (*seconds)[i], Fnv(name) % 5 == 0});
  }
  if (runs[0].spec.framework() == spec::TWOFOLD) {
    return InvalidArgument("--spec=", spec, ": framework: missing; name the nearest one, whose profile is changed: ",
                           "MEGATRON, DEEPSPEED, PYTORCH_EAGER or PYTORCH_COMPILED");
  }
  const auto other = [&](const MeasuredRun& run) { return run.spec.framework() != runs[0].spec.framework(); };
  if (std::any_of(runs.begin(), runs.end(), other))
    return InvalidArgument(table.path(), ": framework: differs between rows; a profile is of one framework");
  return runs;
}

// A profile whose constants change, in a file that predictions read.
class FrameworkFit {
 public:
  FrameworkFit(framework::Framework profile, std::vector<MeasuredRun> runs, std::string scratch, Predictor& predictor)
      : profile_(std::move(profile)), runs_(std::move(runs)), scratch_(std::move(scratch)), predictor_(predictor) {
    for (MeasuredRun& run : runs_) run.spec.set_framework_profile(scratch_);
  }

  absl::Status Run() {
    if (absl::Status s = PredictAll(&MeasuredRun::before); !s.ok()) return s;
    std::vector<Constant> constants = Constants();
    for (size_t i = 0; i < constants.size(); ++i) first_.push_back(before_[i] == kNone ? 0 : constants[i].value);
    absl::Status failed;
    FitResiduals(
        constants, kMostRunRounds,
        [&] {
          if (failed.ok()) failed = PredictAll(&MeasuredRun::after);
          if (failed.ok() && ++trials_ % kToldRuns == 0)
            LogInfo(trials_, " trials: median error of the fitted rows ", Median(&MeasuredRun::after, false));
          return Residuals(constants);
        },
        kSmallError);
    if (!failed.ok()) return failed;
    for (size_t i = 0; i < constants.size(); ++i) {
      at_limit_.push_back(constants[i].value == constants[i].low || constants[i].value == constants[i].high);
      after_.push_back(Rounded(constants[i].value));
      constants[i].set(after_.back());
    }
    return PredictAll(&MeasuredRun::after);
  }

  const framework::Framework& profile() const { return profile_; }

  std::string Text() const {
    std::string text = "constants:\n";
    for (size_t i = 0; i < names_.size(); ++i)
      StrAppend(&text, absl::StrFormat("  %-46s %8.3g, before %s%s\n", names_[i], after_[i], before_[i],
                                       at_limit_[i] ? "; at the limit of the search" : ""));
    StrAppend(&text, "predicted / measured - 1, and before the fit (*: left out of the fit, every fifth, by hash):\n");
    for (const MeasuredRun& run : runs_)
      StrAppend(&text, absl::StrFormat("  %6.1f %%  %6.1f %% %s %s\n", 100 * (run.after / run.seconds - 1),
                                       100 * (run.before / run.seconds - 1), run.left_out ? "*" : " ", run.name));
    return StrCat(text, "median error: ", Median(&MeasuredRun::after, true), " of the rows left out, ",
                  Median(&MeasuredRun::after, false), " of the others; before: ", Median(&MeasuredRun::before, true),
                  " and ", Median(&MeasuredRun::before, false), "\n");
  }
  std::string ErrorLeftOut() const { return Median(&MeasuredRun::after, true); }

 private:
  absl::Status PredictAll(double MeasuredRun::*predicted) {
    if (host::InterruptScope::Raised()) return absl::CancelledError("interrupted; no file was written");
    std::string text;
    google::protobuf::TextFormat::PrintToString(profile_, &text);
    // in place: a file that only this process's predictions read need not reach the disk
    if (!(std::ofstream(scratch_) << text << std::flush)) return Internal(scratch_, ": cannot be written");
    std::vector<spec::Spec> specs;
    for (const MeasuredRun& run : runs_) specs.push_back(run.spec);
    absl::Status failed;
    predictor_.PredictAll(specs, "row", [&](size_t i, const absl::StatusOr<report::Report>& report) {
      if (!report.ok()) {
        failed.Update(InvalidArgument(runs_[i].name, ": ", report.status().message()));
      } else if (report->outcome() != report::OK || !(report->median_step_seconds() > 0)) {
        failed.Update(InvalidArgument(runs_[i].name, ": cannot be predicted: ", report->message()));
      } else {
        runs_[i].*predicted = report->median_step_seconds();
      }
    });
    return failed;
  }

  // Logarithms of predicted / measured, and by how much constants have moved.
  std::vector<double> Residuals(const std::vector<Constant>& constants) const {
    std::vector<double> found;
    for (const MeasuredRun& run : runs_) {
      if (!run.left_out) found.push_back(run.after > 0 ? std::log(run.after / run.seconds) : 0);
    }
    for (size_t i = 0; i < constants.size(); ++i) {
      if (first_[i] > 0) found.push_back(kStay * std::log(constants[i].value / first_[i]));
    }
    return found;
  }

  std::vector<Constant> Constants() {
    std::vector<Constant> constants;
    const auto add = [&](const char* name, std::string before, double value, double low, double high,
                         std::function<void(double)> set) {
      names_.push_back(name), before_.push_back(std::move(before));
      constants.push_back({std::move(set), value, low, high});
    };
    framework::Time& time = *profile_.mutable_time();
    const double launch = time.has_launch_us() && time.launch_us() > 0 ? time.launch_us() : kOwnLaunch;
    std::vector<double> of_kernels;
    for (const framework::Kernel& kernel : time.kernels()) of_kernels.push_back(kernel.launch_us());
    add("time.launch_us", time.has_launch_us() ? absl::StrFormat("%.3g", time.launch_us()) : "the device's", launch,
        0.5, 1000, [&time, launch, of_kernels](double us) {
          time.set_launch_us(us);
          for (int k = 0; k < time.kernels_size(); ++k) {
            framework::Kernel& kernel = *time.mutable_kernels(k);
            if (kernel.has_launch_us()) kernel.set_launch_us(Rounded(of_kernels[static_cast<size_t>(k)] * us / launch));
          }
        });
    const auto several = [](const MeasuredRun& run) { return WorldSize(run.spec) > 1; };
    if (std::any_of(runs_.begin(), runs_.end(), several)) {
      const double now = time.communication_launch_us();
      add("time.communication_launch_us", now > 0 ? absl::StrFormat("%.3g", now) : kNone,
          now > 0 ? now : kFirstCommunication, 0.1, 2000,
          [&time](double us) { time.set_communication_launch_us(us < kNoCommunication ? 0 : us); });
    }
    using Kinds = std::vector<Family::Kind>;
    for (const auto& [name, kinds] :
         {std::pair("time.families: products", Kinds{Family::PRODUCTS}),
          std::pair("time.families: attention", Kinds{Family::ATTENTION}),
          std::pair("time.families: others",
                    Kinds{Family::NORMS, Family::ELEMENT_WISE, Family::LOSS, Family::OPTIMIZER, Family::OTHER})}) {
      std::vector<std::pair<Family*, double>> all;  // and their factors so far
      for (const Family::Kind kind : kinds) {
        const auto known = std::find_if(time.mutable_families()->begin(), time.mutable_families()->end(),
                                        [kind](const Family& f) { return f.kind() == kind; });
        Family& family = known != time.mutable_families()->end() ? *known : *time.add_families();
        family.set_kind(kind);
        all.emplace_back(&family, family.factor());
      }
      add(name, absl::StrFormat("%.3g", all[0].second), 1, 0.2, 10, [all](double factor) {
        for (const auto& [family, before] : all) family->set_factor(before * factor);
      });
    }
    return constants;
  }

  std::string Median(double MeasuredRun::*predicted, bool left_out) const {
    std::vector<double> errors;
    for (const MeasuredRun& run : runs_) {
      if (run.left_out == left_out) errors.push_back(std::abs(run.*predicted / run.seconds - 1));
    }
    return errors.empty() ? "-" : absl::StrFormat("%.1f %%", 100 * Quantile(errors, 0.5));
  }

  framework::Framework profile_;
  std::vector<MeasuredRun> runs_;
  const std::string scratch_;
  Predictor& predictor_;
  std::vector<std::string> names_, before_;
  std::vector<double> first_, after_;  // first_: 0: it has no value to stay at
  std::vector<bool> at_limit_;
  int trials_ = 0;
};

}  // namespace

absl::Status CalibrateRuns(const FromRuns& o) {
  if (o.spec.empty() || o.out.empty())
    return InvalidArgument("--from=", o.table, ": a table of runs needs --spec and --framework-out");
  if (!o.out.ends_with(".textproto")) return InvalidArgument("--framework-out=", o.out, ": must end in .textproto");
  if (absl::Status s = CheckOutFile("--framework-out", o.out); !s.ok()) return s;
  const absl::StatusOr<LawTable> table = LawTable::Read(o.table);
  if (!table.ok()) return table.status();
  absl::StatusOr<std::vector<MeasuredRun>> runs = RunsOf(*table, o.spec);
  if (!runs.ok()) return runs.status();
  absl::StatusOr<framework::Framework> profile = FindFramework((*runs)[0].spec);
  if (!profile.ok()) return profile.status();
  const std::string scratch = std::filesystem::absolute(StrCat(o.out, ".fit.textproto"));
  const absl::Cleanup remove = [&] {
    std::error_code none;
    std::filesystem::remove(scratch, none);
  };
  auto predictor = Predictor::Make({.program = "/proc/self/exe"});
  if (!predictor.ok()) return predictor.status();
  LogInfo("fitting ", profile->name(), " to ", runs->size(), " runs");
  const host::InterruptScope interrupt;
  FrameworkFit fit(*std::move(profile), *std::move(runs), scratch, **predictor);
  if (absl::Status s = fit.Run(); !s.ok()) return s;
  framework::Framework fitted = fit.profile();
  const std::string source = std::filesystem::path(o.table).filename().string();
  fitted.set_source(
      StrCat(fitted.source(), fitted.source().empty() ? "" : "; ", "launches and families: fitted to ", source,
             " by `twofold calibrate --from`; median error of the rows left out of the fit: ", fit.ErrorLeftOut()));
  if (absl::Status s = Write(fitted, "--framework-out", o.out); !s.ok()) return s;
  std::cout << (o.json ? JsonText({{"out", o.out}, {"framework", ToJson(fitted)}}) : StrCat(fit.Text(), o.out, "\n"));
  return absl::OkStatus();
}

}  // namespace twofold::calibrate
