#include "kernels/cuda/kernels.h"

namespace twofold::cuda {

void Compute(const ops::Fill&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Cast&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Affine&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Add&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AddRelu&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AddTo&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Scale&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ActivationForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ActivationBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::Dropout&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::MaskedDropoutForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::MaskedDropoutBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SwiGluForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::SwiGluBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::ColumnSum&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::AddBias&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::EmbeddingForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::EmbeddingBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::PositionForward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::PositionBackward&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::CopyColumns&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }
void Compute(const ops::RandomFill&, const Context&) { TWOFOLD_CHECK(false, "not written yet"); }

}  // namespace twofold::cuda
