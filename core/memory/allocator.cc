#include "core/memory/allocator.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/base/check.h"
#include "core/base/errors.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int64_t kRound = 512;
constexpr int64_t kSmallLimit = 1 << 20;
constexpr int64_t kSmallSegment = 2 << 20;
constexpr int64_t kMediumLimit = 10 << 20;
constexpr int64_t kMediumSegment = 20 << 20;
constexpr int64_t kLargeRound = 2 << 20;

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t SegmentSize(int64_t request) {
  if (request <= kSmallLimit) return kSmallSegment;
  if (request < kMediumLimit) return kMediumSegment;
  return RoundUp(request, kLargeRound);
}

}  // namespace

struct CachingAllocator::Segment {
  int64_t sequence;
  Address address;
  Bytes size;
  bool small;
  Block* first;
};

struct CachingAllocator::Block {
  Segment* segment;
  int64_t offset;
  int64_t size;
  bool free;
  int64_t requested;       // bytes requested, if not free
  Owners::Id owner;        // likewise: who requested them
  Block *previous, *next;  // neighbours within the segment
};

bool CachingAllocator::Order::operator()(const Block* a, const Block* b) const {
  if (a->size != b->size) return a->size < b->size;  // the usual case; segments are elsewhere in memory
  return std::tie(a->segment->sequence, a->offset) < std::tie(b->segment->sequence, b->offset);
}

Buffer::~Buffer() {
  if (!borrowed()) owner_->Free(static_cast<CachingAllocator::Block*>(block_), category_);
}

std::shared_ptr<Buffer> Buffer::Borrowed() const {
  return std::make_shared<Buffer>(Token{}, owner_, nullptr, address_, size_, host_accessible_, category_);
}

CachingAllocator::CachingAllocator(MemorySource& source, int rank, std::string_view memory)
    : source_(source), rank_(rank), memory_(memory) {}

CachingAllocator::~CachingAllocator() {
  TWOFOLD_CHECK_EQ(ledger_.stats().live.value(), 0);
  ReleaseCached();
  for (Block* b : spare_) delete b;
}

CachingAllocator::Place CachingAllocator::PlaceOf(const Block& block) {
  return {&block, &block.owner, block.segment->sequence, block.offset, Bytes(block.size)};
}

CachingAllocator::Place CachingAllocator::PlaceOf(const Segment& segment) {
  return {nullptr, nullptr, segment.sequence, 0, segment.size};
}

void CachingAllocator::TellAll(Observer& observer) const {
  for (const auto& segment : segments_) {
    observer.OnReserve(PlaceOf(*segment));
    for (const Block* b = segment->first; b != nullptr; b = b->next) {
      if (!b->free) observer.OnAllocate(PlaceOf(*b));
    }
  }
}

std::shared_ptr<Buffer> CachingAllocator::Allocate(Bytes request, Category category, const TensorKind& kind) {
  TWOFOLD_CHECK_GE(request.value(), 0);
  const Bytes size(RoundUp(std::max<int64_t>(request.value(), 1), kRound));
  const bool small = size.value() <= kSmallLimit;
  Block* block = FindFree(size, small);
  if (block == nullptr) block = NewSegment(size, small);
  if (block == nullptr) {
    ReleaseCached();
    block = NewSegment(size, small);
  }
  if (block == nullptr) ThrowOutOfMemory(size, category);
  free_list(small).erase(block);
  block->free = false;
  block->requested = request.value();
  block->owner = owners_.Now(category, kind);
  Split(block, size);
  ledger_.OnAllocate(Bytes(block->size), request, category);
  if (observer_ != nullptr) observer_->OnAllocate(PlaceOf(*block));
  return std::make_shared<Buffer>(Buffer::Token{}, this, block,
                                  block->segment->address + static_cast<Address>(block->offset), Bytes(block->size),
                                  source_.host_accessible(), category);
}

CachingAllocator::Block* CachingAllocator::FindFree(Bytes size, bool small) {
  Segment oldest{.sequence = -1, .address = 0, .size = Bytes(0), .small = small, .first = nullptr};
  Block key{&oldest, -1, size.value(), true, 0, {}, nullptr, nullptr};
  auto it = free_list(small).lower_bound(&key);
  return it == free_list(small).end() ? nullptr : *it;
}

CachingAllocator::Block* CachingAllocator::NewSegment(Bytes size, bool small) {
  const Bytes segment_size(SegmentSize(size.value()));
  const auto address = source_.Reserve(segment_size);
  if (!address) return nullptr;
  ledger_.OnReserve(segment_size);
  segments_.push_back(std::make_unique<Segment>(Segment{next_segment_++, *address, segment_size, small, nullptr}));
  Segment* segment = segments_.back().get();
  Block* block = new Block{segment, 0, segment_size.value(), true, 0, {}, nullptr, nullptr};
  segment->first = block;
  free_list(small).insert(block);
  if (observer_ != nullptr) observer_->OnReserve(PlaceOf(*segment));
  return block;
}

