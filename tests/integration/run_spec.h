// Runs a spec given as text, on any fabric.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "backends/registry.h"
#include "core/base/strings.h"
#include "core/proto/report.pb.h"
#include "experiments/program/assemble.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "strategies/from_spec.h"
#include "strategies/trainer.h"
#include "tests/integration/models.h"

namespace twofold::test {

// Resolves a spec from text, as a user would write it.
inline spec::Spec Resolve(const std::string& text) {
  absl::StatusOr<spec::Spec> spec = ResolveSpec(text, "test.textproto");
  EXPECT_TRUE(spec.ok()) << spec.status().message() << "\n" << text;
  return spec.ok() ? *spec : spec::Spec();
}

// `spec` is completed with what follows from the size of its data.
inline RunResult RunResolved(spec::Spec& spec) {
  auto data = LoadTrainingData(spec, "test.textproto");
  if (!data.ok()) return {.status = data.status()};
  auto fabric = MakeFabric(spec);
  if (!fabric.ok()) return {.status = fabric.status()};
  const TrainingOptions options = TrainingOptionsFor(spec);
  return (*fabric)->Run(static_cast<int>(RanksToStart(spec)),
                        [&](RankContext& ctx) { return TrainRank(ctx, options, data->samples()); });
}

// A copy of the record of every rank that left one; with its time line if the rank is traced.
inline std::vector<report::RankRecord> RecordsOf(const spec::Spec& spec, const RunResult& result) {
  const absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
  EXPECT_TRUE(records.ok()) << records.status();
  std::vector<report::RankRecord> copies;
  for (size_t i = 0; records.ok() && i < records->size(); ++i) {
    const auto [rank, record] = (*records)[i];
    report::RankRecord& copy = copies.emplace_back(record);
    copy.set_rank(rank), copy.mutable_memory()->set_rank(rank);
    if (!IsTraced(RecorderOptionsOf(spec), static_cast<int>(rank)))
      copy.clear_spans(), copy.clear_samples(), copy.clear_blocks();
  }
  return copies;
}

// The records of all ranks; the test fails if the run does.
inline std::vector<report::RankRecord> RunText(const std::string& text) {
  spec::Spec spec = Resolve(text);
  if (spec.model().kind_case() == spec::Model::KIND_NOT_SET) return {};
  const RunResult result = RunResolved(spec);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  std::vector<report::RankRecord> records = RecordsOf(spec, result);
  EXPECT_EQ(static_cast<int64_t>(records.size()), WorldSize(spec));
  return records;
}

inline std::vector<double> Losses(const report::RankRecord& record) {
  std::vector<double> losses;
  for (const report::Step& step : record.steps()) losses.push_back(step.loss());
  return losses;
}

// Losses to the bit, and memory to the byte, on every rank.
inline void ExpectAsPredicted(const std::vector<report::RankRecord>& measured,
                              const std::vector<report::RankRecord>& predicted) {
  ASSERT_EQ(measured.size(), predicted.size());
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(Losses(measured[r]), Losses(predicted[r])) << "rank " << r;
    EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes()) << "rank " << r;
    EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes()) << "rank " << r;
  }
}

// ---- Pieces of specs ----
inline constexpr char kInMemory[] = "fabric { in_memory {} timeout_s: 30 }\n";
// A CPU cluster, timed by a profile that belongs to the tests.
inline std::string Simulated(std::string_view data) {
  return StrCat(
      "fabric { simulated { cluster: \"this-machine\" profile: \"tests/integration/tiny.profile.textproto\" "
      "data: ",
      data, " } timeout_s: 30 }\n");
}

}  // namespace twofold::test
