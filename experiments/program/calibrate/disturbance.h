// What other work takes of the machine while it is calibrated: what was disturbed is measured again, and the rest goes into the profile.
//
// A measurement is disturbed when other work held it up for more than kDisturbed of its time (experiments/program/report/load.h). It is made
// again at once, kRepeats times at most, and as long as all repetitions together do not exceed their budget; what was disturbed least is
// kept.
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
#include "experiments/program/calibrate/samples.h"

namespace twofold::calibrate {

inline constexpr double kDisturbed = 0.05;
inline constexpr int kRepeats = 2;

// Of measurements together: their time, and how much of it other work held them up.
struct Held {
  double wall = 0, held = 0;
  void Add(double seconds, double share) { wall += seconds, held += seconds * share; }
  double share() const { return wall > 0 ? held / wall : 0; }
};

// What one kind of measurements went through: all that were made, and those that are kept.
struct Disturbance {
  Held seen, kept;
  int64_t repeated = 0;
};

class LoadLog {
 public:
  enum Kind { kKernels, kLinks, kJobs, kKinds };
  using Tell = std::function<void(const std::string&)>;  // progress, a line

  LoadLog(Seconds budget, Tell tell) : budget_(budget.value()), tell_(std::move(tell)) {}

  // What other work did meanwhile; a load without fields is not known.
  void Watched(double seconds, const report::Load& load);
  // Of measurements that saw to their own repetition, as ranks count them: without what was stolen meanwhile.
  void Add(Kind kind, const Disturbance& d, const report::Load& load);

  template <class T>
  struct Outcome {
    T result;
    double seconds;
    report::Load load;
  };
  // `measure`, and again where it was disturbed; `what` is told people.
  template <class T>
  absl::StatusOr<T> LeastDisturbed(Kind kind, std::string_view what, const std::function<absl::StatusOr<Outcome<T>>()>& measure) {
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

  // Without fields where the system does not count. The kinds' largest shares count: a prediction rests on all of them.
  // `fixed`: times of the fixed kernel, all along; one or more.
  profile::Load Sum(const std::vector<double>& fixed) const;

 private:
  void Seen(Kind kind, double seconds, const report::Load& load);
  bool Again(double taken, double seconds, int repeats, std::string_view what);

  double budget_;
  bool told_ = false;  // that it is spent
  const Tell tell_;
  std::array<Disturbance, kKinds> of_;
  double seconds_ = 0, others_ = 0, stolen_ = 0;  // of all that was watched: others_ and stolen_ are shares times seconds
};

}  // namespace twofold::calibrate
