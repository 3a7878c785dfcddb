// Faults of single ranks: what happens to the rank, what the others see, and when.
#include <fcntl.h>
#include <google/protobuf/text_format.h>

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "tests/unit/simulated/failure_rig.h"

namespace twofold {
namespace faults_test {

using testing::Contains;
using testing::HasSubstr;
using testing::StartsWith;
using Code = absl::StatusCode;

// `faults`: of fabric.simulated, as in a spec. fabric.timeout_s is 60.
RunResult RunWith(const std::string& faults, int ranks, const RankFunction& fn, bool elastic = false) {
  const std::string path = StrCat(testing::TempDir(), "/faults-", getpid(), ".textproto");
  std::ofstream(path) << kHost;
  spec::Spec spec;
  spec.mutable_parallel()->set_dp(ranks);
  spec.mutable_fabric()->set_timeout_s(60);
  if (elastic) spec.mutable_train()->mutable_elastic()->set_reform_timeout_s(30);
  spec::Simulated& simulated = *spec.mutable_fabric()->mutable_simulated();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(faults, &simulated)) << faults;
  simulated.set_cluster(path);
  simulated.set_algorithm("auto");
  simulated.set_data(spec::Simulated::REAL);
  auto fabric = MakeSimulatedFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  const RunResult result = (*fabric)->Run(ranks, fn);
  std::remove(path.c_str());
  return result;
}

// What a rank's function returns: what it was told, and when that was, to the millisecond.
std::string Told(RankContext& c, const std::string& what) {
  return absl::StrFormat("%s at %.3f s", what, c.clock().Now().value());
}

std::string TwoBarriers(RankContext& c) {
  for (int i = 0; i < 2; ++i) c.world().Barrier().Wait();
  return Told(c, "done");
}

TEST(Faults, ALostRankEndsAtItsCall) {
  const RunResult result = RunWith("faults { rank: 1 call: 2 lost: true }", 2, [](RankContext& c) {
    c.SetPartialResult("part");
    try {
      return TwoBarriers(c);
    } catch (const PeerLost& lost) {
      return std::string(lost.what());
    }
  });
  EXPECT_EQ(result.status.code(), Code::kInternal);
  EXPECT_THAT(Message(result), StartsWith("rank 1: lost at call 2, after "));
  EXPECT_THAT(Message(result), HasSubstr("as fabric.simulated.faults[0] says"));
  EXPECT_THAT(result.results[0], StartsWith("rank 0: lost rank 1 in barrier"));
  EXPECT_EQ(result.results[1], "part");
  EXPECT_THAT(result.notes, Contains(StartsWith("fabric.simulated.faults[0]: rank 1 was lost at call 2, after ")));
  ASSERT_EQ(result.struck.size(), 1u);
  EXPECT_EQ(result.struck[0].fault, 0);
  EXPECT_EQ(result.struck[0].rank, 1);
  EXPECT_EQ(result.struck[0].text, "was lost at call 2");
  EXPECT_GT(result.struck[0].seconds.value_or(0), 0);
}

TEST(Faults, AStepOrAMomentSaysWhen) {
  const auto train = [](RankContext& c) {
    for (int step = 0; step < 4; ++step) {
      c.SetPartialResult(StrCat(step, " steps"));
      c.BeginStep(step);
      c.world().Barrier().Wait();
      c.WaitUntil(c.clock().Now() + Seconds(1));
    }
    return std::string("done");
  };
  EXPECT_EQ(RunWith("faults { rank: 1 step: 2 lost: true }", 2, train).results[1], "2 steps");
  EXPECT_EQ(RunWith("faults { rank: 1 at_s: 0.5 lost: true }", 2, train).results[1], "1 steps");
  const RunResult late = RunWith("faults { rank: 1 at_s: 100 lost: true }", 2, train);
  EXPECT_TRUE(late.status.ok()) << late.status;
  EXPECT_EQ(late.notes.size(), RunWith("", 2, train).notes.size()) << "what has not happened is not told";
}

TEST(Faults, AShortHangIsWaitedFor) {
  const RunResult result = RunWith("faults { rank: 1 call: 2 hangs_s: 50 }", 2, TwoBarriers);
  EXPECT_TRUE(result.status.ok()) << result.status;
  for (const std::string& told : result.results) EXPECT_THAT(told, StartsWith("done at 50.0"));
}

TEST(Faults, ALongHangIsATimeOutThatNamesTheRank) {
  const RunResult result = RunWith("faults { rank: 1 call: 2 hangs_s: 1e6 }", 3, [](RankContext& c) -> std::string {
    try {
      return TwoBarriers(c);
    } catch (const RankFailure& failure) {
      return Told(c, failure.what());
    }
  });
  EXPECT_EQ(result.status.code(), Code::kDeadlineExceeded);
  EXPECT_THAT(Message(result),
              StartsWith("rank 1: timed out: it has called nothing for 60 s (fabric.timeout_s); it hangs at "));
  EXPECT_THAT(result.results[0], StartsWith("rank 0: lost rank 1 in barrier"));
  EXPECT_THAT(result.results[1], StartsWith("rank 1: timed out"));
}

TEST(Faults, ASlowRankTakesLongerForAWhile) {
  const auto compute = [](RankContext& c) {
    std::string times;
    for (int i = 0; i < 3; ++i) {
      c.world().Barrier().Wait();
      const double begin = c.clock().Now().value();
      Zeros(c, 25'000'000);  // 0.1 s at 1e9 bytes a second
      StrAppend(&times, absl::StrFormat("%.1f ", c.clock().Now().value() - begin));
    }
    return times;
  };
  const RunResult result = RunWith("faults { rank: 1 call: 2 slow { factor: 5 for_s: 0.3 } }", 2, compute);
  EXPECT_EQ(result.results[0], "0.1 0.1 0.1 ");
  EXPECT_EQ(result.results[1], "0.1 0.5 0.1 ");
  EXPECT_EQ(RunWith("faults { rank: 1 slow { factor: 5 } }", 2, compute).results[1], "0.5 0.5 0.5 ");
}

TEST(Faults, ALinkThatIsDownDelaysWhatBegins) {
  const auto messages = [](RankContext& c) {
    std::string times;
    for (int i = 0; i < 4; ++i) {
      c.WaitUntil(Seconds(i));
      c.world().Barrier().Wait();
      StrAppend(&times, absl::StrFormat("%.1f ", c.clock().Now().value()));
    }
    return times;
  };
  EXPECT_EQ(RunWith("", 2, messages).results[0], "0.0 1.0 2.0 3.0 ");
  EXPECT_EQ(RunWith("faults { rank: 1 at_s: 1 link_down { for_s: 0.5 } }", 2, messages).results[0], "0.0 1.5 2.0 3.0 ");
  EXPECT_EQ(
      RunWith("faults { rank: 1 at_s: 1 link_down { for_s: 0.5 times: 2 every_s: 0.9 } }", 2, messages).results[0],
      "0.0 1.5 2.4 3.0 ");
}

// It notices that at its next call, and once.
TEST(Faults, ARankIsLostAtAFileOperation) {
  const std::string folder = StrCat(testing::TempDir(), "/faults-of-files-", getpid());
  const std::string at_2 = "faults { rank: 1 file_call: 2 lost: true }";
  const RunResult result = RunWith(at_2 + at_2, 2, [&](RankContext& c) {
    std::string errors;
    for (int i = 0; i < 3; ++i) StrAppend(&errors, c.disk().MakeFolder(folder), " ");
    c.SetPartialResult(errors);
    return TwoBarriers(c);
  });
  std::filesystem::remove(folder);
  EXPECT_EQ(result.results[1], StrCat("0 ", EIO, " ", EIO, " "));
  EXPECT_THAT(Message(result), StartsWith("rank 1: lost at file operation 2, after "));
  EXPECT_THAT(result.notes, Contains(HasSubstr("rank 1 was lost")).Times(1));
}

TEST(Faults, ADiskIsFullAndReadsFail) {
  const RunResult result =
      RunWith("faults { rank: 0 disk_full: 1 } faults { rank: 1 call: 1 failed_reads: 2 }", 2, [&](RankContext& c) {
        c.world().Barrier().Wait();
        int file = -1;
        const std::string path = StrCat(testing::TempDir(), "/faults-of-files-", getpid(), "-", c.rank());
        std::string errors = StrCat(c.disk().Create(path, false, file), " ");
        for (int i = 0; i < 2; ++i) StrAppend(&errors, c.disk().Write(file, {}, 0), " ");
        c.disk().CloseWritten(file);
        file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        size_t got = 0;
        for (int i = 0; i < 3; ++i) StrAppend(&errors, c.disk().Read(file, {}, 0, got), " ");
        close(file), std::filesystem::remove(path);
        return errors;
      });
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_EQ(result.results[0], StrCat("0 ", ENOSPC, " 0 0 0 0 "));
  EXPECT_EQ(result.results[1], StrCat("0 0 0 ", EIO, " ", EIO, " 0 "));
  EXPECT_THAT(result.notes, Contains(HasSubstr("rank 0 had no disk space for 1 file operation at call 1")));
  EXPECT_THAT(result.notes, Contains(HasSubstr("rank 1 could not read files 2 times at call 1")));
}

// ---- Runs with generations ----

// Forms generations until a barrier of all members succeeds twice.
std::string Elastic(RankContext& c) {
  for (bool formed = true;; formed = false) {
    try {
      if (!formed) c.Reform({.min_members = 1, .timeout_s = 30});
      for (int i = 0; i < 2; ++i) c.everyone().Barrier().Wait();
      return Told(c, StrCat("generation ", c.generation().number, " of ", c.everyone().size()));
    } catch (const RankFailure& failure) {  // its own time-out, too
      if (failure.kind() == RankFailure::Kind::kOther) throw;
      if (absl::StrContains(failure.what(), "too late")) return Told(c, failure.what());
    }
  }
}

TEST(ElasticFaults, AHangEndsTheGenerationAndTheOthersGoOn) {
  const RunResult result = RunWith("faults { rank: 1 call: 2 hangs_s: 200 }", 3, Elastic, true);
  EXPECT_TRUE(result.status.ok()) << result.status;
  // known after 60 s; 30 s more until those that do not come are left behind
  for (const int r : {0, 2})
    EXPECT_THAT(result.results[static_cast<size_t>(r)], StartsWith("generation 1 of 2 at 90.0"));
  EXPECT_THAT(result.results[1],
              HasSubstr("rank 1: came too late for generation 1, which the others form without it at 200.0"));
  EXPECT_THAT(result.notes, Contains(StartsWith("generation 1: 2 ranks; lost: rank 1 (rank 1: timed out")));
}

TEST(ElasticFaults, AHangThatEndsWhileOthersWaitIsForgiven) {
  const RunResult result = RunWith("faults { rank: 1 call: 2 hangs_s: 70 }", 3, Elastic, true);
  EXPECT_TRUE(result.status.ok()) << result.status;
  for (const std::string& told : result.results) EXPECT_THAT(told, StartsWith("generation 1 of 3 at 70.0"));
}

TEST(ElasticFaults, MembersAreLostWhileAGenerationForms) {
  const RunResult result = RunWith(
      "faults { rank: 1 call: 2 lost: true } faults { rank: 2 generation: 1 call: 1 lost: true }", 4, Elastic, true);
  EXPECT_THAT(result.results[0], StartsWith("generation 1 of 2 at 0.0"));
  EXPECT_THAT(result.notes, Contains(HasSubstr("rank 2 was lost at call 1 of generation 1")));
}

TEST(ElasticFaults, MembersThatHangAsAGenerationFormsAreLeftBehind) {
  const RunResult result = RunWith(
      "faults { rank: 1 call: 2 lost: true } faults { rank: 2 generation: 1 call: 1 hangs_s: 40 }", 4, Elastic, true);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results[0], StartsWith("generation 1 of 2 at 30.0"));
  EXPECT_THAT(result.results[2], HasSubstr("came too late for generation 1, which the others form without it at 40.0"));
}

