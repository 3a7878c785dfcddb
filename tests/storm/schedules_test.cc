// How schedules are drawn, written, read and made smaller.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/base/strings.h"
#include "core/proto/parse_text.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/storm/draw.h"
#include "experiments/program/storm/reduce.h"
#include "experiments/program/storm/schedule.h"
#include "tests/storm/rig.h"

namespace twofold {
namespace schedules_test {

using google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kLostTwo[] = "fault { rank: 2 lost: true step: 3 }";

constexpr const char* kOfDisks[] = {"loss while files are written", "full disk", "failed reads", "damaged file"};

storm::Terrain Elastic() {
  return {.ranks = 8, .elastic = true, .steps = 10, .seconds = 2, .calls = 100, .links = {"a", "b"}};
}

TEST(Draws, AreFunctionsOfTheirSeed) {
  const storm::Terrain terrain = Elastic();
  std::set<std::string> all;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const storm::Schedule schedule = storm::Draw(seed, terrain);
    EXPECT_TRUE(MessageDifferencer::Equals(schedule, storm::Draw(seed, terrain)));
    EXPECT_EQ(schedule.seed(), seed);
    all.insert(schedule.SerializeAsString());
  }
  EXPECT_EQ(all.size(), 100U);
}

TEST(Draws, HaveEveryKindOfDisaster) {
  std::map<std::string, int> kinds;
  int single = 0, later = 0;
  for (int i = 0; i < 1000; ++i) {
    const storm::Schedule schedule = storm::Draw(storm::SeedOf(7, i), Elastic());
    single += schedule.disasters_size() == 1 ? 1 : 0;
    for (const storm::Disaster& d : schedule.disasters()) {
      ++kinds[storm::KindOf(d, 60)];
      later += d.fault().generation() > 0 ? 1 : 0;
    }
  }
  for (const char* kind : {"loss", "loss in a later generation", "hang", "short hang", "slow rank", "link down",
                           "flapping link", "new rank", "failed link", "slow link"})
    EXPECT_GT(kinds[kind], 10) << kind;
  EXPECT_GT(single, 300);
  EXPECT_GT(later, 100);
  for (const char* kind : kOfDisks) EXPECT_EQ(kinds[kind], 0) << kind << ", but there are no files";
}

TEST(Draws, HaveEveryKindOfDisasterOfDisksIfThereAreCheckpoints) {
  storm::Terrain terrain = Elastic();
  terrain.file_calls = 36;
  std::map<std::string, int> kinds;
  for (int i = 0; i < 300; ++i) {
    const storm::Schedule schedule = storm::Draw(storm::SeedOf(7, i), terrain);
    for (const storm::Disaster& d : schedule.disasters()) {
      ++kinds[storm::KindOf(d, 60)];
      EXPECT_LE(d.fault().file_call(), 4 * terrain.file_calls);
    }
  }
  for (const char* kind : kOfDisks) EXPECT_GT(kinds[kind], 10) << kind;
  EXPECT_GT(kinds["loss"], 10);
}

TEST(Draws, LeaveOutWhatARunWithoutGenerationsCannotHave) {
  storm::Terrain terrain = Elastic();
  terrain.elastic = false, terrain.links = {};
  for (int i = 0; i < 200; ++i) {
    const storm::Schedule schedule = storm::Draw(storm::SeedOf(7, i), terrain);
    for (const storm::Disaster& d : schedule.disasters()) {
      EXPECT_TRUE(d.has_fault());
      EXPECT_EQ(d.fault().generation(), 0);
    }
  }
}

// What is drawn is a valid part of a spec, so that a printed fragment can be pasted into one.
TEST(Schedules, CanBeWrittenInSpecsAndFiles) {
  const test::StormOf& storm = test::TheStormOf("zero3");
  ASSERT_NE(storm.trials, nullptr);
  for (int i = 0; i < 50; ++i) {
    const storm::Schedule schedule = storm.Drawn(storm::SeedOf(3, i));
    spec::Spec spec = storm.trials->spec();
    storm::AddTo(schedule, spec);
    EXPECT_TRUE(Validate(spec, "drawn").ok()) << Validate(spec, "drawn") << "\n" << storm::Fragment(schedule);
    storm::Schedule read;
    const std::string text = storm::CaseText(schedule, "my.textproto");
    ASSERT_TRUE(ParseText(text, "case", read).ok()) << text;
    EXPECT_TRUE(MessageDifferencer::Equals(schedule, read));
  }
}

TEST(Schedules, AreToldInWords) {
  const storm::Schedule schedule = test::ScheduleOf(
      {kLostTwo, "fault { rank: 1 hangs_s: 80 call: 7 generation: 1 }", "members { step: 4 join: 1 }",
       "fault { rank: 0 slow { factor: 3 for_s: 0.5 } }", "link { link: \"x\" failed: true }",
       "fault { rank: 4 at_s: 0.25 link_down { for_s: 0.01 times: 3 every_s: 0.02 } }",
       "fault { rank: 1 file_call: 9 lost: true kept: 0.5 }", "fault { rank: 0 step: 2 disk_full: 3 }",
       "fault { rank: 0 file_call: 4 failed_reads: 1 }", "fault { rank: 2 step: 1 damage { file: 2 at: 0.25 } }"});
  std::vector<std::string> words;
  for (const storm::Disaster& d : schedule.disasters()) words.push_back(storm::Describe(d));
  EXPECT_THAT(
      words,
      ::testing::ElementsAre(
          "rank 2 is lost before the step after 3 steps", "rank 1 hangs for 80.0 s at its call 7 of generation 1",
          "1 new rank comes after 4 steps", "rank 0 is slow by a factor of 3 for 500 ms from the beginning",
          "link x has failed",
          "rank 4 has its link down for 10.0 ms, 3 times, every 20.0 ms at its first call after 250 ms",
          "rank 1 is lost, and keeps 50.0 % of what it had not flushed to its disk, at its file operation 9",
          "rank 0 has no disk space for 3 operations before the step after 2 steps",
          "rank 0 cannot read its files 1 time at its file operation 4",
          "rank 2 has a bit changed at 25.0 % of the last file that it wrote but 2 before the step after 1 step"));
}

TEST(Seeds, AreReadAsTheyArePrinted) {
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    EXPECT_EQ(storm::ParseSeed(storm::SeedText(seed)).value_or(7), seed);
    EXPECT_EQ(storm::ParseSeed(StrCat(seed)).value_or(7), seed);
  }
  EXPECT_EQ(storm::SeedText(255), "0x00000000000000ff");
  for (const char* wrong : {"", "seven", "-1", "0x", "0x12345678901234567"})
    EXPECT_FALSE(storm::ParseSeed(wrong).ok()) << wrong;
}

