#include "core/nn/parameter.h"

namespace twofold::nn {

void Parameter::Initialize(Device& device, Stream& stream, uint64_t seed, Tensor out, int64_t first) const {
  TWOFOLD_CHECK_GE(first, 0);
  TWOFOLD_CHECK_LE(first + out.numel(), numel());
  if (out.numel() == 0) return;
  if (init_.kind == Init::kConstant) {
    device.Launch(stream, ops::Fill{.out = out, .value = init_.a});
    return;
  }
  device.Launch(stream,
                ops::RandomFill{.distribution = init_.kind == Init::kNormal ? ops::RandomFill::kNormal
                                                                            : ops::RandomFill::kUniform,
                                .out = out,
                                .a = init_.a,
                                .b = init_.b,
                                .key = MakeKey(seed, name_),
                                .first = first});
}

}  // namespace twofold::nn
