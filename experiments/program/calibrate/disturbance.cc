#include "experiments/program/calibrate/disturbance.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "experiments/program/report/load.h"

namespace twofold::calibrate {

void LoadLog::Watched(double seconds, const report::Load& load) {
  if (!load.has_taken()) return;
  seconds_ += seconds, others_ += seconds * load.others(), stolen_ += seconds * load.stolen();
}

void LoadLog::Add(Kind kind, const Disturbance& d, const report::Load& load) {
  of_[kind].seen.Add(d.seen.wall, Taken(d.seen.share(), load.stolen()));
  of_[kind].kept.Add(d.kept.wall, Taken(d.kept.share(), load.stolen()));
  of_[kind].repeated += d.repeated;
}

void LoadLog::Seen(Kind kind, double seconds, const report::Load& load) {
  Watched(seconds, load);
  of_[kind].seen.Add(seconds, load.taken());
}

bool LoadLog::Again(double taken, double seconds, int repeats, std::string_view what) {
  if (taken <= kDisturbed || repeats >= kRepeats) return false;
  if (seconds > budget_) {
    if (!std::exchange(told_, true))
      tell_("  no time is left to repeat all disturbed measurements: the interval will be wider");
    return false;
  }
  budget_ -= seconds;
  tell_(absl::StrFormat("  %s: delayed by other work by up to %.0f %% of its time; repeating it (%d of %d)", what,
                        100 * taken, repeats + 1, kRepeats));
  return true;
}

profile::Load LoadLog::Sum(const std::vector<double>& fixed) const {
  profile::Load sum;
  if (seconds_ <= 0) return sum;
  double taken = 0, kept = 0;
  int64_t repeated = 0;
  for (const Disturbance& d : of_) {
    taken = std::max(taken, d.seen.share()), kept = std::max(kept, d.kept.share());
    repeated += d.repeated;
  }
  sum.set_taken(taken);
  sum.set_kept(std::min(kept, taken));
  sum.set_stolen(stolen_ / seconds_);
  sum.set_others(others_ / seconds_);
  sum.set_repeated(repeated);
  const double median = Quantile(fixed, 0.5);
  sum.set_fixed_low(Quantile(fixed, 0) / median), sum.set_fixed_high(Quantile(fixed, 1) / median);
  return sum;
}

}  // namespace twofold::calibrate
