#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

void Compute(const ops::LayerNormForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::LayerNormBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RmsNormForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RmsNormBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RotaryTable&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Rotary&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RouteForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RouteBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Dispatch&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Combine&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CombineWeights&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CrossEntropyForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CrossEntropyBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Sum&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CountCorrect&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SplitMax&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SplitSums&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SplitLosses&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SplitBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SplitCorrect&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SgdStep&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AdamStep&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SquaredNorm&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ClipFactor&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }

}  // namespace twofold::cuda
