// Whose memory it is: at every sample the blocks sum to the ledger's figures, predicted blocks are those that are
// measured, and each says which tensor of which module asked for it in which pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/memory/ledger.h"
#include "experiments/program/report/memory_blocks_file.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace memory_by_tensor_test {

struct Job {
  const char *name, *model, *train, *parallel;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }

constexpr char kGpt[] = "gpt { layers: 4 hidden: 64 heads: 4 vocab: 256 sequence: 16 dropout: 0.1 }";
constexpr char kLlama[] = "llama { layers: 4 hidden: 64 heads: 4 kv_heads: 2 ffn: 96 vocab: 256 sequence: 16 }";
constexpr char kMoe[] = "moe { llama { layers: 2 hidden: 64 heads: 4 vocab: 256 sequence: 16 } experts: 4 top_k: 2 }";
constexpr char kCheckpoints[] = "activation_checkpointing { every: 2 }";
constexpr Job kJobs[] = {
    {"Ddp", kGpt, "", "dp: 4"},
    {"Zero1Bf16", kLlama, "precision { parameter: BF16 }", "dp: 4 sharding: ZERO_1"},
    {"Zero3Recompute", kLlama, kCheckpoints, "dp: 4 sharding: FULL_SHARD"},
    {"Offload", kGpt, "", "dp: 4 sharding: FULL_SHARD offload: OFFLOAD_OPTIMIZER"},
    {"Tp2Pp2", kLlama, "", "tp: 2 pp: 2 sequence_parallel: true"},
    {"Interleaved", kLlama, kCheckpoints, "pp: 2 dp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2"},
    {"Experts", kMoe, "", "ep: 2 dp: 4 sharding: ZERO_1"},
    {"Context", kLlama, "", "cp: 2 dp: 2"},
};

std::string SpecOf(const Job& job, std::string_view fabric) {
  return StrCat("model { ", job.model, " }\ntrain { steps: 3 warmup_steps: 1 micro_batch: 1 global_batch: 8 ",
                job.train, " }\nparallel { ", job.parallel, " }\ntrace { last_steps: 2 }\nfabric { ", fabric, " }\n");
}

// The figures of a sample from the blocks, by category; "reserved" from the segments.
std::map<std::string, int64_t> FiguresAt(const report::MemoryBlocks& b, int sample) {
  std::map<std::string, int64_t> bytes;
  for (int i = 0; i < b.owner_size(); ++i)
    if (b.first(i) <= sample && sample < b.end(i))
      bytes[b.owners(static_cast<int>(b.owner(i))).category()] += b.bytes(i);
  for (int i = 0; i < b.segment_number_size(); ++i)
    if (b.segment_first(i) <= sample && sample < b.segment_end(i)) bytes["reserved"] += b.segment_bytes(i);
  return bytes;
}

// No two blocks that are there together overlap, and each lies within its segment.
void ExpectApart(const report::MemoryBlocks& b, int sample) {
  std::map<int64_t, int64_t> size;
  for (int i = 0; i < b.segment_number_size(); ++i)
    if (b.segment_first(i) <= sample && sample < b.segment_end(i)) size[b.segment_number(i)] = b.segment_bytes(i);
  std::set<std::pair<std::pair<int64_t, int64_t>, int64_t>> places;  // segment and offset, and the end
  for (int i = 0; i < b.owner_size(); ++i) {
    if (sample < b.first(i) || b.end(i) <= sample) continue;
    places.insert({{b.segment(i), b.offset(i)}, b.offset(i) + b.bytes(i)});
    ASSERT_LE(b.offset(i) + b.bytes(i), size.at(b.segment(i)));
  }
  for (auto at = places.begin(); at != places.end() && std::next(at) != places.end(); ++at) {
    const auto& [next, end] = *std::next(at);
    if (at->first.first == next.first) {
      ASSERT_LE(at->second, next.second);
    }
  }
}

class MemoryByTensor : public ::testing::TestWithParam<Job> {};

