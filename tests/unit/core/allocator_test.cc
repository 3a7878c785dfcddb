#include "core/memory/allocator.h"

#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/base/philox.h"
#include "gtest/gtest.h"

namespace twofold {
namespace allocator_test {

using Held = std::vector<std::shared_ptr<Buffer>>;

struct Virtual {
  explicit Virtual(Bytes limit = Bytes(0)) : source(limit), allocator(source, 5) {}
  std::shared_ptr<Buffer> Get(Bytes size, Category c = Category::kOther) { return allocator.Allocate(size, c); }
  const MemoryStats& stats() const { return allocator.ledger().stats(); }
  VirtualSource source;
  CachingAllocator allocator;
};

TEST(Allocator, RoundsUpTo512AndTakesZero) {
  Virtual v;
  const auto a = v.Get(Bytes(0)), b = v.Get(Bytes(1)), c = v.Get(Bytes(512)), d = v.Get(Bytes(513));
  EXPECT_EQ(a->size(), Bytes(512));
  EXPECT_EQ(b->size(), Bytes(512));
  EXPECT_EQ(c->size(), Bytes(512));
  EXPECT_EQ(d->size(), Bytes(1024));
  EXPECT_EQ(v.stats().live, Bytes(2560));
  EXPECT_EQ(v.stats().reserved, MiB(2));
}

TEST(Allocator, SegmentSizesBySizeOfRequest) {
  const std::pair<Bytes, Bytes> cases[] = {
      {MiB(1), MiB(2)},              // small
      {MiB(1) + Bytes(1), MiB(20)},  // medium
      {MiB(10) - Bytes(512), MiB(20)},
      {MiB(10), MiB(10)},             // its own
      {MiB(11) + Bytes(1), MiB(12)},  // rounded up to 2 MiB
  };
  for (const auto& [request, segment] : cases) {
    Virtual v;
    const auto b = v.Get(request);
    EXPECT_EQ(v.stats().reserved, segment) << request.value();
  }
}

TEST(Allocator, ReusesWhatWasFreedAndKeepsTheSegment) {
  Virtual v;
  const Address first = v.Get(KiB(100))->address();
  EXPECT_EQ(v.Get(KiB(100))->address(), first);
  EXPECT_EQ(v.stats().live, Bytes(0));
  EXPECT_EQ(v.stats().reserved, MiB(2));
  v.allocator.ReleaseCached();
  EXPECT_EQ(v.stats().reserved, Bytes(0));
}

TEST(Allocator, BestFitWins) {
  Virtual v;
  auto big = v.Get(KiB(64)), wall1 = v.Get(Bytes(512)), small = v.Get(KiB(8)), wall2 = v.Get(Bytes(512));
  const Address hole = small->address();
  big.reset();
  small.reset();
  EXPECT_EQ(v.Get(KiB(6))->address(), hole);
}

TEST(Allocator, NeighboursMerge) {
  Virtual v;
  auto a = v.Get(KiB(512)), b = v.Get(KiB(512)), c = v.Get(KiB(512)), d = v.Get(KiB(512));
  const Address start = a->address();
  a.reset();
  c.reset();
  b.reset();  // joins both sides
  const auto whole = v.Get(MiB(1));
  EXPECT_EQ(whole->address(), start);
  EXPECT_EQ(v.stats().reserved, MiB(2));
}

TEST(Allocator, ASegmentInUseIsNotReleased) {
  Virtual v;
  const auto kept = v.Get(Bytes(1));
  v.Get(MiB(30));
  EXPECT_EQ(v.stats().reserved, MiB(32));
  v.allocator.ReleaseCached();
  EXPECT_EQ(v.stats().reserved, MiB(2));
  EXPECT_EQ(v.stats().peak_reserved, MiB(32));
}

TEST(Allocator, ReleasesItsCacheBeforeItGivesUp) {
  Virtual v(MiB(40));
  v.Get(MiB(30));
  const auto b = v.Get(MiB(38));  // fits only once the 30 MiB are back
  EXPECT_EQ(v.stats().reserved, MiB(38));
}

TEST(Allocator, OutOfMemoryNamesRankRequestAndHolders) {
  Virtual v(MiB(40));
  const auto p = v.Get(MiB(30), Category::kParameters);
  try {
    v.Get(MiB(20), Category::kActivations);
    FAIL() << "40 MiB were enough for 50";
  } catch (const OutOfMemory& e) {
    EXPECT_EQ(e.rank(), 5);
    const std::string what = e.what();
    EXPECT_NE(what.find("rank 5: out of memory: asked for 20,971,520 bytes of activations"), std::string::npos) << what;
    EXPECT_NE(what.find("parameters 31,457,280"), std::string::npos) << what;
  }
  EXPECT_EQ(v.stats().live, MiB(30));
}

// Beyond its limit a lenient source does what a bounded one does until nothing cached is left to give back.
TEST(Allocator, LenientSourceExceedsItsLimitOnlyIfItMust) {
  LenientSource source(std::make_unique<VirtualSource>(), MiB(100));
  CachingAllocator allocator(source, 0);
  Held held;
  held.push_back(allocator.Allocate(MiB(60), Category::kParameters));
  { const auto freed = allocator.Allocate(MiB(40), Category::kActivations); }
  held.push_back(allocator.Allocate(MiB(30), Category::kActivations));
  EXPECT_EQ(allocator.ledger().stats().reserved, MiB(100)) << "within the cached segment";
  held.push_back(allocator.Allocate(MiB(12), Category::kActivations));
  EXPECT_EQ(allocator.ledger().stats().reserved, MiB(112)) << "nothing is left to give back";
  held.pop_back(), held.pop_back();
  held.push_back(allocator.Allocate(MiB(41), Category::kActivations));
  EXPECT_EQ(allocator.ledger().stats().reserved, MiB(102)) << "cached segments were given back first";
  EXPECT_EQ(allocator.ledger().stats().peak_reserved, MiB(112));
}

TEST(Allocator, MallocMemoryIsWritable) {
  MallocSource source;
  CachingAllocator allocator(source, 0);
  const auto b = allocator.Allocate(Bytes(5000), Category::kOther);
  EXPECT_TRUE(b->host_accessible());
  EXPECT_EQ(b->address() % 512, 0u);
  auto* bytes = reinterpret_cast<unsigned char*>(b->address());
  std::fill_n(bytes, 5000, 0x5a);
  EXPECT_EQ(bytes[4999], 0x5a);
}

// Segments of megabytes may become huge pages, which begin at multiples of their size; what is reserved stays what was
// asked for.
TEST(MallocSource, LargeSegmentsBeginWhereHugePagesDo) {
  const Bytes large((int64_t{3} << 20) + 4096), small((int64_t{2} << 20) - 4096);
  MallocSource source(large + small);
  const auto a = source.Reserve(large), b = source.Reserve(small);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(*a % (2u << 20), 0u);
  EXPECT_EQ(*b % 4096, 0u);
  reinterpret_cast<unsigned char*>(*a)[large.value() - 1] = 1;
  EXPECT_FALSE(source.Reserve(Bytes(1)));
  source.Release(*a, large);
  const auto again = source.Reserve(large);
  ASSERT_TRUE(again);
  EXPECT_FALSE(source.Reserve(Bytes(1)));
  source.Release(*again, large);
  source.Release(*b, small);
}

// The promise that predictions rest on: addresses aside, a virtual memory behaves like a real one, whatever is asked.
TEST(Allocator, DependsOnTheCallsAlone) {
  MallocSource malloc_source;
  VirtualSource virtual_source;
  CachingAllocator real(malloc_source, 0), predicted(virtual_source, 0);
  Held real_held, predicted_held;
  const PhiloxKey key = MakeKey(11, "allocator");
  for (uint64_t i = 0; i < 3000; ++i) {
    const auto r = Philox(key, i);
    if (r[0] % 2 == 0 || real_held.empty()) {
      const Bytes size(static_cast<int64_t>(r[1] % (r[2] % 8 == 0 ? 12u << 20 : 64u << 10)));
      real_held.push_back(real.Allocate(size, Category::kOther));
      predicted_held.push_back(predicted.Allocate(size, Category::kOther));
    } else {
      const auto at = static_cast<std::ptrdiff_t>(r[1] % real_held.size());
      real_held.erase(real_held.begin() + at);
      predicted_held.erase(predicted_held.begin() + at);
    }
    const MemoryStats &a = real.ledger().stats(), &b = predicted.ledger().stats();
    ASSERT_EQ(a.live, b.live) << i;
    ASSERT_EQ(a.reserved, b.reserved) << i;
    ASSERT_EQ(a.peak, b.peak) << i;
    ASSERT_LE(a.live, a.reserved) << i;
    ASSERT_EQ(real.Fingerprint(), predicted.Fingerprint()) << i;
  }
}

TEST(Allocator, SaysWhatLiesIdle) {
  Virtual v;
  EXPECT_EQ(v.allocator.fragmentation().segments, 0);
  auto a = v.Get(KiB(512)), b = v.Get(KiB(256)), c = v.Get(Bytes(700));  // of a segment of 2 MiB
  Fragmentation f = v.allocator.fragmentation();
  EXPECT_EQ(f.free, MiB(2) - KiB(769));
  EXPECT_EQ(f.largest_free, f.free);
  EXPECT_EQ(f.free_blocks, 1);
  EXPECT_EQ(f.segments, 1);
  EXPECT_EQ(v.stats().requested_by_category[static_cast<size_t>(Category::kOther)], KiB(768) + Bytes(700));
  a.reset();
  auto large = v.Get(MiB(3));  // of one of 20 MiB
  f = v.allocator.fragmentation();
  EXPECT_EQ(f.free, v.stats().reserved - v.stats().live);
  EXPECT_EQ(f.largest_free, MiB(17));
  EXPECT_EQ(f.free_blocks, 3);
  EXPECT_EQ(f.segments, 2);
}

TEST(Allocator, FingerprintsTellPlacesApart) {
  Virtual v;
  const auto state = [&v] { return v.allocator.Fingerprint(); };
  const uint64_t empty = state();
  auto a = v.Get(KiB(8)), b = v.Get(KiB(8)), c = v.Get(KiB(8));
  const uint64_t all = state();
  EXPECT_NE(all, empty);
  a.reset();
  const uint64_t without_a = state();
  a = v.Get(KiB(8));  // takes its place again
  EXPECT_EQ(state(), all);
  b.reset();
  EXPECT_NE(state(), all);
  EXPECT_NE(state(), without_a);  // the same blocks in size, in another place
  Virtual other;
  auto d = other.Get(KiB(8)), e = other.Get(KiB(8)), f = other.Get(KiB(8));
  EXPECT_EQ(other.allocator.Fingerprint(), all);
}

// Live blocks never overlap.
TEST(Allocator, BlocksAreDisjoint) {
  Virtual v;
  Held held;
  const PhiloxKey key = MakeKey(12, "overlap");
  for (uint64_t i = 0; i < 500; ++i) {
    const auto r = Philox(key, i);
    if (r[0] % 3 == 0 && !held.empty()) held.erase(held.begin() + static_cast<std::ptrdiff_t>(r[1] % held.size()));
    held.push_back(v.Get(Bytes(static_cast<int64_t>(r[2] % (2u << 20)))));
    const Buffer& newest = *held.back();
    for (size_t k = 0; k + 1 < held.size(); ++k) {
      const Address begin = held[k]->address(), end = begin + static_cast<Address>(held[k]->size().value());
      ASSERT_TRUE(newest.address() >= end || newest.address() + static_cast<Address>(newest.size().value()) <= begin);
    }
  }
}

}  // namespace allocator_test
}  // namespace twofold
