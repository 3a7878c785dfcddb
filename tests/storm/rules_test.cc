// Every rule is broken on purpose: by evidence that is doctored as a fault of the program would have left it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "experiments/program/report/files.h"
#include "tests/storm/rig.h"

namespace twofold {
namespace rules_test {

using storm::Seen;
using test::BrokenRules;
using test::ScheduleOf;
using test::StormOf;
using test::TheStormOf;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kLost[] = "fault { rank: 2 lost: true step: 3 }";

const StormOf& Ddp() { return TheStormOf("ddp"); }

class Rules : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_NE(Ddp().trials, nullptr); }
  // Rank 2 is lost before step 3.
  storm::Evidence Survived() {
    const storm::Evidence evidence = Ddp().Run(schedule_);
    EXPECT_EQ(Found(evidence), "");
    return evidence;
  }
  std::string Found(const storm::Evidence& evidence) { return BrokenRules(Ddp().Judge(schedule_, evidence)); }

  const storm::Schedule schedule_ = ScheduleOf({kLost});
};

TEST_F(Rules, SamplesThatAreRepeated) {
  storm::Evidence evidence = Survived();
  Seen* last = nullptr;
  for (Seen& seen : evidence.seen) {
    if (seen.what != Seen::kSample || seen.generation != 1) continue;
    if (last != nullptr) {
      seen.value = last->value;
      break;
    }
    last = &seen;
  }
  EXPECT_THAT(Found(evidence), StartsWith("samples: generation 1, step 3: 2 of 24 samples"));
}

TEST_F(Rules, ReplicasThatDrift) {
  storm::Evidence evidence = Survived();
  for (Seen& seen : evidence.seen) {
    if (seen.what == Seen::kPiece && seen.generation == 1 && seen.steps == 5 && seen.member == 3) seen.value ^= 1;
  }
  EXPECT_THAT(Found(evidence), HasSubstr("parameters: generation 1: members"));
}

TEST_F(Rules, StateThatChangesAsItMoves) {
  storm::Evidence evidence = Survived();
  for (Seen& seen : evidence.seen) {
    if (seen.what == Seen::kPiece && seen.generation == 1 && seen.steps == 3) seen.value ^= 1;
  }
  EXPECT_THAT(Found(evidence), HasSubstr("begins generation 1 after 3 steps with other bits"));
}

TEST_F(Rules, BitsThatDifferFromAnUndisturbedRunBeforeAnythingHappens) {
  storm::Evidence evidence = Survived();
  for (Seen& seen : evidence.seen) {
    if (seen.what == Seen::kPiece && seen.generation == 0 && seen.steps == 2) seen.value ^= 1;
  }
  EXPECT_THAT(Found(evidence), HasSubstr("other bits than in an undisturbed run after 2 steps"));
}

TEST_F(Rules, RunsThatBeginAnew) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) {
    if (record.generations_size() < 2) continue;
    record.mutable_generations(1)->set_from("start");
    record.mutable_generations(1)->set_first_step(0);
  }
  EXPECT_THAT(Found(evidence),
              StartsWith("recovery: generation 1 goes back from step 3 to step 0 (start), though only 1 of 4"));
}

TEST_F(Rules, LossesThatLeaveTheCurve) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) {
    if (record.steps_size() > 6) record.mutable_steps(6)->set_loss(1.01 * record.steps(6).loss());
  }
  EXPECT_THAT(Found(evidence), StartsWith("losses: step 6: loss "));
}

TEST_F(Rules, LossesOfTheSameMembersThatDifferInTheLastBit) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records)
    record.mutable_steps(1)->set_loss(std::nextafter(record.steps(1).loss(), 100.0));
  EXPECT_THAT(Found(evidence), HasSubstr("though as many replicas trained"));
}

// A member that stood by has replaced the lost one, so dropout's masks are the same.
TEST(RulesOfSpares, LossesOfAsManyReplicasThatDifferInTheLastBit) {
  const StormOf& storm = TheStormOf("spares");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Schedule schedule = ScheduleOf({kLost});
  storm::Evidence evidence = storm.Run(schedule);
  EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "");
  ASSERT_EQ(evidence.lead()->generations_size(), 2);
  for (auto& [member, record] : evidence.records) {
    if (record.steps_size() > 5) record.mutable_steps(5)->set_loss(std::nextafter(record.steps(5).loss(), 100.0));
  }
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              AllOf(StartsWith("losses: step 5: "), HasSubstr("though as many replicas trained")));
  for (auto& [member, record] : evidence.records) {
    if (record.generations_size() > 1) record.mutable_generations(1)->set_dp(3);
  }
  EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "") << "with fewer, the curve is another";
}

