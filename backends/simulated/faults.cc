#include "backends/simulated/faults.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold {

SimulatedFaults::SimulatedFaults(sim::Engine& engine, const spec::Spec& spec, std::function<bool(int)> has_gone_on)
    : engine_(engine),
      faults_(spec.fabric().simulated().faults().begin(), spec.fabric().simulated().faults().end()),
      happened_(faults_.size()),
      timeout_s_(spec.fabric().timeout_s()),
      patience_s_(spec.train().has_elastic() ? std::min(timeout_s_, spec.train().elastic().reform_timeout_s())
                                             : timeout_s_),
      hangs_(std::any_of(faults_.begin(), faults_.end(),
                         [this](const spec::Fault& f) { return f.has_hangs_s() && f.hangs_s() >= patience_s_; })),
      has_gone_on_(std::move(has_gone_on)) {}

bool SimulatedFaults::IsDue(const spec::Fault& fault, const SimulatedRank& rank, int64_t steps) {
  switch (fault.when_case()) {
    case spec::Fault::kStep: return steps >= fault.step();
    case spec::Fault::kAtS: return rank.now() >= fault.at_s();
    case spec::Fault::kCall: {
      const Counted& counted = counted_[rank.rank()];
      return counted.generation == fault.generation() && counted.calls >= fault.call();
    }
    case spec::Fault::WHEN_NOT_SET: return true;
  }
  return false;
}

void SimulatedFaults::BeforeCall(SimulatedRank& rank) {
  ++counted_[rank.rank()].calls;
  BeginStep(rank, -1);
}

void SimulatedFaults::BeginStep(SimulatedRank& rank, int64_t steps) {
  for (size_t i = 0; i < faults_.size(); ++i) {
    if (happened_[i] || faults_[i].rank() != rank.rank() || !IsDue(faults_[i], rank, steps)) continue;
    happened_[i] = true;
    Happens(static_cast<int>(i), rank, steps);
  }
}

void SimulatedFaults::Happens(int number, SimulatedRank& rank, int64_t steps) {
  const spec::Fault& fault = faults_[static_cast<size_t>(number)];
  const Counted& counted = counted_[rank.rank()];
  const double now = rank.now();
  std::string when = steps >= 0 ? StrCat("before the step after ", steps, " steps") : StrCat("at call ", counted.calls);
  if (counted.generation > 0) StrAppend(&when, " of generation ", counted.generation);
  StrAppend(&when, absl::StrFormat(", after %.6g s", now));
  const auto note = [&](const std::string& what) {
    notes_.push_back(StrCat("fabric.simulated.faults[", number, "]: rank ", rank.rank(), " ", what, " ", when));
  };
  switch (fault.what_case()) {
    case spec::Fault::kLost:
      note("was lost");
      throw RankFailure(
          RankFailure::Kind::kOther, rank.rank(),
          StrCat("rank ", rank.rank(), ": lost ", when, ", as fabric.simulated.faults[", number, "] says"));
    case spec::Fault::kHangsS:
      note(StrCat("hung for ", fault.hangs_s(), " s"));
      return Hang(rank, fault.hangs_s(),
                  StrCat("rank ", rank.rank(), ": timed out: it has called nothing for ", timeout_s_,
                         " s (fabric.timeout_s); it hangs ", when, ", as fabric.simulated.faults[", number, "] says"));
    case spec::Fault::kSlow:
      note(StrCat("was slow by a factor of ", fault.slow().factor()));
      if (fault.slow().has_for_s())
        return rank.SlowDown({.factor = fault.slow().factor(), .until = now + fault.slow().for_s()});
      return rank.SlowDown({.factor = fault.slow().factor()});
    case spec::Fault::kLinkDown: {
      note(StrCat("had its link down for ", fault.link_down().for_s(), " s"));
      const spec::LinkDown& down = fault.link_down();
      for (int64_t i = 0; i < down.times(); ++i) {
        const double from = now + static_cast<double>(i) * down.every_s();
        rank.LinkIsDown({.from = from, .to = from + down.for_s()});
      }
      return;
    }
    case spec::Fault::WHAT_NOT_SET: return;
  }
}

void SimulatedFaults::Hang(SimulatedRank& rank, double seconds, const std::string& told) {
  const double begin = std::max(rank.now(), engine_.now()), end = begin + seconds;
  if (seconds < patience_s_) return rank.host().NotBefore(end);
  const int member = rank.rank();
  const auto wakes = std::make_shared<bool>(false);
  const auto has_gone_on = [this, member] { return has_gone_on_ && has_gone_on_(member); };
  if (seconds >= timeout_s_) {
    engine_.Alarm(begin + timeout_s_, [this, member, told, wakes, has_gone_on] {
      if (!*wakes && !has_gone_on() && !engine_.failed()) engine_.Fail(TimedOut(member, told));
    });
  }
  while (engine_.now() < end) {
    auto until = std::make_shared<sim::TimePoint>();
    engine_.Alarm(end, [until] { until->Resolve(0); });
    engine_.Pause(member, until, [] { return std::string("the end of its hang"); });
    if (!has_gone_on_ && engine_.failed()) break;  // the run is over
  }
  *wakes = true;
  rank.host().NotBefore(end);
  if (has_gone_on())
    throw PeerLost(member, StrCat("rank ", member, ": hung for ", seconds, " s; the others have gone on without it"));
}

}  // namespace twofold
