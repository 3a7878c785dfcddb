// Communications of more elements than MPI's counts can name.
#include "gtest/gtest.h"
#include "tests/unit/mpi/job.h"

namespace twofold {
namespace large_counts_test {

// The limit set to 64 elements.
TEST(LargeCounts, EveryCommunicationInPieces) {
  Job job;
  const Outcome outcome = job.Run("pieces", 3);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_EQ(outcome.code, 0) << outcome.message;
}

// Some 4.5 GB of memory and a minute.
TEST(LargeCounts, DISABLED_MoreThanTwoToThe31) {
  Job job;
  const Outcome outcome = job.Run("huge", 2);
  EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
  EXPECT_EQ(outcome.code, 0) << outcome.message;
}

}  // namespace large_counts_test
}  // namespace twofold