// ---- Recoveries from checkpoints, and runs that resume from them ----

class RulesOfCheckpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(storm_.trials, nullptr);
    evidence_ = storm_.Run(schedule_);
    ASSERT_EQ(evidence_.records.at(0).generations_size(), 2);
    ASSERT_EQ(evidence_.records.at(0).generations(1).first_step(), 4);
    EXPECT_EQ(Found(), "");
  }
  std::string Found() { return BrokenRules(storm_.Judge(schedule_, evidence_)); }
  void BeginAt(int64_t step) {
    for (auto& [member, record] : evidence_.records) {
      if (record.generations_size() > 1) record.mutable_generations(1)->set_first_step(step);
    }
  }
  const StormOf& storm_ = TheStormOf("zero1_files");
  const storm::Schedule schedule_ = ScheduleOf({"fault { rank: 2 lost: true step: 5 }"});
  storm::Evidence evidence_;
};

TEST_F(RulesOfCheckpoints, AnOlderOneThanTheLast) {
  BeginAt(2);
  EXPECT_THAT(Found(), HasSubstr("recovery: generation 1 goes on after step 2 (checkpoint), though the checkpoint "
                                 "000002-step-4 had been announced, and nothing has happened to it"));
  storm::Evidence damaged = evidence_;
  storm::Schedule schedule = schedule_;
  *schedule.add_disasters() = ScheduleOf({"fault { rank: 0 step: 4 damage {} }"}).disasters(0);
  damaged.struck.push_back({.fault = 1, .text = "had a bit changed", .damaged = "c/000002-step-4/rank-00000"});
  EXPECT_THAT(BrokenRules(storm_.Judge(schedule, damaged)), ::testing::Not(HasSubstr("recovery: ")));
}

TEST_F(RulesOfCheckpoints, StepsThatNobodyHasDone) {
  BeginAt(7);
  EXPECT_THAT(Found(), HasSubstr("recovery: generation 1 goes on after step 7 (checkpoint), but only 5 had been done"));
}

TEST_F(RulesOfCheckpoints, AnotherRunThatResumesFromThem) {
  ASSERT_NE(evidence_.resumed, nullptr);
  EXPECT_EQ(evidence_.resumed->step, 6) << "the last one leaves nothing to do";
  EXPECT_EQ(evidence_.resumed->generation, 1);
  const storm::Evidence whole = evidence_.resumed->evidence;
  int64_t compared = 0;
  for (Seen& seen : evidence_.resumed->evidence.seen) {
    compared += seen.what == Seen::kPiece ? 1 : 0;
    if (seen.what == Seen::kPiece && seen.steps == 8) seen.value ^= 1;
  }
  EXPECT_GT(compared, 50);
  EXPECT_THAT(Found(),
              AllOf(StartsWith("resume: a run that resumes from "), HasSubstr(" holds other bits after 8 steps")));
  evidence_.resumed->evidence = whole;
  for (auto& [rank, record] : evidence_.resumed->evidence.records) record.mutable_steps(1)->set_loss(0.5);
  EXPECT_THAT(Found(), HasSubstr("step 7: loss 0.5, but 1."));
  evidence_.resumed->evidence = whole;
  evidence_.resumed->evidence.status = absl::InternalError("nothing there");
  EXPECT_THAT(Found(), HasSubstr(" fails: nothing there"));
}

// Every other schedule begins in a folder in which an earlier run has left two.
TEST(EarlierRuns, LeaveCheckpointsThatAreNotTheRuns) {
  const StormOf& storm = TheStormOf("zero1_files");
  ASSERT_NE(storm.trials, nullptr);
  storm::Schedule schedule = ScheduleOf({"fault { rank: 2 lost: true step: 1 }"});
  for (const uint64_t seed : {0, 1}) {
    schedule.set_seed(seed);
    const storm::Evidence evidence = storm.Run(schedule);
    EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "");
    EXPECT_EQ(evidence.sequence_before, seed == 1 ? 4 : 0);
    EXPECT_EQ(evidence.records.at(0).generations(1).from(), "start");
  }
}

TEST(RulesOfAsynchronousRuns, GradientsThatAreLost) {
  const StormOf& storm = TheStormOf("async_sgd");
  ASSERT_NE(storm.trials, nullptr);
  storm::Evidence evidence = storm.Run({});
  EXPECT_EQ(BrokenRules(storm.Judge({}, evidence)), "");
  report::Step& step = *evidence.records.at(0).mutable_steps(4);
  step.set_loss(0.75 * step.loss());
  EXPECT_THAT(BrokenRules(storm.Judge({}, evidence)), StartsWith("losses: the losses of all updates add up to "));
}

