// Two simulations of one training give the same figures.
#pragma once

#include <cmath>
#include <vector>

#include "tests/integration/run_spec.h"

namespace twofold::test {

// Memory and counts are equal, times to 1e-9 of themselves; intervals to 0.002, because ranks that take equally long
// may have kernels of other shapes, whose intervals differ.
inline void ExpectSameFigures(const std::vector<report::RankRecord>& records,
                              const std::vector<report::RankRecord>& expected) {
  ASSERT_EQ(records.size(), expected.size());
  for (size_t r = 0; r < records.size(); ++r) {
    EXPECT_EQ(records[r].rank(), static_cast<int64_t>(r));
    EXPECT_EQ(records[r].memory().SerializeAsString(), expected[r].memory().SerializeAsString()) << "rank " << r;
    for (const auto& [ratio, of_expected] :
         {std::pair(records[r].compute_low_ratio(), expected[r].compute_low_ratio()),
          std::pair(records[r].compute_high_ratio(), expected[r].compute_high_ratio())})
      EXPECT_NEAR(ratio, of_expected, 0.002) << "rank " << r;
    ASSERT_EQ(records[r].steps_size(), expected[r].steps_size());
    for (int s = 0; s < records[r].steps_size(); ++s) {
      const report::Step &step = records[r].steps(s), &other = expected[r].steps(s);
      const double seconds = other.seconds();
      EXPECT_NEAR(step.seconds(), seconds, 1e-9 * seconds) << "step " << s << " of rank " << r;
      EXPECT_NEAR(step.exposed_communication_seconds(), other.exposed_communication_seconds(), 1e-9 * seconds);
      EXPECT_TRUE(step.loss() == other.loss() || (std::isnan(step.loss()) && std::isnan(other.loss())));
      EXPECT_EQ(step.bytes_after_codec(), other.bytes_after_codec());
    }
    ASSERT_EQ(records[r].collectives_size(), expected[r].collectives_size());
    for (int i = 0; i < records[r].collectives_size(); ++i) {
      const report::Collective &calls = records[r].collectives(i), &others = expected[r].collectives(i);
      EXPECT_EQ(calls.count(), others.count()) << calls.operation() << " on " << calls.group() << " of rank " << r;
      EXPECT_EQ(calls.bytes(), others.bytes());
      EXPECT_NEAR(calls.seconds(), others.seconds(), 1e-9 * others.seconds())
          << calls.operation() << " on " << calls.group() << " of rank " << r;
    }
  }
}

}  // namespace twofold::test
