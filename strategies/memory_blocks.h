// Which blocks of its allocator a rank's memory consisted of at the samples of its memory time line.
//
// Every block and segment is kept with the changes of memory at which it came and went. Samples are thinned; so that a
// long trace stays small, what was at none of the samples that are left is forgotten.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <unordered_map>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/memory/allocator.h"

namespace twofold {

namespace report {
class RankRecord;
}  // namespace report

class MemoryBlocks final : public CachingAllocator::Observer {
 public:
  // The numbers of the changes that are samples, ascending: those that are kept now, and those that may be.
  using Kept = std::function<std::vector<int64_t>()>;
  // Watches `allocator` from now on, and until it is destroyed. `latest`: the number of the latest change of memory.
  // When more than `most` blocks were at the samples that are kept, all are given up.
  MemoryBlocks(CachingAllocator& allocator, std::function<int64_t()> latest, Kept kept, size_t most);
  ~MemoryBlocks() override { allocator_.SetObserver(nullptr); }
  MemoryBlocks(const MemoryBlocks&) = delete;
  MemoryBlocks& operator=(const MemoryBlocks&) = delete;

  void OnAllocate(const CachingAllocator::Place& block) override;
  void OnFree(const CachingAllocator::Place& block) override;
  void OnReserve(const CachingAllocator::Place& segment) override;
  void OnRelease(const CachingAllocator::Place& segment) override;

  // Into record.blocks; or a note that there are too many. `samples`: the change that each sample of the record is.
  void WriteTo(const std::vector<int64_t>& samples, report::RankRecord& record) const;

 private:
  static constexpr int64_t kStillThere = std::numeric_limits<int64_t>::max();
  struct Life {
    const void* block;  // null: a segment
    int owner;          // of a block: its place in owners_
    int64_t segment, offset, bytes;
    int64_t first, end = kStillThere;  // changes
  };
  void Forget();

  CachingAllocator& allocator_;
  const std::function<int64_t()> latest_;
  const Kept kept_;
  const size_t most_;
  size_t forget_at_;
  bool given_up_ = false;
  std::vector<Life> blocks_, segments_;
  std::vector<Owners::Id> owners_;
  absl::flat_hash_map<Owners::Id, int> known_;            // places in owners_
  std::unordered_map<const void*, size_t> live_;          // by block: its place in blocks_
  std::unordered_map<int64_t, size_t> present_segments_;  // by number: its place in segments_
};

}  // namespace twofold