// Leaves the first `size` bytes in `block`. The rest becomes a free neighbour if it is large enough to be worth
// keeping.
void CachingAllocator::Split(Block* block, Bytes size) {
  const int64_t rest = block->size - size.value();
  const bool small = block->segment->small;
  if (small ? rest < kRound : rest <= kSmallLimit) return;
  Block* tail;
  if (spare_.empty()) {
    tail = new Block;
  } else {
    tail = spare_.back();
    spare_.pop_back();
  }
  *tail = Block{block->segment, block->offset + size.value(), rest, true, 0, {}, block, block->next};
  if (block->next != nullptr) block->next->previous = tail;
  block->next = tail;
  block->size = size.value();
  free_list(small).insert(tail);
}

void CachingAllocator::Free(Block* block, Category category) {
  ledger_.OnFree(Bytes(block->size), Bytes(block->requested), category);
  if (observer_ != nullptr) observer_->OnFree(PlaceOf(*block));
  block->free = true;
  block = MergeWithNeighbours(block);
  free_list(block->segment->small).insert(block);
}

CachingAllocator::Block* CachingAllocator::MergeWithNeighbours(Block* block) {
  auto absorb = [this](Block* left, Block* right) {
    left->size += right->size;
    left->next = right->next;
    if (right->next != nullptr) right->next->previous = left;
    spare_.push_back(right);
  };
  FreeList& list = free_list(block->segment->small);
  if (block->next != nullptr && block->next->free) {
    list.erase(block->next);
    absorb(block, block->next);
  }
  if (block->previous != nullptr && block->previous->free) {
    Block* left = block->previous;
    list.erase(left);
    absorb(left, block);
    block = left;
  }
  return block;
}

void CachingAllocator::ReleaseCached() {
  if (before_release_) before_release_();
  auto idle = [](const std::unique_ptr<Segment>& s) { return s->first->free && s->first->next == nullptr; };
  for (const auto& segment : segments_) {
    if (!idle(segment)) continue;
    free_list(segment->small).erase(segment->first);
    source_.Release(segment->address, segment->size);
    ledger_.OnRelease(segment->size);
    if (observer_ != nullptr) observer_->OnRelease(PlaceOf(*segment));
    spare_.push_back(segment->first);
    segment->first = nullptr;
  }
  std::erase_if(segments_, [](const std::unique_ptr<Segment>& s) { return s->first == nullptr; });
}

Fragmentation CachingAllocator::fragmentation() const {
  Fragmentation f{.free = ledger_.stats().reserved - ledger_.stats().live,
                  .largest_free = Bytes(0),
                  .free_blocks = static_cast<int64_t>(free_small_.size() + free_large_.size()),
                  .segments = static_cast<int64_t>(segments_.size())};
  for (const FreeList* list : {&free_small_, &free_large_}) {  // sorted by size
    if (!list->empty()) f.largest_free = std::max(f.largest_free, Bytes((*list->rbegin())->size));
  }
  return f;
}

// FNV-1a over the blocks of every segment, oldest segment first. Only the order of the segments' numbers matters, not
// their values.
uint64_t CachingAllocator::Fingerprint() const {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto add = [&hash](int64_t value) { hash = (hash ^ static_cast<uint64_t>(value)) * 0x100000001b3u; };
  for (const auto& segment : segments_) {
    add(segment->size.value());
    for (const Block* b = segment->first; b != nullptr; b = b->next) add(b->free ? -b->size : b->size);
  }
  return hash;
}

void CachingAllocator::ThrowOutOfMemory(Bytes request, Category category) const {
  const MemoryStats& s = ledger_.stats();
  std::array<size_t, kCategories> order;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return s.live_by_category[a] > s.live_by_category[b]; });
  std::string held;
  for (size_t c : order) {
    if (s.live_by_category[c].value() == 0) continue;
    StrAppend(&held, held.empty() ? "" : ", ", std::string(CategoryName(static_cast<Category>(c))), " ",
              CountText(s.live_by_category[c].value()));
  }
  throw OutOfMemory(rank_, StrCat("rank ", rank_, ": out of ", memory_, ": asked for ", CountText(request.value()),
                                  " bytes of ", std::string(CategoryName(category)), " with ",
                                  CountText(s.live.value()), " live and ", CountText(s.reserved.value()), " reserved",
                                  held.empty() ? "" : StrCat(" (bytes by category: ", held, ")")));
}

}  // namespace twofold