TEST(ElasticFaults, LaterGenerationsHaveCallsOfTheirOwn) {
  // call 1 asks for the generation, call 2 is its first barrier
  const RunResult result = RunWith(
      "faults { rank: 1 call: 1 lost: true } faults { rank: 2 generation: 1 call: 3 lost: true }", 3, Elastic, true);
  EXPECT_TRUE(result.status.ok()) << result.status;
  EXPECT_THAT(result.results[0], StartsWith("generation 2 of 1"));
}

// Nobody forms another generation after one has found that none can go on, also if one was lost just before.
TEST(ElasticFaults, ARunThatIsOverEndsWithItsReason) {
  for (const bool after_a_loss : {false, true}) {
    const RunResult result = RunWith(
        after_a_loss ? "faults { rank: 3 call: 1 lost: true }" : "", 4,
        [&](RankContext& c) -> std::string {
          try {
            if (c.member() != 1 || after_a_loss) c.everyone().Barrier().Wait();
          } catch (const PeerLost&) {
          }
          if (c.member() == 1) throw RunOver(1, "the state is lost");
          c.Reform({.min_members = 1, .timeout_s = 30});
          return "goes on";
        },
        true);
    EXPECT_EQ(result.status.code(), Code::kAborted) << result.status;
    EXPECT_EQ(Message(result), "the state is lost");
    for (const std::string& note : result.notes) EXPECT_FALSE(absl::StartsWith(note, "generation ")) << note;
  }
}

}  // namespace faults_test
}  // namespace twofold
