#include "core/optim/staging.h"

#include <deque>
#include <utility>

namespace twofold::optim {

ChunkStaging::ChunkStaging(Device& device, Category category) : device_(device), category_(category) {}

TransferStream& ChunkStaging::In() { return in_ ? *in_ : in_.emplace(device_, "host to device"); }
TransferStream& ChunkStaging::Out() { return out_ ? *out_ : out_.emplace(device_, "device to host"); }

void ChunkStaging::Run(std::span<const Chunk> chunks, Use use) {
  std::deque<Visit> going;  // chunks being copied back
  const auto let_go = [&] {
    going.front().last.WaitOn(device_.compute());
    going.pop_front();
  };
  Visit next;
  if (!chunks.empty()) next = Fetch(chunks[0]);
  for (size_t i = 0; i < chunks.size(); ++i) {
    Visit visit = std::exchange(next, Visit());
    while (going.size() + 2 > kInFlight) let_go();
    if (i + 1 < chunks.size()) next = Fetch(chunks[i + 1]);
    visit.last.WaitOn(device_.compute());
    use(i, visit.tensors);
    TakeBack(chunks[i], visit);
    going.push_back(std::move(visit));
  }
  while (!going.empty()) let_go();
}

ChunkStaging::Visit ChunkStaging::Fetch(const Chunk& chunk) {
  Visit visit;
  for (const Visitor& v : chunk) {
    if (v.home.empty() || !device_.IsOnHost(v.home)) {
      visit.tensors.push_back(v.home);
      continue;
    }
    visit.tensors.push_back(device_.NewTensor(v.home.shape(), v.home.dtype(), category_, "copy of what is offloaded"));
    if (v.brings) visit.last = In().Copy(v.home, visit.tensors.back());
  }
  return visit;
}

void ChunkStaging::TakeBack(const Chunk& chunk, Visit& visit) {
  visit.last = Transfer();
  for (size_t i = 0; i < chunk.size(); ++i) {
    const Visitor& v = chunk[i];
    if (v.goes_back && !v.home.empty() && device_.IsOnHost(v.home)) visit.last = Out().Copy(visit.tensors[i], v.home);
  }
}

}  // namespace twofold::optim
