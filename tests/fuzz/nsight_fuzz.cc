// Many damaged exports of Nsight Systems, by their bytes and by the SQL that they are made of: each becomes runs whose
// parts add up to their steps, or a message that names the file.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "experiments/program/import/nsight.h"
#include "experiments/program/import/to_record.h"
#include "tests/fuzz/mutate.h"
#include "tests/nsight_database.h"

namespace twofold {
namespace nsight_fuzz {

constexpr std::string_view kWords[] = {"NULL",
                                       "'text'",
                                       "X'00ff'",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "1e300",
                                       "'ncclAllReduce'",
                                       "'iteration 9'",
                                       "'{\"Message size [bytes]\": -1}'",
                                       "'\xff'",
                                       ";\nDROP TABLE NVTX_EVENTS;\n",
                                       ";\nDROP TABLE StringIds;\n",
                                       ";\nDELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME;\n",
                                       ";\nALTER TABLE NVTX_EVENTS RENAME COLUMN text TO words;\n",
                                       ";\nCREATE VIEW TARGET_INFO_SYSTEM AS SELECT * FROM TARGET_INFO_SYSTEM;\n"};

// Every figure is finite, and kernels and exposed communication take no more than the steps.
void Check(const report::RankRecord& record) {
  double steps = 0, parts = 0;
  for (const report::Step& s : record.steps()) {
    ASSERT_TRUE(std::isfinite(s.seconds()) && s.seconds() >= 0);
    steps += s.seconds(), parts += s.exposed_communication_seconds();
  }
  for (const report::KernelTotal& k : record.kernels()) {
    ASSERT_TRUE(std::isfinite(k.seconds()) && k.seconds() >= 0) << k.kernel();
    parts += k.seconds() * record.steps_size();
  }
  ASSERT_GT(steps, 0);
  ASSERT_LE(parts, steps * (1 + 1e-9));
  for (const report::Span& s : record.spans())
    ASSERT_TRUE(std::isfinite(s.start()) && s.end() >= s.start()) << s.name();
  for (const report::Collective& c : record.collectives()) ASSERT_GE(c.bytes(), 0);
}

TEST(NsightFuzz, EveryExportIsARunOrRefused) {
  const std::string sql = test::NsightJob(), good = test::DatabaseOf(sql);
  test::Mutator of_sql(TestSeed(), {.words = kWords, .hot = 0});
  test::Mutator of_bytes(TestSeed(1), {.words = {}, .hot = 100, .numbers = false});
  const int mutants = Mutants() / 2;  // each makes a database
  int runs = 0, refused = 0;
  for (int i = 0; i < mutants; ++i) {
    const std::string bytes =
        i % 2 == 0 ? test::DatabaseOf(of_sql.Damage(sql), /*lenient=*/true) : of_bytes.Damage(good);
    const absl::StatusOr<std::vector<RankTrace>> traces = ReadNsight(bytes, "f.sqlite");
    absl::Status status = traces.status();
    for (size_t t = 0; status.ok() && t < traces->size(); ++t) {
      const absl::StatusOr<report::RankRecord> record =
          ToRecord((*traces)[t], {.step = i % 4 < 2 ? "" : "iteration", .groups = {}});
      status = record.status();
      if (!record.ok()) continue;
      ++runs;
      Check(*record);
      if (::testing::Test::HasFatalFailure()) FAIL() << "mutant " << i;
    }
    if (status.ok()) continue;
    ++refused;
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << "mutant " << i;
    ASSERT_EQ(status.message().find("f.sqlite:"), 0u) << status << ", mutant " << i;
  }
  EXPECT_GT(runs, mutants / 10) << "the mutations no longer leave readable databases";
  EXPECT_GT(refused, mutants / 10) << "the mutations no longer do damage";
}

}  // namespace nsight_fuzz
}  // namespace twofold