TEST_F(Rules, MembersThatDisagreeOnTheStep) {
  storm::Evidence evidence = Survived();
  for (Seen& seen : evidence.seen) {
    if (seen.what == Seen::kDone && seen.generation == 1 && seen.member == 1) ++seen.steps;
  }
  EXPECT_THAT(Found(evidence), HasSubstr("agreement: generation 1: member"));
}

TEST_F(Rules, MembersThatSeeOthersThanTheyAre) {
  storm::Evidence evidence = Survived();
  evidence.records.at(1).mutable_generations(1)->set_members(0, 7);
  EXPECT_THAT(Found(evidence), HasSubstr("agreement: member 1's record of generation 1 differs"));
}

TEST_F(Rules, SurvivorsThatAreLeftOut) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) {
    if (record.generations_size() > 1) record.mutable_generations(1)->mutable_members()->RemoveLast();
  }
  EXPECT_THAT(Found(evidence), HasSubstr("culprit: member 3 is not in generation 1, but no disaster took it"));
}

TEST_F(Rules, ALostRankThatIsTakenForAMember) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) {
    if (record.generations_size() > 1) record.mutable_generations(1)->add_members(2);
  }
  EXPECT_THAT(Found(evidence), HasSubstr("culprit: member 2 is in generation 1, but was lost in generation 0"));
}

TEST_F(Rules, TheWrongCulprit) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) {
    if (record.generations_size() > 1)
      record.mutable_generations(1)->set_cause("rank 0: lost rank 1 in all_reduce: ...");
  }
  EXPECT_THAT(Found(evidence), HasSubstr("culprit: generation 1 began because of a rank that no disaster took"));
}

TEST_F(Rules, ARunThatEndsAlthoughEnoughAreLeft) {
  storm::Evidence evidence = Survived();
  evidence.status = absl::InternalError("rank 0: std::bad_alloc");
  EXPECT_THAT(Found(evidence), StartsWith("end: the run ended, with 3 ranks that no disaster took"));
  evidence.status = absl::UnavailableError("rank 0: only 3 of 4 ranks are left, and 4 are needed");
  EXPECT_THAT(Found(evidence), HasSubstr("end: the run ended although enough ranks were left"));
  evidence.status =
      absl::InternalError("train.elastic: 3 ranks are left; no number of replicas from 2 to 3 can train with them");
  EXPECT_THAT(Found(evidence), HasSubstr("end: the run ended although 3 ranks can train"));
}

TEST_F(Rules, RanksThatGiveUpOneAfterAnother) {
  storm::Evidence evidence = Survived();
  evidence.status = absl::UnavailableError("rank 0: only 1 of 3 ranks are left, and 2 are needed; before that: ...");
  EXPECT_THAT(Found(evidence), HasSubstr("end: the run ended although no disaster took 3 ranks"));
  evidence.notes.emplace_back("generation 2: 1 ranks; lost: ranks 0-1 (rank 0: checkpoint: ...)");
  EXPECT_THAT(Found(evidence), HasSubstr("culprit: member 0 is taken for lost, but no disaster took it"));
}

TEST_F(Rules, ARunThatSucceedsTooEarly) {
  storm::Evidence evidence = Survived();
  for (auto& [member, record] : evidence.records) record.mutable_steps()->RemoveLast();
  EXPECT_THAT(Found(evidence), HasSubstr("end: the run succeeded after 7 of 8 steps"));
}

TEST_F(Rules, ADeadlockAndEndlessTime) {
  storm::Evidence evidence = Survived();
  evidence.status = absl::FailedPreconditionError("deadlock: ranks 0, 1 wait for a barrier");
  EXPECT_THAT(Found(evidence), HasSubstr("no-hang: the run hangs: deadlock"));
  evidence.status = absl::OkStatus();
  evidence.seen.back().time = 1e6;
  EXPECT_THAT(Found(evidence), HasSubstr("no-hang: the run took 1000000 s of virtual time"));
}

TEST_F(Rules, MemoryThatIsNotThePredicted) {
  const storm::Schedule slow = ScheduleOf({"fault { rank: 1 slow { factor: 3 } step: 2 }"});
  storm::Evidence evidence = Ddp().Run(slow);
  EXPECT_EQ(BrokenRules(Ddp().Judge(slow, evidence)), "");
  report::Rank& memory = *evidence.records.at(1).mutable_memory();
  memory.set_peak_bytes(memory.peak_bytes() + 1);
  EXPECT_THAT(BrokenRules(Ddp().Judge(slow, evidence)), StartsWith("memory: rank 1 had "));
}

