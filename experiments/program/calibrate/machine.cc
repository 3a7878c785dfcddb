#include "experiments/program/calibrate/machine.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/host/interrupt.h"
#include "backends/host/processor_use.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/calibrate/disturbance.h"
#include "experiments/program/calibrate/fit_training.h"
#include "experiments/program/calibrate/jobs.h"
#include "experiments/program/calibrate/measure_kernels.h"
#include "experiments/program/calibrate/measure_links.h"
#include "experiments/program/calibrate/out_file.h"
#include "experiments/program/calibrate/profile_from.h"
#include "experiments/program/report/load.h"
#include "experiments/program/spec/spec.h"
#include "sim/cost/read_profile.h"

namespace twofold::calibrate {

absl::StatusOr<Measured> RunOn(int ranks, int threads, const RankFunction& fn, spec::Spec spec) {
  spec.mutable_fabric()->mutable_in_memory();
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_train()->set_threads_per_rank(threads);
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return fabric.status();
  std::vector<report::ProcessorUse> uses(static_cast<size_t>(ranks));
  const RunResult result = (*fabric)->Run(ranks, [&](RankContext& ctx) {
    const host::ProcessorWatch watch;
    std::string bytes = fn(ctx);
    uses[static_cast<size_t>(ctx.rank())] = watch.Use();
    return bytes;
  });
  if (!result.status.ok()) return Internal(result.status.message());
  Measured measured{.samples = {}, .load = LoadOf(uses)};
  for (const report::ProcessorUse& use : uses) measured.wall = std::max(measured.wall, use.wall());
  for (const std::string& bytes : result.results) Append(measured.samples, Unpack(bytes));
  return measured;
}

namespace {

// Budget for repetitions, for kernels and for the rest each: about half of the calibration time of an idle machine with
// two cores.
constexpr Seconds kQuickRepeats = Seconds(2), kRepeatsOfAll = Seconds(12);

// A machine's speed drifts, so all measurements are split into parts that take turns: kernels, links, jobs.
class MachineCalibration {
 public:
  MachineCalibration(const MachineOptions& o, int ranks, int cores)
      : options_(o),
        ranks_(ranks),
        linked_(std::max(2, ranks)),
        parts_(o.quick ? 2 : 4),
        log_(o.quick ? kQuickRepeats : kRepeatsOfAll, TellProgress) {
    profile_.set_cores(cores);
    profile_.set_threads(o.threads);
  }

  absl::Status Run() {
    const absl::Cleanup remove = [&] {
      std::error_code none;
      std::filesystem::remove(scratch_, none);
    };
    // between runs too: an interrupt ends the next run, and the scratch file is removed
    const host::InterruptScope interrupt;
    if (absl::Status s = PlanKernels(); !s.ok()) return s;
    for (int part = 0; part < parts_; ++part) {
      std::cerr << absl::StrFormat("part %d of %d: kernels, links, training jobs\n", part + 1, parts_);
      if (absl::Status s = Measure(part); !s.ok()) return s;
    }
    if (const profile::Load load = log_.Sum(fixed_); load.has_taken()) *profile_.mutable_load() = load;
    AddKernels(keys_, costs_, kernels_, profile_);
    AddLinks(links_, linked_, profile_);
    profile_.set_source(absl::StrCat("measured by `twofold calibrate", options_.quick ? " --quick" : "",
                                     "`: ", Counted(ranks_, "rank"), " of ", Counted(options_.threads, "thread"),
                                     " at once, in ", Counted(parts_, "part")));
    if (const auto before = ReadProfile(options_.out); before.ok()) {  // keeps what was measured of other fabrics
      *profile_.mutable_message_passing() = before->message_passing();
    }
    return Train();
  }
  profile::Profile& profile() { return profile_; }
  int linked() const { return linked_; }

 private:
  absl::Status PlanKernels() {
    plan_.cases = Cases(options_.quick);
    plan_.parts = parts_;
    std::cerr << absl::StrCat(plan_.cases.size(), " kernels and sizes on ", Counted(ranks_, "rank"), " of ",
                              Counted(options_.threads, "thread"), " at once: warming up\n");
    const auto tried =
        RunOn(ranks_, options_.threads, [this](RankContext& ctx) { return TryKernels(ctx, plan_.cases); });
    if (!tried.ok()) return tried.status();
    TellLoad(tried->load);
    for (const std::vector<double>& row : tried->samples) plan_.seconds.push_back(row[0]);
    plan_.repeats = (options_.quick ? kQuickRepeats : kRepeatsOfAll) * (1.0 / parts_);
    plan_.rounds = RoundsWithin(plan_.seconds, Seconds(options_.quick ? 4 : 12), options_.quick ? 5 : 9);
    // The cases again, as shapes alone, to get their names and costs.
    ShapesOnly shapes;
    for (const Case& c : plan_.cases) {
      const ops::Op op = c.make(shapes);
      keys_.push_back(ops::Key(op)), costs_.push_back(ops::CostOf(op));
    }
    return absl::OkStatus();
  }

  // Warns before the measurements, using the load during the warm-up.
  static void TellLoad(const report::Load& before) {
    if (before.taken() <= kLoaded && before.others() <= kLoaded) return;
    TellProgress(absl::StrCat("this machine is loaded: ", LoadText(before),
                              ". Disturbed measurements are repeated, and intervals will be wider; for narrow "
                              "intervals, calibrate while it does nothing else"));
  }

