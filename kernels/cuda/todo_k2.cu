#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

void Compute(const ops::RouteForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RouteBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Dispatch&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Combine&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CombineWeights&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Sum&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SgdStep&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AdamStep&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SquaredNorm&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ClipFactor&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }

}  // namespace twofold::cuda
