// Which algorithm a collective takes, and how long it takes alone on the network.
#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "sim/at_work.h"
#include "sim/network.h"
#include "topologies/graph/no_route.h"

namespace twofold::sim {
namespace {

constexpr double kTogether = 1e-12;     // ends that differ by less, relative to their time, are equal
constexpr size_t kMostKept = 64 << 20;  // links of paths that are kept until their flows are solved

size_t FlowsOf(const Schedule& schedule) {
  size_t flows = 0;
  for (const Phase& phase : schedule.phases) flows += phase.flows.size();
  return flows;
}

// The numbers of samples, those of the phases with the most bytes first.
std::vector<size_t> ByBytes(const Schedule& schedule, const std::vector<PhaseSample>& sample) {
  std::vector<std::pair<double, size_t>> phases;  // bytes, negative; number
  for (const PhaseSample& s : sample) {
    const FlowList& flows = schedule.phases[s.phase].flows;
    const double bytes =
        std::accumulate(flows.begin(), flows.end(), 0.0, [](double sum, const Flow& f) { return sum + f.bytes; });
    phases.emplace_back(-bytes, phases.size());
  }
  std::sort(phases.begin(), phases.end());
  std::vector<size_t> numbers;
  for (const auto& [bytes, number] : phases) numbers.push_back(number);
  return numbers;
}

}  // namespace

std::optional<Network::Known> Network::ForAll(Schedule plan, const Choice& others, const CollectiveShape& shape,
                                              const Groups& groups) const {
  Known known;
  known.name = {plan.algorithm, plan.protocol};
  known.schedules.push_back(std::make_shared<Schedule>(std::move(plan)));
  for (size_t g = 1; g < groups.size(); ++g) {
    size_t like = 0;
    while (like < g && groups[like].places != groups[g].places) ++like;
    if (like == g) {
      absl::StatusOr<Schedule> own = library_.Plan(shape, groups[g].places, others);
      if (!own.ok()) return std::nullopt;
      known.schedules.push_back(std::make_shared<Schedule>(*std::move(own)));
    } else {
      known.schedules.push_back(known.schedules[like]);
    }
  }
  return known;
}

// A collective that is considered, and how far it is known.
struct Network::Candidate {
  Known known;
  size_t place;                      // among the plans: of equals the first is taken
  std::vector<size_t> samples = {};  // those with the most bytes first: they show soonest that it takes long
  size_t bounded = 0, solved = 0;    // of `samples`
  double seconds = 0;                // alone on the network; at least, if not `done`
  bool done = false;
};

// To solve all candidates would take long. The one that may be the fastest goes on, until one is known that no other
// can beat.
Network::Known Network::Choose(int number, const CollectiveShape& shape, const Groups& groups) {
  const auto refuse = [](const absl::Status& status) {
    throw RankFailure(RankFailure::Kind::kOther, 0, StrCat("fabric.simulated.algorithm: ", status.message()));
  };
  const Topology& topology = engine_.topology();
  absl::StatusOr<std::vector<Schedule>> plans = library_.Plans(shape, groups[0].places, options_.choice);
  if (!plans.ok()) refuse(plans.status());
  if (topology.symmetric()) plans->resize(1);  // estimates are exact there
  if (plans->size() == 1) {
    std::optional<Known> known = ForAll(std::move(plans->front()), options_.choice, shape, groups);
    if (!known) refuse(library_.Plan(shape, groups.back().places, options_.choice).status());
    return *std::move(known);
  }
  std::vector<Candidate> candidates;
  for (Schedule& plan : *plans) {
    const Choice same{.algorithm = plan.algorithm};
    if (std::optional<Known> known = ForAll(std::move(plan), same, shape, groups))
      candidates.push_back({*std::move(known), candidates.size()});
  }
  if (candidates.empty())
    refuse(absl::UnimplementedError(
        StrCat("no algorithm supports ", KindName(shape.kind), " for all groups of ", shape.ranks, " ranks")));
  double least = std::numeric_limits<double>::infinity();
  for (Candidate* next = &candidates[0]; next != nullptr;) {
    next = nullptr;
    for (Candidate& c : candidates) {
      if (c.done || c.seconds >= least * (1 + 2 * kTogether)) continue;
      if (next == nullptr || c.seconds < next->seconds) next = &c;
    }
    if (next == nullptr) break;
    Advance(number, shape, groups, *next);
    if (next->done) least = std::min(least, next->seconds);
  }
  const auto soonest = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const Candidate& c) { return c.done && c.seconds <= least * (1 + kTogether); });
  return std::move(soonest->known);
}

