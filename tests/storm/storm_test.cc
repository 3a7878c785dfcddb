// A hundred schedules of disasters with fixed seeds, and cases that storms have found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/proto/parse_text.h"
#include "experiments/program/report/files.h"
#include "tests/storm/rig.h"

namespace twofold {
namespace storm_test {

using test::BrokenRules;
using test::ScheduleOf;
using test::StormOf;
using test::TheStormOf;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Gate {
  const char* spec;
  int schedules;
};
void PrintTo(const Gate& gate, std::ostream* out) { *out << gate.spec; }

class Storms : public ::testing::TestWithParam<Gate> {};

TEST_P(Storms, NoRuleIsBroken) {
  const StormOf& storm = TheStormOf(GetParam().spec);
  ASSERT_NE(storm.trials, nullptr);
  std::map<std::string, int64_t> happened, outcomes;
  for (int i = 0; i < GetParam().schedules; ++i) {
    const storm::Schedule schedule = storm.Drawn(storm::SeedOf(1, i));
    const absl::StatusOr<storm::Evidence> evidence = storm.trials->Run(schedule);
    if (!evidence.ok()) {
      EXPECT_THAT(std::string(evidence.status().message()), HasSubstr("failed link"))
          << storm::SeedText(schedule.seed());
      continue;
    }
    const storm::Verdict verdict = storm.Judge(schedule, *evidence);
    EXPECT_EQ(BrokenRules(verdict), "") << "twofold storm tests/storm/" << GetParam().spec
                                        << ".textproto --replay=" << storm::SeedText(schedule.seed());
    ++outcomes[verdict.outcome()];
    for (const auto& [kind, count] : verdict.happened()) happened[kind] += count;
  }
  EXPECT_GT(happened["disaster: loss"], 0) << "the storm raged";
  if (storm.trials->terrain().file_calls > 0) {
    EXPECT_GT(happened["disaster: loss while files are written"] + happened["disaster: damaged file"], 0);
  }
  if (storm.trials->terrain().elastic)
    EXPECT_GT(happened["recovery: from peers"] + happened["recovery: from checkpoint"], 0);
  else
    EXPECT_GT(outcomes["ended by rule: a rank was lost"], 0);
}
INSTANTIATE_TEST_SUITE_P(Gate, Storms,
                         ::testing::Values(Gate{"ddp", 20}, Gate{"zero3", 14}, Gate{"zero1_files", 16},
                                           Gate{"tp2_dp4", 14}, Gate{"pp2_dp4", 16}, Gate{"diloco", 10},
                                           Gate{"top_k", 10}, Gate{"async_sgd", 10}, Gate{"local_files", 10},
                                           Gate{"spares", 10}),
                         [](const auto& info) { return std::string(info.param.spec); });

// ---- What storms have found, reduced: tests/storm/cases/<spec>_<what>.textproto ----

class Cases : public ::testing::TestWithParam<const char*> {};

TEST_P(Cases, NoRuleIsBroken) {
  const std::string name = GetParam(), file = StrCat("tests/storm/cases/", name, ".textproto");
  std::string spec;  // the one whose name the case begins with
  for (const char* known : {"ddp", "zero3", "zero1_files", "tp2_dp4", "pp2_dp4", "diloco"}) {
    if (name.starts_with(known)) spec = known;
  }
  const StormOf& storm = TheStormOf(spec);
  ASSERT_NE(storm.trials, nullptr);
  const absl::StatusOr<std::string> text = ReadFile(file);
  ASSERT_TRUE(text.ok()) << text.status();
  storm::Schedule schedule;
  const absl::Status parsed = ParseText(*text, file, schedule);
  ASSERT_TRUE(parsed.ok()) << parsed;
  const storm::Verdict verdict = storm.Judge(schedule, storm.Run(schedule));
  EXPECT_EQ(BrokenRules(verdict), "");
  for (const storm::Disaster& d : schedule.disasters()) {
    const std::string kind = StrCat("disaster: ", storm::KindOf(d, 60));
    EXPECT_TRUE(verdict.happened().contains(kind)) << kind << " did not happen";
  }
}
INSTANTIATE_TEST_SUITE_P(Found, Cases,
                         ::testing::Values("pp2_dp4_a_hang_takes_the_last_holder", "pp2_dp4_lost_while_it_begins",
                                           "pp2_dp4_the_first_stage_is_lost", "zero1_files_damaged_and_written_anew",
                                           "zero1_files_lost_behind_launches", "zero1_files_lost_while_it_loads",
                                           "zero1_files_lost_while_it_writes", "zero1_files_no_checkpoint_is_whole",
                                           "zero1_files_no_space_on_the_disk", "zero1_files_rank_0_knew_alone",
                                           "zero1_files_the_last_checkpoint_is_damaged", "zero3_lost_while_state_moves",
                                           "zero3_rank_0_hangs"),
                         [](const auto& info) { return std::string(info.param); });

// From where a training goes on if disks fail: what the rules leave open.
TEST(Disks, ADamagedCheckpointIsPassedOver) {
  const StormOf& storm = TheStormOf("zero1_files");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Evidence evidence =
      storm.Run(ScheduleOf({"fault { rank: 1 step: 5 damage { at: 0.9 } }", "fault { rank: 3 step: 5 lost: true }"}));
  EXPECT_TRUE(evidence.status.ok()) << evidence.status;
  const report::RankRecord& record = evidence.records.at(0);
  ASSERT_EQ(record.generations_size(), 2);
  EXPECT_EQ(record.generations(1).from(), "checkpoint");
  EXPECT_EQ(record.generations(1).first_step(), 2) << "the one after 4 steps is damaged";
  EXPECT_THAT(record.notes(),
              ::testing::Contains(AllOf(HasSubstr("checkpoint passed over: "),
                                        HasSubstr("000002-step-4/rank-00001.safetensors: bytes 0 to "))));
}

TEST(Disks, ReadsThatFailOnceCostOneCheckpoint) {
  const StormOf& storm = TheStormOf("zero1_files");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Evidence evidence =
      storm.Run(ScheduleOf({"fault { rank: 1 step: 5 failed_reads: 1 }", "fault { rank: 3 step: 5 lost: true }"}));
  EXPECT_TRUE(evidence.status.ok()) << evidence.status;
  EXPECT_EQ(evidence.records.at(0).generations(1).first_step(), 2);
}

// A storm is repeated by its seed alone.
TEST(Replays, GiveTheSameEvidence) {
  const StormOf& storm = TheStormOf("zero3");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Schedule schedule = storm.Drawn(storm::SeedOf(1, 3));
  const storm::Evidence first = storm.Run(schedule), second = storm.Run(schedule);
  EXPECT_EQ(first.notes, second.notes);
  EXPECT_EQ(first.status, second.status);
  ASSERT_EQ(first.seen.size(), second.seen.size());
  for (size_t i = 0; i < first.seen.size(); ++i) {
    ASSERT_EQ(first.seen[i].value, second.seen[i].value) << i;
    ASSERT_EQ(first.seen[i].time, second.seen[i].time) << i;
  }
}

}  // namespace storm_test
}  // namespace twofold