// ---- Reduction ----

std::vector<std::string> Words(const storm::Schedule& schedule) {
  std::vector<std::string> words;
  for (const storm::Disaster& d : schedule.disasters()) words.push_back(storm::Describe(d));
  return words;
}

TEST(Reduction, KeepsTheDisastersThatBreakARuleTogether) {
  storm::Schedule schedule = test::ScheduleOf(
      {"fault { rank: 0 slow { factor: 3 } }", "fault { rank: 7 hangs_s: 90 at_s: 1.5 }", "members { step: 4 join: 1 }",
       "fault { rank: 3 lost: true step: 1 }", "link { link: \"x\" failed: true }", "members { step: 5 join: 2 }"});
  schedule.set_seed(9);
  int runs = 0;
  const storm::Reduced reduced = storm::Reduce(
      schedule,
      [&](const storm::Schedule& s) {
        ++runs;
        bool seven = false, comes = false;
        for (const storm::Disaster& d : s.disasters()) {
          seven = seven || d.fault().rank() == 7;
          comes = comes || d.members().step() == 5;
        }
        return seven && comes;
      },
      200);
  EXPECT_THAT(Words(reduced.schedule),
              UnorderedElementsAre("rank 7 is lost before the step after 0 steps", "2 new ranks come after 5 steps"));
  EXPECT_EQ(reduced.runs, runs);
  EXPECT_TRUE(reduced.minimal);
  EXPECT_EQ(reduced.schedule.seed(), 9U);
}

TEST(Reduction, EndsWithWhatItHasWhenTheRunsAreUsedUp) {
  storm::Schedule schedule;
  for (int i = 0; i < 8; ++i) schedule.add_disasters()->mutable_fault()->set_rank(i);
  const storm::Reduced reduced = storm::Reduce(
      schedule, [](const storm::Schedule& s) { return s.disasters_size() >= 3; }, 4);
  EXPECT_EQ(reduced.runs, 4);
  EXPECT_FALSE(reduced.minimal);
  EXPECT_GE(reduced.schedule.disasters_size(), 3);
}

}  // namespace schedules_test
}  // namespace twofold
