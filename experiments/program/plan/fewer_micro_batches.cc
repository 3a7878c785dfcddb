#include "experiments/program/plan/fewer_micro_batches.h"

#include <cmath>
#include <numeric>

#include "experiments/program/spec/spec.h"

namespace twofold::plan {
namespace {

// Whether the quickest way sees all that there is to see. Of groups: what comes late in a step is not in its steps.
bool BeginsAtOnce(const spec::Parallel& p, int64_t whole) {
  constexpr int64_t kMostAhead = 24;
  return p.pp() == 1 && p.offload() != spec::Parallel::OFFLOAD_ALL && whole <= kMostAhead;
}

}  // namespace

std::vector<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec) {
  const spec::Parallel& parallel = spec.parallel();
  const int64_t pp = parallel.pp(), whole = AccumulationSteps(spec);
  if (parallel.schedule() == spec::Parallel::GPIPE && pp > 1) return {};
  if (spec.fabric().simulated().network().jitter() > 0 || parallel.has_compression() ||
      spec.train().optimizer().has_one_bit_adam())
    return {};
  std::vector<FewerMicroBatches> ways;
  if (BeginsAtOnce(parallel, whole))
    ways.push_back({.whole = whole, .steps = {1, 1, 2, 2, 3}, .from = {1, 3}, .to = {2, 4}});
  ways.push_back({.whole = whole, .steps = {pp, 2 * pp, 3 * pp, 4 * pp, 4 * pp}, .from = {1, 2}, .to = {2, 3}});
  std::erase_if(ways, [](const FewerMicroBatches& way) { return way.all() >= 2 * way.whole; });
  return ways;
}

double ExtendedError(const StepError& shorter, const StepError& longer, const StepError& whole) {
  struct Squares {
    double computing, links, error;
  };
  const auto squares = [](const StepError& s) {
    return Squares{(s.seconds - s.links) * (s.seconds - s.links), s.links * s.links, s.error * s.error};
  };
  const Squares a = squares(shorter), b = squares(longer), all = squares(whole);
  const double determinant = a.computing * b.links - b.computing * a.links;
  if (std::abs(determinant) > 1e-2 * a.computing * b.links) {
    const double computing = (a.error * b.links - b.error * a.links) / determinant;
    const double links = (a.computing * b.error - b.computing * a.error) / determinant;
    if (computing >= 0 && links >= 0) return std::sqrt(computing * all.computing + links * all.links);
  }
  return whole.seconds * longer.error / longer.seconds;
}

int64_t FewerMicroBatches::all() const { return std::accumulate(steps.begin(), steps.end(), int64_t{0}); }

double FewerMicroBatches::groups() const {
  return static_cast<double>(whole - steps.back()) / static_cast<double>(steps[0]);
}

double Extend(const FewerMicroBatches& of, const StepFigures& figures) {
  return figures.back() + (figures[of.to[1]] - figures[of.from[1]]) * of.groups();
}

bool OnALine(const FewerMicroBatches& of, const StepFigures& seconds) {
  const auto group = [&](size_t i) { return seconds[of.to[i]] - seconds[of.from[i]]; };
  const double bend = group(1) - group(0), most = kExtensionError / 10 * Extend(of, seconds);
  if (std::abs(bend) * of.groups() > most) return false;
  // What a step of one more group leaves to do for a step of the same length: the last one follows one of one group
  // less. (In the second way, it follows one of its own length, and the others have it in what a group takes.)
  const double left = of.from[1] > of.to[0] ? seconds[of.from[1]] - seconds[of.to[0]] : 0;
  return std::abs(left) * (of.groups() + 1) <= most;
}

double MostLate(const FewerMicroBatches& of, double late) {
  return late * static_cast<double>(of.whole) / static_cast<double>(of.all());
}

}  // namespace twofold::plan
