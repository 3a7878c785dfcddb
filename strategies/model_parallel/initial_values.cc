#include "strategies/model_parallel/initial_values.h"

namespace twofold {
namespace {

using nn::Cut;

// With whom this rank shares what it has drawn of `range`. Along tp a rank that has the whole of a parameter is not the only one,
// whether or not its gradients are to be summed.
Cut::Sum SharersOf(const SliceRange& range) {
  const nn::Parameter& p = range.parameter;
  if (p.init().kind == nn::Init::kConstant) return Cut::Sum::kNone;
  if (range.run.sum != Cut::Sum::kNone) return range.run.sum;
  return p.numel() == p.cut().whole.numel() ? Cut::Sum::kTensor : Cut::Sum::kNone;
}

}  // namespace

InitialValues::InitialValues(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers)
    : layout_(layout), shares_(sharers.any()), ranges_(ctx, layout, sharers, SharedRanges::Of::kValues, SharersOf) {}

void InitialValues::Share() {
  ranges_.Exchange([](ProcessGroup& group, Tensor& values) { return group.Broadcast(values, 0); });
  if (shares_) layout_.PublishUpdate();
}

}  // namespace twofold
