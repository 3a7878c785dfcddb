#include "core/device/transfers.h"

namespace twofold {

void Transfer::Wait() {
  if (held_ == nullptr) return;
  event_.Wait();
  held_->ReleaseUpTo(sequence_);
}

void Transfer::WaitOn(Stream& stream) {
  if (held_ == nullptr) return;
  stream.WaitFor(event_);
  if (&stream == held_->compute()) held_->ReleaseUpTo(sequence_);
}

TransferStream::TransferStream(Device& device, std::string_view name)
    : device_(device), held_(std::make_shared<HeldTensors>(&device.compute())), stream_(device.NewStream(name)) {}

Transfer TransferStream::Copy(const Tensor& from, const Tensor& to) {
  TWOFOLD_CHECK(device_.IsOnHost(from) != device_.IsOnHost(to),
                "a transfer is between the device's memory and the host's");
  stream_->WaitFor(device_.compute().Record());
  device_.Transfer(*stream_, from, to);
  const uint64_t sequence = held_->NextCall();
  held_->Hold(from);
  held_->Hold(to);
  return {stream_->Record(), held_, sequence};
}

}  // namespace twofold
