#include "core/memory/owners.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "core/memory/allocator.h"

namespace twofold {
namespace owners_test {

std::string Text(const Owners& owners, const Owners::Id& id) {
  const Owners::Owner o = owners.owner(id);
  return o.pass + "|" + o.module + "|" + o.tensor + "|" + std::string(CategoryName(o.category));
}

constexpr std::array<int64_t, 2> kExtents = {4, 128};

TEST(Owners, AreWhatTheScopesSay) {
  Owners owners;
  const auto now = [&](const TensorKind& kind = {}) { return Text(owners, owners.Now(Category::kActivations, kind)); };
  EXPECT_EQ(now(), "|||activations");
  {
    const OwnerScope pass(owners, {.pass = "forward", .module = ""});
    EXPECT_EQ(now({.type = "bf16", .extents = kExtents}), "forward||bf16[4, 128]|activations");
    {
      const OwnerScope module(owners, {.module = "blocks.0", .tensor = "mask"});
      EXPECT_EQ(now({.type = "u8", .extents = kExtents}), "forward|blocks.0|mask u8[4, 128]|activations");
      EXPECT_EQ(now({.type = "u8", .extents = kExtents, .name = "x"}), "forward|blocks.0|x u8[4, 128]|activations");
      const OwnerScope inner(owners, {.module = "blocks.0.norm1"});
      EXPECT_EQ(now(), "forward|blocks.0.norm1||activations");  // the name was another module's tensor's
      const OwnerScope again(owners, {.pass = "recompute"});
      EXPECT_EQ(now(), "recompute|blocks.0.norm1||activations");
    }
    EXPECT_EQ(now(), "forward|||activations");
  }
  EXPECT_EQ(now(), "|||activations");
}

TEST(Owners, OfEqualNamesAreEqual) {
  Owners owners;
  std::vector<Owners::Id> ids;
  for (int i = 0; i < 3; ++i) {
    const std::string own = "blocks." + std::to_string(i % 2);  // another text of the same name
    const OwnerScope scope(owners, {.module = own});
    ids.push_back(owners.Now(Category::kOther, {.type = "f32", .extents = kExtents}));
  }
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_NE(owners.Now(Category::kOther, {.type = "f32"}), owners.Now(Category::kGradients, {.type = "f32"}));
  EXPECT_NE(owners.Now(Category::kOther, {.type = "f32"}), owners.Now(Category::kOther, {.type = "bf16"}));
}

// What an observer hears is what the ledger counts, and where.
struct Heard : CachingAllocator::Observer {
  void OnAllocate(const CachingAllocator::Place& b) override {
    EXPECT_EQ(live.count(b.id), 0u);
    live[b.id] = b;
  }
  void OnFree(const CachingAllocator::Place& b) override { EXPECT_EQ(live.erase(b.id), 1u); }
  void OnReserve(const CachingAllocator::Place& s) override { segments[s.segment] = s.size.value(); }
  void OnRelease(const CachingAllocator::Place& s) override { EXPECT_EQ(segments.erase(s.segment), 1u); }
  void ExpectTheLedgers(const MemoryStats& stats) const {
    int64_t bytes = 0, reserved = 0;
    for (const auto& [id, b] : live) {
      bytes += b.size.value();
      EXPECT_LE(b.offset + b.size.value(), segments.at(b.segment));
    }
    for (const auto& [number, size] : segments) reserved += size;
    EXPECT_EQ(bytes, stats.live.value());
    EXPECT_EQ(reserved, stats.reserved.value());
  }
  std::map<const void*, CachingAllocator::Place> live;
  std::map<int64_t, int64_t> segments;
};

TEST(Owners, AnObserverHearsWhatTheLedgerCounts) {
  VirtualSource source;
  CachingAllocator allocator(source, 0);
  std::vector<std::shared_ptr<Buffer>> held;
  for (int i = 0; i < 40; ++i) held.push_back(allocator.Allocate(Bytes(1000 * (i + 1) * (i + 1)), Category::kOther));
  held.erase(held.begin() + 5, held.begin() + 20);
  Heard heard;
  allocator.TellAll(heard);
  heard.ExpectTheLedgers(allocator.ledger().stats());
  EXPECT_EQ(heard.live.size(), held.size());
  allocator.SetObserver(&heard);
  for (int i = 0; i < 200; ++i) {
    if (i % 3 == 2)
      held.erase(held.begin() + i % static_cast<int>(held.size()));
    else
      held.push_back(allocator.Allocate(Bytes(700 * (i * i % 911)), Category::kActivations));
    if (i % 50 == 49) held.resize(held.size() / 2), allocator.ReleaseCached();
    heard.ExpectTheLedgers(allocator.ledger().stats());
  }
  held.clear();
  allocator.ReleaseCached();
  heard.ExpectTheLedgers(allocator.ledger().stats());
  EXPECT_TRUE(heard.live.empty() && heard.segments.empty());
  allocator.SetObserver(nullptr);
}

}  // namespace owners_test
}  // namespace twofold
