#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

void Compute(const ops::ConvolutionForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ConvolutionBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ConvolutionWeights&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::MaxPoolForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::MaxPoolBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AveragePoolForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AveragePoolBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::BatchNormStatistics&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::BatchNormFinish&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::BatchNormForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::BatchNormSums&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::BatchNormBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }

}  // namespace twofold::cuda
