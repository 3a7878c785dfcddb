#include "strategies/memory_blocks.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/proto/report.pb.h"

namespace twofold {
namespace {

// The places in `samples` from the first that is not before `change`.
int64_t FirstFrom(const std::vector<int64_t>& samples, int64_t change) {
  return std::lower_bound(samples.begin(), samples.end(), change) - samples.begin();
}

}  // namespace

MemoryBlocks::MemoryBlocks(CachingAllocator& allocator, std::function<int64_t()> latest, Kept kept, size_t most)
    : allocator_(allocator),
      latest_(std::move(latest)),
      kept_(std::move(kept)),
      most_(most),
      forget_at_(2 * std::max<size_t>(most, 1)) {
  allocator.TellAll(*this);
  allocator.SetObserver(this);
}

void MemoryBlocks::OnAllocate(const CachingAllocator::Place& block) {
  if (given_up_) return;
  if (blocks_.size() >= forget_at_) Forget();
  const auto [owner, fresh] = known_.try_emplace(*block.owner, static_cast<int>(owners_.size()));
  if (fresh) owners_.push_back(*block.owner);
  live_[block.id] = blocks_.size();
  blocks_.push_back({block.id, owner->second, block.segment, block.offset, block.size.value(), latest_()});
}

void MemoryBlocks::OnFree(const CachingAllocator::Place& block) {
  if (given_up_) return;
  const auto found = live_.find(block.id);
  TWOFOLD_CHECK(found != live_.end(), "a block was allocated before it is freed");
  blocks_[found->second].end = latest_();
  live_.erase(found);
}

void MemoryBlocks::OnReserve(const CachingAllocator::Place& segment) {
  present_segments_[segment.segment] = segments_.size();
  segments_.push_back({nullptr, 0, segment.segment, 0, segment.size.value(), latest_()});
}

void MemoryBlocks::OnRelease(const CachingAllocator::Place& segment) {
  segments_[present_segments_.at(segment.segment)].end = latest_();
}

// Leaves out blocks that were at no sample. Gives up if that does not help.
void MemoryBlocks::Forget() {
  const std::vector<int64_t> kept = kept_();
  const auto unseen = [&kept](const Life& l) { return FirstFrom(kept, l.first) == FirstFrom(kept, l.end); };
  std::erase_if(blocks_, [&](const Life& l) { return l.end != kStillThere && unseen(l); });
  if (blocks_.size() > most_) {
    given_up_ = true;
    blocks_.clear(), live_.clear(), owners_.clear(), known_.clear();
    return;
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].end == kStillThere) live_[blocks_[i].block] = i;
  }
}

void MemoryBlocks::WriteTo(const std::vector<int64_t>& samples, report::RankRecord& record) const {
  if (given_up_) {
    record.add_notes(
        StrCat("memory by tensor was left out of ranks with more than ", most_, " blocks; use fewer trace.last_steps"));
    return;
  }
  report::MemoryBlocks& out = *record.mutable_blocks();
  std::map<int, int> owners;  // those that are used, by their place in owners_
  const auto owner_of = [&](int number) {
    const auto [at, fresh] = owners.try_emplace(number, out.owners_size());
    if (!fresh) return at->second;
    const Owners::Owner owner = allocator_.owners().owner(owners_[static_cast<size_t>(number)]);
    report::MemoryOwner& o = *out.add_owners();
    o.set_pass(owner.pass), o.set_module(owner.module), o.set_tensor(owner.tensor);
    o.set_category(std::string(CategoryName(owner.category)));
    return at->second;
  };
  for (const Life& block : blocks_) {
    const int64_t first = FirstFrom(samples, block.first), end = FirstFrom(samples, block.end);
    if (first == end) continue;
    out.add_owner(owner_of(block.owner)), out.add_bytes(block.bytes);
    out.add_segment(block.segment), out.add_offset(block.offset);
    out.add_first(first), out.add_end(end);
  }
  for (const Life& segment : segments_) {
    const int64_t first = FirstFrom(samples, segment.first), end = FirstFrom(samples, segment.end);
    if (first == end) continue;
    out.add_segment_number(segment.segment), out.add_segment_bytes(segment.bytes);
    out.add_segment_first(first), out.add_segment_end(end);
  }
}

}  // namespace twofold