Network::AloneKey Network::AloneKeyOf(int number, const CollectiveShape& shape, const Known& known) {
  const Schedule& schedule = *known.schedules[0];
  return {number,
          shape.kind,
          2 * shape.root + (shape.follows ? 1 : 0),
          schedule.algorithm,
          schedule.phases.size(),
          FlowsOf(schedule)};
}

// A step towards the candidate's time: the bound of one phase, or the solution of one. Ranks choose without knowing
// what other groups do, so that folding changes nothing: only the first group counts. If the numbers of an algorithm's
// phases and flows are the same as for another size, only the bytes differ, and the bottleneck is the same.
void Network::Advance(int number, const CollectiveShape& shape, const Groups& groups, Candidate& candidate) {
  const Schedule& schedule = *candidate.known.schedules[0];
  std::vector<PhaseSample>& sample = candidate.known.sample;
  std::vector<size_t>& samples = candidate.samples;
  if (candidate.bounded == 0) {
    if (const auto found = alone_.find(AloneKeyOf(number, shape, candidate.known)); found != alone_.end()) {
      candidate.seconds = found->second.latency + found->second.per_byte * shape.bytes;
      candidate.done = true;
      return;
    }
    sample = SampleOf(schedule);
    samples = ByBytes(schedule, sample);
  }
  if (candidate.bounded < samples.size()) {
    const auto [phase, stands_for] = sample[samples[candidate.bounded++]];
    candidate.seconds += stands_for * TimeAlone(phase, groups, false, candidate.known).seconds;
  } else if (candidate.solved < samples.size()) {
    const auto [phase, stands_for] = sample[samples[candidate.solved++]];
    const double bound = candidate.known.times[phase]->seconds;
    candidate.seconds += stands_for * (TimeAlone(phase, groups, true, candidate.known).seconds - bound);
  }
  if (candidate.bounded < samples.size()) return;
  const auto exact = [&](size_t s) { return candidate.known.times[sample[s].phase]->exact; };
  while (candidate.solved < samples.size() && exact(samples[candidate.solved])) ++candidate.solved;
  candidate.done = candidate.solved == samples.size();
  if (!candidate.done) return;
  double latency = 0, seconds = 0;
  for (const auto& [phase, stands_for] : sample) {
    const PhaseTimes::Time& time = *candidate.known.times[phase];
    latency += stands_for * time.latency, seconds += stands_for * time.seconds;
  }
  candidate.seconds = seconds;
  const bool scales = shape.bytes > 0 && shape.kind != Communication::kAllToAllV && !engine_.router().depends_on_load();
  if (scales) alone_[AloneKeyOf(number, shape, candidate.known)] = {latency, (seconds - latency) / shape.bytes};
}

Network::Known Network::Make(int number, const CollectiveShape& shape, const Groups& groups) try {
  const AtWork at_work(Part::kCollectives);
  ++planned_;
  kept_links_ = 0;
  Known known = Choose(number, shape, groups);
  const auto measured = options_.choice.algorithm == "auto" ? options_.measured.Seconds(shape) : std::nullopt;
  const bool useful = options_.closed_forms && groups_.size() == 1 && !messages_;  // else it may meet others
  if (measured || useful) known.seconds = ClosedForm(known, groups);
  if (known.seconds > 0) KeepSample(shape, known);
  if (occupations_) known.occupation = OccupationOf(*known.schedules[0], groups[0].places);
  if (measured) {
    for (const auto& schedule : known.schedules) schedule->stretch = known.seconds > 0 ? *measured / known.seconds : 1;
    known.seconds = *measured;
    known.name = {"measured", ""};
    if (known.occupation) known.occupation->seconds = *measured;
  }
  known.times.clear(), known.sample.clear();
  if (options_.keep_schedules) known.kept = known.schedules[0];
  return known;
} catch (const NoRoute& none) {
  throw RankFailure(RankFailure::Kind::kOther, 0, none.what());
}

