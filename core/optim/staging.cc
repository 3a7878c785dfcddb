#include "core/optim/staging.h"

#include <deque>
#include <utility>

namespace twofold::optim {

Staging::Staging(Device& device, Category category) : device_(device), category_(category) {}

TransferStream& Staging::In() { return in_ ? *in_ : in_.emplace(device_, "host to device"); }
TransferStream& Staging::Out() { return out_ ? *out_ : out_.emplace(device_, "device to host"); }

void Staging::Run(std::span<const Chunk> chunks, Use use) {
  std::deque<Visit> going;  // back
  const auto let_go = [&] {
    going.front().last.WaitOn(device_.compute());
    going.pop_front();
  };
  Visit next;
  if (!chunks.empty()) next = Bring(chunks[0]);
  for (size_t i = 0; i < chunks.size(); ++i) {
    Visit visit = std::exchange(next, Visit());
    while (going.size() + 2 > kInFlight) let_go();
    if (i + 1 < chunks.size()) next = Bring(chunks[i + 1]);
    visit.last.WaitOn(device_.compute());
    use(i, visit.tensors);
    TakeBack(chunks[i], visit);
    going.push_back(std::move(visit));
  }
  while (!going.empty()) let_go();
}

Staging::Visit Staging::Bring(const Chunk& chunk) {
  Visit visit;
  for (const Visitor& v : chunk) {
    if (v.home.empty() || !device_.IsOnHost(v.home)) {
      visit.tensors.push_back(v.home);
      continue;
    }
    visit.tensors.push_back(device_.NewTensor(v.home.shape(), v.home.dtype(), category_));
    if (v.brings) visit.last = In().Copy(v.home, visit.tensors.back());
  }
  return visit;
}

void Staging::TakeBack(const Chunk& chunk, Visit& visit) {
  visit.last = Transfer();
  for (size_t i = 0; i < chunk.size(); ++i) {
    const Visitor& v = chunk[i];
    if (v.goes_back && !v.home.empty() && device_.IsOnHost(v.home)) visit.last = Out().Copy(visit.tensors[i], v.home);
  }
}

}  // namespace twofold::optim
