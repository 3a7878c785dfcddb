// A step of many micro-batches, from three simulated steps of fewer.
//
// Once all stages of a pipeline have work, each further group of micro-batches takes as long as the one before: the
// time of a step is a straight line over their number. Where messages meet in another way each time, or while the
// ranks' times still drift apart (fabric.simulated.noise), it is not. So steps of two, three and four times as many
// micro-batches as stages are simulated. The first two foretell the third; if they miss it by so much that the whole
// step would differ by more than a tenth of kExtensionError, it is simulated whole.
//
// All are steps of one training: a step of the fewest micro-batches that fill the pipeline, which warms up, the three,
// and the last of them once more. For what the step before leaves to do counts, too (parameters that are gathered while
// the next step begins, ranks that begin apart), and grows as that step does: the three differ in their own length and
// in that of the step before, as whole steps do. Only the last follows a step of its own length, as whole steps do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/proto/spec.pb.h"

namespace twofold::plan {

// The share by which a step time found in this way may be off; a test holds it.
inline constexpr double kExtensionError = 1e-3;

// Micro-batches of a rank and step: of the whole step, and of those that are simulated instead.
struct FewerMicroBatches {
  int64_t whole = 0;
  std::array<int64_t, 5> steps = {};  // one warms up, then three differ by as many, and the last is as the third
};

// Absent where it would not be quicker, and where steps are not on a line: with GPipe (whose memory grows), or where
// the network draws its latencies or a plan simulates more than two steps.
std::optional<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec);

// Of the whole step, from what the second and third of the three steps have, and the last.
double Extend(const FewerMicroBatches& of, double second, double third, double last);

// Whether three step times are on a line.
bool OnALine(const FewerMicroBatches& of, const std::array<double, 3>& seconds);

}  // namespace twofold::plan