// The times of the first group's phases alone on the network are kept: they are asked for more than once.
const PhaseTimes::Time& Network::TimeAlone(size_t phase, const Groups& groups, bool exact, Known& known) {
  const Schedule& schedule = *known.schedules[0];
  known.times.resize(schedule.phases.size());
  const PhaseTimes::Part part{schedule.phases[phase], groups[0].endpoints};
  std::optional<PhaseTimes::Time>& time = known.times[phase];
  if (!time) {
    time = times_.Bound({&part, 1});
    if (time->paths != nullptr) {
      kept_links_ += time->paths->links();
      if (!exact && kept_links_ > kMostKept) time->paths = nullptr;
    }
  }
  if (exact) times_.Solve({&part, 1}, *time);
  return *time;
}

double Network::ClosedForm(Known& known, const Groups& groups) {
  const Schedule& schedule = *known.schedules[0];
  for (const auto& other : known.schedules) {
    if (other->phases.size() != schedule.phases.size() || other->loose) return -1;
    for (int last : other->last_phase) {
      if (last != schedule.last_phase[0]) return -1;
    }
  }
  double seconds = 0;
  if (groups.size() == 1) {
    if (known.sample.empty()) known.sample = SampleOf(schedule);
    for (const auto& [phase, stands_for] : known.sample)
      seconds += stands_for * TimeAlone(phase, groups, true, known).seconds;
    return seconds;
  }
  known.sample.clear();
  for (size_t phase = 0; phase < schedule.phases.size(); ++phase) {
    std::vector<PhaseTimes::Part> parts;
    for (size_t g = 0; g < groups.size(); ++g)
      parts.push_back({known.schedules[g]->phases[phase], groups[g].endpoints});
    PhaseTimes::Time time = times_.Bound(parts);
    times_.Solve(parts, time);
    if (!time.together) return -1;
    seconds += time.seconds;
  }
  return seconds;
}

std::vector<PhaseSample> Network::SampleOf(const Schedule& schedule) const {
  const Router& router = engine_.router();
  return router.depends_on_load() ? SamplePhases(schedule, router.options().seed, options_.most_flows)
                                  : EveryPhase(schedule);
}

void Network::KeepSample(const CollectiveShape& shape, const Known& known) {
  const size_t phases = known.schedules[0]->phases.size();
  if (known.sample.empty() || known.sample.size() == phases) return;
  std::vector<double> seconds;
  for (const PhaseSample& s : known.sample) seconds.push_back(known.times[s.phase]->seconds);
  const double error = StandardErrorOf(known.sample, seconds) / known.seconds;
  Sampled& sampled = sampled_[{shape.kind, shape.ranks}];
  sampled = {known.sample.size(), phases, std::max(sampled.error, error)};
}

std::vector<std::string> Network::notes() const {
  std::vector<std::string> notes;
  for (const auto& [which, sampled] : sampled_) {
    notes.push_back(StrCat(KindName(which.first), " among ", which.second, " ranks: ", sampled.timed, " of its ",
                           sampled.phases,
                           " phases, drawn at random, were timed and stand for the others; the standard error is ",
                           absl::StrFormat("%.2g", 100 * sampled.error), " % of the collective's time"));
  }
  const int usual = engine_.router().options().most_paths;
  if (const std::optional<int> fewest = times_.fewest_paths(); fewest && *fewest < usual) {
    notes.push_back(StrCat("where very many messages begin together, each took ", Counted(*fewest, "path"),
                           " instead of up to ", usual,
                           " (which lengthens an all-to-all of 4,096 ranks by at most 0.3 %)"));
  }
  return notes;
}

}  // namespace twofold::sim
