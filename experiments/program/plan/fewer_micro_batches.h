// A step of many micro-batches, from three simulated steps of fewer.
//
// Once all stages of a pipeline have work, each further group of micro-batches takes as long as the one before: the
// time of a step is a straight line over their number. Where messages meet in another way each time, or while the
// ranks' times still drift apart (fabric.simulated.noise), it is not. So steps of two, three and four times as many
// micro-batches as stages are simulated. The first two foretell the third; if they miss it by so much that the whole
// step would differ by more than a tenth of kExtensionError, it is simulated whole.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/proto/spec.pb.h"

namespace twofold::plan {

// The share by which a step time found in this way may be off; a test holds it.
inline constexpr double kExtensionError = 1e-3;

// Micro-batches of a rank and step: of the whole step, and of the three shorter ones, which differ by as many.
struct FewerMicroBatches {
  int64_t whole = 0;
  std::array<int64_t, 3> few = {};
};

// Absent where it would not be quicker, and where steps are not on a line: with GPipe (whose memory grows), or where
// the network draws its latencies or a plan simulates more than two steps.
std::optional<FewerMicroBatches> FewerMicroBatchesOf(const spec::Spec& spec);

// `spec`, which has `of.whole` micro-batches, with so many.
spec::Spec WithMicroBatches(spec::Spec spec, const FewerMicroBatches& of, int64_t micro_batches);

// Of the whole step, from what the second and third of the shorter ones have.
double Extend(const FewerMicroBatches& of, double second, double third);

// Whether three step times are on a line.
bool OnALine(const FewerMicroBatches& of, const std::array<double, 3>& seconds);

}  // namespace twofold::plan