TEST_P(MemoryByTensor, SumsToTheLedgerAndIsAsMeasured) {
  const auto measured = test::RunText(SpecOf(GetParam(), "in_memory {}"));
  const auto predicted = test::RunText(SpecOf(GetParam(), "simulated { folding: OFF }"));
  ASSERT_EQ(measured.size(), predicted.size());
  int traced = 0;
  for (size_t r = 0; r < measured.size(); ++r) {
    for (const report::RankRecord* record : {&measured[r], &predicted[r]}) {
      if (record->samples_size() == 0) continue;
      ++traced;
      ASSERT_TRUE(record->has_blocks());
      EXPECT_TRUE(CheckMemoryBlocks(record->blocks(), record->samples_size()).ok());
      for (int s = 0; s < record->samples_size(); ++s) {
        std::map<std::string, int64_t> ledger = {{"reserved", record->samples(s).reserved()}};
        for (int c = 0; c < kCategories; ++c)
          if (const int64_t bytes = record->samples(s).live_by_category(c); bytes > 0)
            ledger[std::string(CategoryName(static_cast<Category>(c)))] = bytes;
        ASSERT_EQ(FiguresAt(record->blocks(), s), ledger) << "rank " << r << ", sample " << s;
        ExpectApart(record->blocks(), s);
      }
    }
    // to the byte: every block, its place and its owner
    EXPECT_EQ(measured[r].blocks().DebugString(), predicted[r].blocks().DebugString()) << "rank " << r;
  }
  EXPECT_GT(traced, 0);
}

TEST_P(MemoryByTensor, SaysWhoAsked) {
  const auto records = test::RunText(SpecOf(GetParam(), "simulated { folding: OFF }"));
  std::set<std::string> passes, modules;
  for (const report::RankRecord& record : records) {
    for (const report::MemoryOwner& o : record.blocks().owners()) {
      EXPECT_NE(o.tensor(), "") << o.DebugString();
      EXPECT_NE(o.pass(), "") << o.DebugString();
      if (o.category() == "activations" && o.tensor().find("message") == std::string::npos) modules.insert(o.module());
      if (o.category() == "parameters" || o.category() == "gradients") {
        EXPECT_NE(o.module(), "") << o.DebugString();
      }
      if (o.category() == "activations") passes.insert(o.pass());
    }
  }
  std::set<std::string> expected = {"forward", "backward"};
  if (std::string_view(GetParam().train) == kCheckpoints) expected.insert("recompute");
  EXPECT_EQ(passes, expected);
  for (const char* module : {"blocks.0.attention.core", "blocks.1.mlp", "loss"})
    EXPECT_TRUE(std::any_of(modules.begin(), modules.end(), [&](const auto& m) { return m.starts_with(module); }))
        << module << " has no activations";
}

INSTANTIATE_TEST_SUITE_P(, MemoryByTensor, ::testing::ValuesIn(kJobs), [](const auto& job) { return job.param.name; });

// ---- What readers refuse ----

TEST(MemoryBlocksFile, RefusesWhatDoesNotFitTogether) {
  report::MemoryBlocks good;
  good.add_owners()->set_category("other");
  good.add_owner(0), good.add_bytes(512), good.add_segment(3), good.add_offset(0), good.add_first(0), good.add_end(2);
  good.add_segment_number(3), good.add_segment_bytes(1 << 20), good.add_segment_first(0), good.add_segment_end(2);
  EXPECT_TRUE(CheckMemoryBlocks(good, 2).ok());
  const auto refused = [&](auto change) {
    report::MemoryBlocks bad = good;
    change(bad);
    return std::string(CheckMemoryBlocks(bad, 2).message());
  };
  EXPECT_EQ(std::string(CheckMemoryBlocks(good, 1).message()), "block 0: is at samples 0 to 2 of 1");
  EXPECT_EQ(refused([](auto& b) { b.add_bytes(1); }), "the columns of blocks have 1 and 2 values");
  EXPECT_EQ(refused([](auto& b) { b.set_owner(0, 1); }), "block 0: its owner 1 is not in the list");
  EXPECT_EQ(refused([](auto& b) { b.set_segment(0, 4); }), "block 0: its segment 4 is not in the list");
  EXPECT_EQ(refused([](auto& b) { b.set_bytes(0, -1); }), "block 0: has -1 bytes");
  EXPECT_EQ(refused([](auto& b) { b.set_segment_first(0, 2); }), "segment 0: is at samples 2 to 2 of 2");
}

}  // namespace memory_by_tensor_test
}  // namespace twofold
