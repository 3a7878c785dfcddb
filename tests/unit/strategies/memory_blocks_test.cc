#include "strategies/memory_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/proto/report.pb.h"
#include "strategies/recorder.h"

namespace twofold {
namespace memory_blocks_test {

// Memory of a rank, with its samples and blocks recorded as a recorder does.
struct Rank {
  Rank(size_t most_samples, size_t most_blocks) : samples(most_samples) {
    held.push_back(allocator.Allocate(Bytes(3000), Category::kParameters));
    Sample();
    allocator.ledger().SetObserver([this](const MemoryStats&) { Sample(); });
    blocks.emplace(
        allocator, [this] { return samples.changes(); }, [this] { return samples.Numbers(); }, most_blocks);
  }
  ~Rank() { allocator.ledger().SetObserver(nullptr), blocks.reset(); }
  void Sample() {
    samples.Change(allocator.ledger().stats());
    samples.Reached(Seconds(static_cast<double>(samples.changes())));
  }
  void Work(int changes) {
    for (int i = 0; i < changes; ++i) {
      const OwnerScope scope(allocator.owners(), {.pass = "forward", .module = i % 2 ? "a" : "b"});
      if (i % 4 == 3 || held.size() > 30)
        held.erase(held.begin() + 1 + i % static_cast<int>(held.size() - 1));
      else
        held.push_back(allocator.Allocate(Bytes(100'000 + 4999 * (i % 97)), static_cast<Category>(i % kCategories)));
    }
  }
  report::RankRecord Written() const {
    report::RankRecord record;
    samples.WriteTo(Seconds(0), record);
    blocks->WriteTo(samples.Numbers(), record);
    return record;
  }
  VirtualSource source;
  CachingAllocator allocator{source, 0};
  MemorySamples samples;
  std::optional<MemoryBlocks> blocks;
  std::vector<std::shared_ptr<Buffer>> held;
};

void ExpectTheSamples(const report::RankRecord& record) {
  const report::MemoryBlocks& b = record.blocks();
  ASSERT_GT(b.owner_size(), 0);
  for (int s = 0; s < record.samples_size(); ++s) {
    std::map<std::string, int64_t> live;
    int64_t reserved = 0;
    for (int i = 0; i < b.owner_size(); ++i)
      if (b.first(i) <= s && s < b.end(i)) live[b.owners(static_cast<int>(b.owner(i))).category()] += b.bytes(i);
    for (int i = 0; i < b.segment_number_size(); ++i)
      if (b.segment_first(i) <= s && s < b.segment_end(i)) reserved += b.segment_bytes(i);
    for (int c = 0; c < kCategories; ++c) {
      const std::string name(CategoryName(static_cast<Category>(c)));
      ASSERT_EQ(live[name], record.samples(s).live_by_category(c)) << name << " at sample " << s;
    }
    ASSERT_EQ(reserved, record.samples(s).reserved()) << "at sample " << s;
  }
}

TEST(MemoryBlocks, SumToTheLedgersFigureAtEverySample) {
  for (const size_t samples : {2, 16, 4000}) {
    Rank rank(samples, 1000);
    rank.Work(1500);
    ExpectTheSamples(rank.Written());
  }
}

// However often what is at no sample is forgotten, what is at one stays.
TEST(MemoryBlocks, ForgetOnlyWhatIsAtNoSample) {
  Rank rank(16, 600);
  rank.Work(20'000);
  const report::RankRecord record = rank.Written();
  ExpectTheSamples(record);
  EXPECT_LE(record.samples_size(), 16);
  EXPECT_LE(record.blocks().owner_size(), 600);
  EXPECT_EQ(record.notes_size(), 0);
}

TEST(MemoryBlocks, ThatAreTooManyAreLeftOutWithANote) {
  Rank rank(4000, 100);
  rank.Work(2000);
  const report::RankRecord record = rank.Written();
  EXPECT_FALSE(record.has_blocks());
  ASSERT_EQ(record.notes_size(), 1);
  EXPECT_EQ(record.notes(0),
            "memory by tensor was left out of ranks with more than 100 blocks; use fewer trace.last_steps");
}

TEST(MemoryBlocks, TellWhoAskedAndWhere) {
  Rank rank(100, 100);
  {
    const OwnerScope scope(rank.allocator.owners(), {.pass = "backward", .module = "head"});
    rank.held.push_back(rank.allocator.Allocate(Bytes(2 << 20), Category::kGradients, {.type = "f32", .name = "dw"}));
  }
  rank.held.pop_back();
  const report::RankRecord record = rank.Written();
  const report::MemoryBlocks& b = record.blocks();
  ASSERT_EQ(b.owner_size(), 2);  // what there was before, and this
  const report::MemoryOwner& owner = b.owners(static_cast<int>(b.owner(1)));
  EXPECT_EQ(owner.pass() + "|" + owner.module() + "|" + owner.tensor() + "|" + owner.category(),
            "backward|head|dw f32[]|gradients");
  EXPECT_EQ(b.bytes(1), 2 << 20);
  EXPECT_EQ(b.offset(1), 0);
  EXPECT_EQ(b.segment(1), 1);  // the first was cut from a segment for small requests
  EXPECT_EQ(b.first(0), 0);
  EXPECT_EQ(b.end(0), record.samples_size());
  // the samples: at the begin, the segment, the block, without the block
  ASSERT_EQ(record.samples_size(), 4);
  EXPECT_EQ(b.first(1), 2);
  EXPECT_EQ(b.end(1), 3);
}

}  // namespace memory_blocks_test
}  // namespace twofold
