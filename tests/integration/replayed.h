// Compares predictions of `twofold memory` with real runs.
#pragma once

#include <algorithm>

#include "experiments/program/memory/predict.h"
#include "tests/integration/run_spec.h"

namespace twofold::test {

inline MemoryPrediction Replayed(const std::string& text, bool bounded = true) {
  spec::Spec spec = Resolve(text);
  auto data = LoadTrainingData(spec, "test.textproto");
  EXPECT_TRUE(data.ok()) << data.status().message();
  absl::StatusOr<MemoryPrediction> prediction = PredictMemory(spec, data->samples(), bounded);
  EXPECT_TRUE(prediction.ok()) << prediction.status().message();
  return *std::move(prediction);
}

inline void ExpectEqual(const report::Rank& predicted, const report::Rank& measured, std::string_view what) {
  EXPECT_EQ(predicted.peak_bytes(), measured.peak_bytes()) << what << ", rank " << measured.rank();
  EXPECT_EQ(predicted.reserved_bytes(), measured.reserved_bytes()) << what << ", rank " << measured.rank();
  EXPECT_EQ(predicted.host_peak_bytes(), measured.host_peak_bytes()) << what << ", rank " << measured.rank();
  EXPECT_EQ(predicted.host_reserved_bytes(), measured.host_reserved_bytes()) << what << ", rank " << measured.rank();
  ASSERT_EQ(predicted.categories_size(), measured.categories_size());
  for (int c = 0; c < measured.categories_size(); ++c) {
    EXPECT_EQ(predicted.categories(c).peak_bytes(), measured.categories(c).peak_bytes())
        << what << ", " << measured.categories(c).name();
    EXPECT_EQ(predicted.categories(c).bytes_at_peak(), measured.categories(c).bytes_at_peak())
        << what << ", " << measured.categories(c).name();
  }
}

// Compares the memory after each change in the traced steps. The times of changes depend on the fabric and are not
// compared.
inline void ExpectEqualChanges(const report::RankRecord& predicted, const report::RankRecord& measured,
                               std::string_view what) {
  ASSERT_GT(measured.samples_size(), 0);
  ASSERT_EQ(predicted.samples_size(), measured.samples_size()) << what;
  for (int i = 0; i < measured.samples_size(); ++i) {
    const report::MemorySample &a = predicted.samples(i), &b = measured.samples(i);
    ASSERT_TRUE(std::equal(a.live_by_category().begin(), a.live_by_category().end(), b.live_by_category().begin(),
                           b.live_by_category().end()))
        << what << ", after change " << i << " of rank " << measured.rank();
    ASSERT_EQ(a.reserved(), b.reserved()) << what << ", after change " << i << " of rank " << measured.rank();
  }
}

// Checks that every rank is in one kind, and that its memory equals that of the kind's replay.
inline void ExpectReplayed(const std::string& text, const std::vector<report::RankRecord>& records) {
  const MemoryPrediction replayed = Replayed(text);
  EXPECT_TRUE(replayed.status().ok()) << replayed.status().message();
  size_t ranks = 0;
  for (const RankKind& kind : replayed.kinds) {
    for (const int rank : kind.ranks)
      ExpectEqual(kind.record.memory(), records.at(static_cast<size_t>(rank)).memory(), "replayed");
    ranks += kind.ranks.size();
  }
  EXPECT_EQ(ranks, records.size());
}

// `measured`: the records of a run of `text` in memory. A simulation with data must give the same bits on every rank; a
// simulation without data, and a replay, must give the same bytes of memory.
inline void ExpectPromised(const std::string& text, const std::vector<report::RankRecord>& measured) {
  const std::vector<report::RankRecord> real = RunText(text + Simulated("REAL")),
                                        symbolic = RunText(text + Simulated("SYMBOLIC"));
  ASSERT_EQ(real.size(), measured.size());
  ASSERT_EQ(symbolic.size(), measured.size());
  for (size_t r = 0; r < measured.size(); ++r) {
    EXPECT_EQ(Losses(measured[r]), Losses(measured[0])) << "rank " << r;
    EXPECT_EQ(Losses(real[r]), Losses(measured[0])) << "rank " << r;
    ExpectEqual(symbolic[r].memory(), measured[r].memory(), "SYMBOLIC");
    ExpectEqual(real[r].memory(), measured[r].memory(), "REAL");
    // offloaded tensors leave the device when their copy is done
    if (measured[r].memory().host_peak_bytes() > 0) continue;
    ExpectEqualChanges(symbolic[r], measured[r], "SYMBOLIC");
    ExpectEqualChanges(real[r], measured[r], "REAL");
  }
  ExpectReplayed(text + kInMemory, measured);
  ExpectReplayed(text + Simulated("SYMBOLIC"), symbolic);
}

}  // namespace twofold::test
