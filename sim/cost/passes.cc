#include "sim/cost/passes.h"

namespace twofold {
namespace {

using ops::ActivationForward, ops::MatMul;

template <class Norm>
std::optional<TwoPasses> WithoutBranch(Norm norm) {
  if (norm.branch.empty()) return std::nullopt;
  const ops::Add sum{.a = norm.x, .b = norm.branch, .out = norm.sum};
  norm.x = norm.sum;
  norm.branch = norm.sum = Tensor();
  return TwoPasses{norm, sum};
}

template <class Norm>
std::optional<TwoPasses> WithoutPast(Norm norm) {
  if (norm.past.empty()) return std::nullopt;
  const ops::AddTo sum{.in = norm.past, .out = norm.dx};
  norm.past = Tensor();
  return TwoPasses{norm, sum};
}

std::optional<TwoPasses> WithoutEpilogue(MatMul product) {
  const auto epilogue = product.epilogue;
  const Tensor out = product.out, aux = std::exchange(product.aux, Tensor());
  product.epilogue = MatMul::kNone;
  switch (epilogue) {
    case MatMul::kNone: return std::nullopt;
    case MatMul::kGelu:
      product.out = aux;
      return TwoPasses{product, ActivationForward{ActivationForward::kGelu, aux, out}};
    case MatMul::kGeluSlope:
      return TwoPasses{product, ops::ActivationBackward{ActivationForward::kGelu, aux, out, out}};
  }
  __builtin_unreachable();
}

}  // namespace

std::optional<TwoPasses> Unfused(const ops::Op& op) {
  if (const auto* o = std::get_if<ops::LayerNormForward>(&op.any())) return WithoutBranch(*o);
  if (const auto* o = std::get_if<ops::RmsNormForward>(&op.any())) return WithoutBranch(*o);
  if (const auto* o = std::get_if<ops::LayerNormBackward>(&op.any())) return WithoutPast(*o);
  if (const auto* o = std::get_if<ops::RmsNormBackward>(&op.any())) return WithoutPast(*o);
  if (const auto* o = std::get_if<MatMul>(&op.any())) return WithoutEpilogue(*o);
  return std::nullopt;
}

}  // namespace twofold
