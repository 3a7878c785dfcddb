#include "core/comm/staging.h"

namespace twofold {

Tensor HostStaging::For(const Communication& c, Device& device, std::vector<Tensor>& workspace) {
  if (bytes_.value() == 0 || c.kind == Communication::kBarrier) return Tensor();
  const auto take = [&](Bytes bytes) {
    return device.NewHostTensor(Shape{bytes.value()}, DType::kU8, Category::kCommunication);
  };
  if (c.batch.size() > kSlots) {
    workspace.push_back(take(slot() * static_cast<int64_t>(c.batch.size())));
    return workspace.back().Borrowed();
  }
  if (memory_.empty()) memory_ = take(bytes_);
  return memory_.Borrowed();
}

}  // namespace twofold
