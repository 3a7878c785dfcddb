// How much other work disturbs a calibration. Disturbed measurements are repeated; the remaining disturbance goes into
// the profile.
//
// A measurement is disturbed if other work held it up for more than kDisturbed of its time
// (experiments/program/report/load.h). It is then repeated at once, at most kRepeats times, while the budget of all
// repetitions together lasts. The least disturbed result is kept.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/units.h"
#include "core/proto/profile.pb.h"
#include "core/proto/report.pb.h"

namespace twofold::calibrate {

inline constexpr double kDisturbed = 0.05;
inline constexpr int kRepeats = 2;

// Sums over measurements: their time, and how long other work held them up.
struct Held {
  double wall = 0, held = 0;
  void Add(double seconds, double share) { wall += seconds, held += seconds * share; }
  double share() const { return wall > 0 ? held / wall : 0; }
};

// The disturbance of one kind of measurement: over all that were made, and over those that are kept.
struct Disturbance {
  Held seen, kept;
  int64_t repeated = 0;
};

class LoadLog {
 public:
  enum Kind { kKernels, kLinks, kJobs, kKinds };
  using Tell = std::function<void(const std::string&)>;  // prints one line of progress

  LoadLog(Seconds budget, Tell tell) : budget_(budget.value()), tell_(std::move(tell)) {}

  // Records the other work during `seconds`; a load without fields is unknown.
  void Watched(double seconds, const report::Load& load);
  // Adds measurements that did their own repetition, with the disturbance that the ranks counted. That count excludes
  // stolen time.
  void Add(Kind kind, const Disturbance& d, const report::Load& load);

  template <class T>
  struct Outcome {
    T result;
    double seconds;
    report::Load load;
  };
  // Runs `measure`, and repeats it if it was disturbed; `what` names it in progress messages.
  template <class T>
  absl::StatusOr<T> LeastDisturbed(Kind kind, std::string_view what,
                                   const std::function<absl::StatusOr<Outcome<T>>()>& measure) {
    absl::StatusOr<Outcome<T>> kept = measure();
    for (int repeats = 0; kept.ok(); ++repeats) {
      const Outcome<T>& least = *kept;
      if (repeats == 0) Seen(kind, least.seconds, least.load);
      if (!Again(least.load.taken(), least.seconds, repeats, what)) break;
      absl::StatusOr<Outcome<T>> other = measure();
      if (!other.ok()) return other.status();
      Seen(kind, other->seconds, other->load), ++of_[kind].repeated;
      if (other->load.taken() < least.load.taken()) kept = std::move(other);
    }
    if (!kept.ok()) return kept.status();
    of_[kind].kept.Add(kept->seconds, kept->load.taken());
    return std::move(kept->result);
  }

  // Has no fields if the system does not count. The largest share of any kind counts, because a prediction rests on all
  // kinds. `fixed`: times of the fixed kernel during the whole calibration, at least one.
  profile::Load Sum(const std::vector<double>& fixed) const;

 private:
  void Seen(Kind kind, double seconds, const report::Load& load);
  bool Again(double taken, double seconds, int repeats, std::string_view what);

  double budget_;
  bool told_ = false;  // the user has been told that the budget is spent
  const Tell tell_;
  std::array<Disturbance, kKinds> of_;
  double seconds_ = 0, others_ = 0, stolen_ = 0;  // of all watched time; others_ and stolen_ are shares times seconds
};

}  // namespace twofold::calibrate
