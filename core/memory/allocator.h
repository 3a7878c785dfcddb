// The only allocator, with accounting: a caching allocator over any MemorySource.
//
// The same code serves malloc, cudaMalloc and simulated memory. The block that a request gets depends only on the
// sequence of calls, never on addresses, time or threads. That makes memory use predictable to the byte.
//
// Requests are rounded up to 512 bytes. Requests of up to 1 MiB are cut from 2 MiB segments, those of up to 10 MiB from
// 20 MiB segments. Larger ones get a segment of their own, rounded up to 2 MiB. The best fit wins. Among blocks of
// equal size, the one in the oldest segment at the lowest offset wins. Neighbouring free blocks merge. (The scheme and
// its constants are those of PyTorch's CUDA caching allocator, so findings about one hold for the other.)
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/memory/ledger.h"
#include "core/memory/owners.h"
#include "core/memory/source.h"

namespace twofold {

class CachingAllocator;

// The free memory within the segments that an allocator has reserved.
struct Fragmentation {
  Bytes free;          // reserved but not live
  Bytes largest_free;  // size of the largest free block: a larger request needs a new segment
  int64_t free_blocks = 0, segments = 0;
};

// A piece of device memory. It returns to its allocator when the last tensor that views it is destroyed, which must
// happen on the rank's own thread. (For this reason Work keeps tensors until the program waits for them.)
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Address address() const { return address_; }
  Bytes size() const { return size_; }
  bool host_accessible() const { return host_accessible_; }
  Category category() const { return category_; }
  const CachingAllocator& allocator() const { return *owner_; }

  // A non-owning reference to the same memory. It does not keep the memory allocated, and its address stays readable
  // after the buffer is freed.
  std::shared_ptr<Buffer> Borrowed() const;
  bool borrowed() const { return block_ == nullptr; }

 private:
  friend class CachingAllocator;
  struct Token {};

 public:
  Buffer(Token, CachingAllocator* owner, void* block, Address address, Bytes size, bool host, Category category)
      : owner_(owner), block_(block), address_(address), size_(size), host_accessible_(host), category_(category) {}

 private:
  CachingAllocator* owner_;
  void* block_;
  Address address_;
  Bytes size_;
  bool host_accessible_;
  Category category_;
};

class CachingAllocator {
 public:
  // `rank` and `memory` (the name of the memory it allocates from) appear in out-of-memory errors. The source must
  // outlive the allocator, and the allocator must outlive every buffer.
  CachingAllocator(MemorySource& source, int rank, std::string_view memory = "memory");
  ~CachingAllocator();

  // Throws OutOfMemory, naming the rank, the request and the largest categories. A request of zero bytes is valid.
  std::shared_ptr<Buffer> Allocate(Bytes size, Category category, const TensorKind& kind = {});

  // Returns fully free segments to the source.
  void ReleaseCached();
  // `fn` is called before segments are returned: work that uses them may not have been given to the device yet. Null:
  // nobody is asked.
  void SetBeforeRelease(std::function<void()> fn) { before_release_ = std::move(fn); }

  // The current state. ledger().stats() has the rest: live, peak and reserved bytes, by category.
  Fragmentation fragmentation() const;
  // A hash of the layout of blocks. Allocators with the same fingerprint place the same requests in the same places.
  uint64_t Fingerprint() const;

  MemoryLedger& ledger() { return ledger_; }
  const MemoryLedger& ledger() const { return ledger_; }
  Owners& owners() { return owners_; }
  const Owners& owners() const { return owners_; }

  // What is allocated, and where. Called after the ledger's observer, for the same change.
  struct Place {
    const void* id;           // of a block, as long as it is allocated; null: a segment
    const Owners::Id* owner;  // of a block: for owners()
    int64_t segment, offset;
    Bytes size;
  };
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void OnAllocate(const Place& block) = 0;
    virtual void OnFree(const Place& block) = 0;
    virtual void OnReserve(const Place& segment) = 0;
    virtual void OnRelease(const Place& segment) = 0;
  };
  void SetObserver(Observer* observer) { observer_ = observer; }  // null: none. It must outlive its being set
  // Reports all that there is as if it were made now: segments, oldest first, each before its allocated blocks.
  void TellAll(Observer& observer) const;

 private:
  friend class Buffer;
  struct Segment;
  struct Block;
  struct Order {
    bool operator()(const Block* a, const Block* b) const;
  };
  using FreeList = std::set<Block*, Order>;

  Block* FindFree(Bytes size, bool small);
  Block* NewSegment(Bytes size, bool small);
  void Split(Block* block, Bytes size);
  void Free(Block* block, Category category);
  Block* MergeWithNeighbours(Block* block);
  FreeList& free_list(bool small) { return small ? free_small_ : free_large_; }
  static Place PlaceOf(const Block& block);
  static Place PlaceOf(const Segment& segment);
  [[noreturn]] void ThrowOutOfMemory(Bytes request, Category category) const;

  MemorySource& source_;
  const int rank_;
  const std::string memory_;
  MemoryLedger ledger_;
  Owners owners_;
  Observer* observer_ = nullptr;
  std::function<void()> before_release_;
  FreeList free_small_, free_large_;
  std::vector<std::unique_ptr<Segment>> segments_;
  std::vector<Block*> spare_;  // block descriptors for reuse
  int64_t next_segment_ = 0;
};

}  // namespace twofold
