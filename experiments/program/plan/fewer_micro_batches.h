// A step of many micro-batches, from simulated steps of fewer.
//
// Once all stages of a pipeline have work, each further group of micro-batches, one for each stage, takes as long as
// the one before: the time of a step is a straight line over their number. Where messages meet in another way each
// time, or while the ranks' times still drift apart (fabric.simulated.noise), it is not. So steps of a few groups are
// simulated. What one group more takes foretells what the next one takes; if that misses by so much that the whole step
// would differ by more than a tenth of kExtensionError, the step is simulated whole.
//
// All are steps of one training. For what the step before leaves to do counts, too (parameters that are gathered while
// the next step begins, ranks that begin apart), and may grow with that step. There are two ways, in groups:
//
//   1 1 2 2 3  The first step warms up. The second and third differ in one group, after the same step; so do the fourth
//              and fifth. The third and fourth differ in what is left by one group more. If the whole step would differ
//              by more than a tenth of kExtensionError for that, the second way is taken.
//   1 2 3 4 4  The first step warms up. The next three differ in their own length and in that of the step before, as
//              whole steps do. The last follows a step of its own length, as whole steps do.
//
// The first way is for steps of at most 24 micro-batches without a pipeline: stages may begin to drift apart, and a
// small job's host may fall behind, later than it would see. It is not for gradients in host memory, which a step of
// one micro-batch does not add to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/proto/spec.pb.h"

namespace twofold::plan {

// The share by which a step time found in this way may be off; a test holds it.
inline constexpr double kExtensionError = 1e-3;

// A figure of each of the simulated steps.
inline constexpr size_t kFewSteps = 5;
using StepFigures = std::array<double, kFewSteps>;

// Micro-batches of a rank and step: of the whole step, and of those that are simulated instead.
struct FewerMicroBatches {
  int64_t whole = 0;
  std::array<int64_t, kFewSteps> steps = {};
  std::array<size_t, 2> from = {}, to = {};  // pairs of steps that differ by a group
  int64_t all() const;                       // of all these steps
  double groups() const;                     // that the whole step has more than the last one
};

// The ways that are quicker than the whole step, the quickest first. None where steps are not on a line: with GPipe
// (whose memory grows), or where the network draws its latencies or a plan simulates more than two steps.
std::vector<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec);

// Of the whole step.
double Extend(const FewerMicroBatches& of, const StepFigures& figures);

// What the interval of a step adds at one end, and of how long a step, of which so much is waiting for links.
struct StepError {
  double seconds, links, error;
};
// What it adds to the whole step (whole.error does not count), if computing and waiting for links are off by the same
// shares in it as in two of fewer micro-batches. Their errors are independent: squares add up (assemble.cc). Where the
// two steps do not tell the errors apart, it is the share that it is in the longer one. A test holds both ends of
// intervals to 1 %.
double ExtendedError(const StepError& shorter, const StepError& longer, const StepError& whole);

// Whether step times are on a line.
bool OnALine(const FewerMicroBatches& of, const StepFigures& seconds);

// How late ranks are in the whole step at most, if they are `late` after all steps, and are so by a part in each step
// and a part in each micro-batch, whichever these are. (All of it in micro-batches is the most, since all steps
// together have fewer than two whole steps.)
double MostLate(const FewerMicroBatches& of, double late);

}  // namespace twofold::plan