  absl::Status Measure(int part) {
    plan_.part = part;
    if (absl::Status s = MeasureKernelsOfPart(); !s.ok()) return s;
    const auto links =
        log_.LeastDisturbed<Samples>(LoadLog::kLinks, "links", [&]() -> absl::StatusOr<LoadLog::Outcome<Samples>> {
          const int rounds = options_.quick ? 3 : 6;
          absl::StatusOr<Measured> m =
              RunOn(linked_, options_.threads, [rounds](RankContext& ctx) { return MeasureLinks(ctx, rounds); });
          if (!m.ok()) return m.status();
          return LoadLog::Outcome<Samples>{std::move(m->samples), m->wall, m->load};
        });
    if (!links.ok()) return links.status();
    Append(links_, *links);
    for (size_t job = 0; job < jobs_.size(); ++job) {
      if (jobs_[job].large && (options_.quick || part % 2 == 1)) continue;
      for (const auto& [ranks, overlap] : Ways()) {
        const spec::Spec spec = SpecOf(jobs_[job], ranks, options_.threads, overlap);
        absl::StatusOr<JobTimes> times = log_.LeastDisturbed<JobTimes>(
            LoadLog::kJobs, jobs_[job].name, [&]() -> absl::StatusOr<LoadLog::Outcome<JobTimes>> {
              absl::StatusOr<JobTimes> t = RunJob(jobs_[job], spec);
              if (!t.ok()) return t.status();
              return LoadLog::Outcome<JobTimes>{*t, t->wall, t->load};
            });
        if (!times.ok()) return times.status();
        runs_[ranks].push_back({job, overlap, part, *std::move(times)});
      }
    }
    return absl::OkStatus();
  }

  absl::Status MeasureKernelsOfPart() {
    auto measured = RunOn(ranks_, options_.threads, [this](RankContext& ctx) { return MeasureKernels(ctx, plan_); });
    if (!measured.ok()) return measured.status();
    const KernelExtras extras = TakeExtras(measured->samples);
    Append(kernels_, measured->samples);
    fixed_.insert(fixed_.end(), extras.fixed.begin(), extras.fixed.end());
    log_.Watched(measured->wall, measured->load);
    log_.Add(LoadLog::kKernels, extras.disturbance, measured->load);
    if (extras.disturbance.repeated > 0)
      TellProgress(absl::StrCat("  kernels: ", extras.disturbance.repeated,
                                " samples were disturbed by other work and taken again"));
    return absl::OkStatus();
  }

  // Numbers of ranks that run at once, and whether communication overlaps.
  std::vector<std::pair<int, bool>> Ways() const {
    if (ranks_ == 1) return {{1, false}};
    return {{1, false}, {ranks_, false}, {ranks_, true}};
  }

  absl::Status Train() {
    for (const auto& [ranks, runs] : runs_) {
      const auto predict = [&, n = ranks](size_t job, bool overlap,
                                          const profile::Training* training) -> absl::StatusOr<JobTimes> {
        if (host::InterruptScope::Raised()) return absl::CancelledError("interrupted");
        profile::Profile with = profile_;
        with.clear_training();
        if (training != nullptr) *with.add_training() = *training;
        if (absl::Status s = Write(with, "--out", scratch_); !s.ok()) return s;
        spec::Spec spec = SpecOf(jobs_[job], n, options_.threads, overlap);
        if (absl::Status s = ApplyFabric(spec, "simulated"); !s.ok()) return s;
        spec.mutable_fabric()->mutable_simulated()->set_profile(scratch_);
        FillDefaults(spec, jobs_[job].name);
        return RunJob(jobs_[job], spec);
      };
      absl::StatusOr<profile::Training> training = FitTraining(ranks, runs, predict);
      if (!training.ok()) return training.status();
      for (const Job& job : jobs_) {
        if (!(job.large && options_.quick)) training->add_jobs(job.name);
      }
      trainings_.push_back(*std::move(training));
    }
    for (profile::Training& t : trainings_) *profile_.add_training() = std::move(t);
    return absl::OkStatus();
  }

  const MachineOptions& options_;
  const std::string scratch_ = options_.out + ".fit";  // the simulator reads profiles from files
  const int ranks_, linked_, parts_;
  const std::vector<Job> jobs_ = Jobs();
  profile::Profile profile_ = ProfileOfThisMachine();
  KernelPlan plan_;
  std::vector<ops::KernelKey> keys_;
  std::vector<ops::Cost> costs_;
  Samples kernels_, links_;
  std::vector<double> fixed_;
  LoadLog log_;
  std::map<int, std::vector<JobRun>> runs_;  // by number of ranks
  std::vector<profile::Training> trainings_;
};

}  // namespace

absl::StatusOr<MachineProfile> CalibrateMachine(const MachineOptions& options) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  MachineCalibration calibration(options, std::max(1, cores / options.threads), cores);
  if (absl::Status s = calibration.Run(); !s.ok()) return s;
  return MachineProfile{calibration.profile(), calibration.linked()};
}

}  // namespace twofold::calibrate
