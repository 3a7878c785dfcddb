#include "experiments/program/calibrate/fit_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {
namespace {

constexpr double kMostCoreShare = 2;

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

// Of one kernel in one job.
struct JobFactors {
  double alone = 0;             // seconds of a call alone, the mean of the job's
  std::vector<double> factors;  // of rounds
};

// A factor for each size of calls. Jobs whose calls take similar times alone have one together, the median.
void AddFactors(const std::string& kernel, const std::map<size_t, JobFactors>& by_job, profile::Training& t) {
  constexpr double kSimilar = 4;
  std::vector<const JobFactors*> jobs;
  for (const auto& [job, factors] : by_job) jobs.push_back(&factors);
  std::sort(jobs.begin(), jobs.end(), [](const auto* a, const auto* b) { return a->alone < b->alone; });
  for (size_t i = 0; i < jobs.size();) {
    std::vector<double> alone, values;
    const double first = jobs[i]->alone;
    for (; i < jobs.size() && jobs[i]->alone <= kSimilar * first; ++i) {
      alone.push_back(jobs[i]->alone);
      values.insert(values.end(), jobs[i]->factors.begin(), jobs[i]->factors.end());
    }
    profile::KernelFactor& f = *t.add_kernels();
    f.set_kernel(kernel), f.set_factor(Median(std::move(values))), f.set_alone_s(Median(std::move(alone)));
  }
}

class Fit {
 public:
  Fit(int ranks, const std::vector<JobRun>& runs, const PredictJob& predict)
      : ranks_(ranks), runs_(runs), predict_(predict) {}

  // `left_out`: a job whose runs are ignored, except for kernels that no other job has; -1: none.
  absl::StatusOr<profile::Training> Figures(int left_out) {
    profile::Training t;
    t.set_ranks(ranks_);
    t.set_low(1), t.set_high(1);
    if (absl::Status s = Compute(left_out, t); !s.ok()) return s;
    if (absl::Status s = CoreShare(left_out, t); !s.ok()) return s;
    return t;
  }

  // Measured over predicted step times. Each job is predicted from the others (a single job: from itself).
  absl::StatusOr<std::vector<double>> Residuals(const profile::Training& all) {
    std::vector<double> ratios;
    for (const size_t job : JobsOf()) {
      absl::StatusOr<profile::Training> t = all;
      if (JobsOf().size() > 1) t = Figures(static_cast<int>(job));
      if (!t.ok()) return t.status();
      std::map<bool, double> steps;  // predicted, by overlap
      for (const JobRun& run : runs_) {
        if (run.job != job) continue;
        if (!steps.contains(run.overlap)) {
          const absl::StatusOr<JobTimes> predicted = predict_(job, run.overlap, &*t);
          if (!predicted.ok()) return predicted.status();
          steps[run.overlap] = predicted->step;
        }
        ratios.push_back(run.measured.step / steps[run.overlap]);
      }
    }
    return ratios;
  }

 private:
  std::set<size_t> JobsOf() const {
    std::set<size_t> jobs;
    for (const JobRun& run : runs_) jobs.insert(run.job);
    return jobs;
  }

  // The job's prediction from kernels and links alone; the same for every fit.
  absl::StatusOr<JobTimes> Alone(size_t job) {
    const auto found = alone_.find(job);
    if (found != alone_.end()) return found->second;
    absl::StatusOr<JobTimes> predicted = predict_(job, false, nullptr);
    if (predicted.ok()) alone_[job] = *predicted;
    return predicted;
  }

  absl::Status Compute(int left_out, profile::Training& t) {
    std::map<std::string, std::map<size_t, JobFactors>> factors, left_out_factors;  // by kernel and job
    std::vector<double> whole, host, waiting;
    for (const JobRun& run : runs_) {
      if (run.overlap) continue;
      const absl::StatusOr<JobTimes> alone = Alone(run.job);
      if (!alone.ok()) return alone.status();
      const JobTimes& m = run.measured;
      const bool counts = static_cast<int>(run.job) != left_out;
      for (const auto& [name, kernel] : m.kernels) {
        const auto predicted = alone->kernels.find(name);
        if (predicted == alone->kernels.end() || predicted->second.seconds <= 0) continue;
        JobFactors& of_job = (counts ? factors : left_out_factors)[name][run.job];
        of_job.alone = predicted->second.seconds / predicted->second.calls;
        of_job.factors.push_back(kernel.seconds / predicted->second.seconds);
      }
      if (!counts) continue;
      whole.push_back(m.KernelSeconds() / alone->KernelSeconds());
      host.push_back((m.step - m.exposed - m.KernelSeconds()) / m.launches);
      waiting.push_back((m.exposed - alone->communication) / (m.step - m.exposed));
    }
    factors.merge(left_out_factors);  // kernels that no other job has
    for (const auto& [kernel, by_job] : factors) AddFactors(kernel, by_job, t);
    t.set_factor(Median(whole));
    t.set_host_s(std::max(0.0, Median(host)));
    t.set_waiting(ranks_ > 1 ? std::max(0.0, Median(waiting)) : 0);
    return absl::OkStatus();
  }

  // Overlap reduces a job's time to measured(overlap) / measured(no overlap). That lies between the ratio if
  // communication cost no core time and the ratio if it cost its full time.
  absl::Status CoreShare(int left_out, profile::Training& t) {
    std::vector<double> shares;
    std::map<std::pair<size_t, int>, double> plain;  // by job and round
    for (const JobRun& run : runs_) {
      if (!run.overlap) plain[{run.job, run.round}] = run.measured.step;
    }
    std::map<size_t, std::array<double, 3>> steps;  // predicted: no overlap, free, at full cost
    for (const JobRun& run : runs_) {
      const auto partner = plain.find({run.job, run.round});
      if (!run.overlap || static_cast<int>(run.job) == left_out || partner == plain.end()) continue;
      if (!steps.contains(run.job)) {
        std::array<double, 3>& s = steps[run.job];
        for (size_t i = 0; i < 3; ++i) {
          profile::Training with = t;
          with.set_core_share(i == 2 ? 1 : 0);
          const absl::StatusOr<JobTimes> predicted = predict_(run.job, i > 0, &with);
          if (!predicted.ok()) return predicted.status();
          s[i] = predicted->step;
        }
      }
      const auto [none, free, full] = steps[run.job];
      const double expected = none * run.measured.step / partner->second;
      if (full - free > 1e-3 * free)
        shares.push_back(std::clamp((expected - free) / (full - free), 0.0, kMostCoreShare));
    }
    t.set_core_share(shares.empty() ? 1 : Median(std::move(shares)));
    return absl::OkStatus();
  }

  const int ranks_;
  const std::vector<JobRun>& runs_;
  const PredictJob& predict_;
  std::map<size_t, JobTimes> alone_;
};

}  // namespace

absl::StatusOr<profile::Training> FitTraining(int ranks, const std::vector<JobRun>& runs, const PredictJob& predict) {
  Fit fit(ranks, runs, predict);
  absl::StatusOr<profile::Training> training = fit.Figures(-1);
  if (!training.ok()) return training;
  const absl::StatusOr<std::vector<double>> ratios = fit.Residuals(*training);
  if (!ratios.ok()) return ratios.status();
  training->set_low(std::min(1.0, Quantile(*ratios, 0.1)));
  training->set_high(std::max(1.0, Quantile(*ratios, 0.9)));
  return training;
}

}  // namespace twofold::calibrate