TEST_F(Rules, MemoryThatGrowsFromRecoveryToRecovery) {
  storm::Evidence evidence = Survived();
  report::Rank& memory = *evidence.records.at(1).mutable_memory();
  memory.set_peak_bytes(2 * Ddp().trials->reference().most_bytes + 1);
  EXPECT_THAT(Found(evidence), HasSubstr("memory: member 1 had "));
}

TEST(RulesInDocs, AreThoseThatAreChecked) {
  std::ifstream file("docs/failures.md");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (const storm::Rule& rule : storm::Rules()) EXPECT_THAT(text, HasSubstr(StrCat("| `", rule.name, "` |")));
}

TEST(RulesOfFiles, CheckpointsThatCannotBeLoaded) {
  const StormOf& storm = TheStormOf("zero3");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Schedule schedule = ScheduleOf({kLost});
  const storm::Evidence evidence = storm.Run(schedule);
  EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "");
  const report::RankRecord& lead = *evidence.lead();
  ASSERT_GT(lead.checkpoints_size(), 0);
  const std::filesystem::path last = lead.checkpoints(lead.checkpoints_size() - 1).path();
  {
    std::fstream file(last / "rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(file.is_open());
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)), HasSubstr("was announced, but cannot be loaded"));
  std::filesystem::remove_all(last);
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              HasSubstr("was announced, is the last one, and is not there"));
}

// A bit that a disaster has changed is to be noticed, and only that excuses a checkpoint that cannot be loaded.
TEST(RulesOfFiles, DamageThatNobodyNotices) {
  const StormOf& storm = TheStormOf("diloco");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Evidence whole = storm.Run({});
  ASSERT_GT(whole.lead()->checkpoints_size(), 1);
  const std::string path = StrCat(whole.lead()->checkpoints(1).path(), "/rank-00001.safetensors");
  const std::string bytes = *ReadFile(path);
  const storm::Schedule schedule = ScheduleOf({"fault { rank: 1 step: 8 damage { at: 0.5 } }"});
  const storm::Evidence evidence = storm.Run(schedule);
  EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "");
  EXPECT_NE(*ReadFile(path), bytes);
  storm::Evidence untold = evidence;
  std::erase_if(untold.struck, [](const RunResult::Struck& s) { return !s.damaged.empty(); });
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, untold)), HasSubstr("was announced, but cannot be loaded"));
  std::ofstream(path, std::ios::binary) << bytes;  // as if checksums did not tell
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)), HasSubstr("has changed, and nobody noticed"));
}

TEST(RulesOfFiles, ASaveThatFailsForNoReason) {
  const StormOf& storm = TheStormOf("zero3");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Schedule schedule = ScheduleOf({"fault { rank: 1 step: 1 disk_full: 1 }"});
  storm::Evidence evidence = storm.Run(schedule);
  EXPECT_THAT(std::string(evidence.status.message()), HasSubstr("rank 1: checkpoint: "));
  EXPECT_THAT(std::string(evidence.status.message()), HasSubstr("No space left on device"));
  const storm::Verdict verdict = storm.Judge(schedule, evidence);
  EXPECT_EQ(BrokenRules(verdict), "");
  EXPECT_EQ(verdict.outcome(), "ended by rule: a checkpoint could not be saved");
  storm::Evidence silent = evidence;
  silent.records.clear();
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, silent)), HasSubstr("end: nothing tells what the run had done"));
  evidence.struck.clear();
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              StartsWith("end: a checkpoint could not be saved, though nothing happened to a disk"));
}

TEST(RulesOfOtherRuns, ALossEndsTheRunAndIsNamed) {
  const StormOf& storm = TheStormOf("diloco");
  ASSERT_NE(storm.trials, nullptr);
  const storm::Schedule schedule = ScheduleOf({kLost});
  storm::Evidence evidence = storm.Run(schedule);
  EXPECT_EQ(BrokenRules(storm.Judge(schedule, evidence)), "");
  EXPECT_THAT(std::string(evidence.status.message()), StartsWith("rank 2: lost before the step after 3 steps"));
  const absl::Status was = evidence.status;
  evidence.status = absl::InternalError("rank 1: lost");
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              StartsWith("culprit: no disaster took the rank that is named"));
  evidence.status = absl::OkStatus();
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              StartsWith("end: the run succeeded although rank 2 was lost"));
  evidence.status = was;
  evidence.struck.clear();  // as if nothing had happened to rank 2
  EXPECT_THAT(BrokenRules(storm.Judge(schedule, evidence)),
              StartsWith("end: the run failed although no rank was lost"));
}

}  // namespace rules_test
}  // namespace twofold
