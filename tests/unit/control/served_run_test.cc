// Runs over the served control plane: rank 0 is lost, or members are, or new ones come.
#include <gmock/gmock.h>

#include <future>
#include <thread>

#include "tests/unit/control/elastic_rank.h"
#include "tests/unit/control/job.h"

namespace twofold::control {
namespace served_run_test {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// ---- Losing rank 0 ----

TEST(ServedRun, WhenThePlaneIsLostRankOneSpeaks) {
  Job job(3);
  std::vector<std::unique_ptr<host::RunState>> states;
  for (auto& client : job.clients()) {
    states.push_back(std::make_unique<host::RunState>(3, 60));
    client->Begin(3, 60, states.back().get(), [] {});
  }
  std::thread end([&] { job.of(0).reset(); });
  for (const int r : {1, 2}) {
    const Verdict v = job.of(r)->AwaitVerdict();
    EXPECT_EQ(v.code(), static_cast<int>(absl::StatusCode::kUnavailable));
    EXPECT_THAT(v.message(), HasSubstr("lost rank 0"));
    job.of(r)->HandIn(StrCat("part ", r));
  }
  end.join();
  EXPECT_TRUE(job.of(1)->speaks());
  EXPECT_FALSE(job.of(2)->speaks());
  EXPECT_THAT(job.of(1)->Conclude().results, ElementsAre("", "part 1", ""));
}

// ... and though rank 0's process has ended since: it had told.
TEST(ServedRun, WhoIsLateHearsTheVerdictOfAPlaneThatHasEnded) {
  for (const int runs : {1, 2}) {
    Job job(2);
    for (int run = 1; run <= runs; ++run) {
      host::RunState state(1, 60);
      job.of(0)->Begin(1, 60, &state, [] {});
      job.of(0)->Finish("whole");
      EXPECT_EQ(job.of(0)->AwaitVerdict().code(), 0);
      job.of(0)->Conclude();
      if (run == runs) job.of(0).reset();
      (void)job.of(1)->Get("");  // the answer, or its absence, comes after the verdict
      job.of(1)->Begin(1, 60, nullptr, [] {});
      EXPECT_EQ(job.of(1)->AwaitVerdict().code(), 0);
    }
  }
}

// ---- Generations ----

TEST(ServedGenerations, GoOnAfterALossAndTakeANewcomerIn) {
  Job job(3);
  std::vector<std::unique_ptr<ElasticRank>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(std::make_unique<ElasticRank>(*job.of(r), 3, r));
  ranks[1]->state().Explain(1, RankFailure::Kind::kOther, "rank 1: injected");
  for (auto& rank : ranks) EXPECT_EQ(rank->AwaitBroken(), "rank 1: injected");
  EXPECT_EQ(job.of(0)->Depart("").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(job.of(1)->Depart("part 1").ok());
  job.of(1).reset();
  Together({[&] { ranks[0]->Reform(); }, [&] { ranks[2]->Reform(); }});
  EXPECT_THAT(ranks[2]->generation().members, ElementsAre(0, 2));
  EXPECT_EQ(ranks[2]->rank(), 1);
  // Bytes and relays among the members of the generation.
  Together({[&] { EXPECT_THAT(*job.of(0)->AllGather("a"), ElementsAre("a", "c")); },
            [&] { EXPECT_THAT(*job.of(2)->AllGather("c"), ElementsAre("a", "c")); }});
  std::promise<int> from;
  job.of(0)->OnRelayed([&from](const Relayed& message) { from.set_value(message.from()); });
  Relayed message;
  message.set_to(0);
  job.of(2)->Relay(message);
  EXPECT_EQ(from.get_future().get(), 2);
  // A newcomer.
  Client::Options options = job.Options(0);
  options.newcomer = true;
  options.size = 0;
  auto newcomer = *Client::Join(options);
  while (job.of(2)->Newcomers() == 0) std::this_thread::sleep_for(milliseconds(1));
  std::unique_ptr<ElasticRank> third;
  Together({[&] { ranks[0]->Reform(); }, [&] { ranks[2]->Reform(); },
            [&] { third = std::make_unique<ElasticRank>(*newcomer); }});
  EXPECT_EQ(third->generation().number, 3);
  EXPECT_THAT(third->generation().members, ElementsAre(0, 2, 3));
  EXPECT_EQ(third->rank(), 2);
  EXPECT_EQ(job.of(0)->Newcomers(), 0);
  Together({[&] { EXPECT_EQ(*job.of(0)->Broadcast("by 0"), "by 0"); },
            [&] { EXPECT_EQ(*job.of(2)->Broadcast(""), "by 0"); },
            [&] { EXPECT_EQ(*newcomer->Broadcast(""), "by 0"); }});
  job.of(0)->Finish("whole 0");
  job.of(2)->Finish("whole 2");
  newcomer->Finish("whole 3");
  EXPECT_EQ(newcomer->AwaitVerdict().code(), 0);
  EXPECT_FALSE(newcomer->speaks());
  EXPECT_THAT(job.of(0)->Conclude().results, ElementsAre("whole 0", "part 1", "whole 2", "whole 3"));
}

TEST(ServedGenerations, AProcessThatIsLateLearnsThatTheOthersWentOn) {
  Job job(2);
  ElasticRank zero(*job.of(0), 2, 0), one(*job.of(1), 2, 1);
  zero.Reform(1, 0.2);
  EXPECT_THAT(zero.generation().members, ElementsAre(0));
  EXPECT_THAT(job.of(1)->AwaitVerdict().message(), HasSubstr("generation 1 began without this process"));
  EXPECT_FALSE(job.of(1)->speaks());
  const auto late = job.of(1)->Reform(1, 1);
  EXPECT_THAT(Text(late.status()), HasSubstr("generation 1 began without this process"));
  job.of(0)->Finish("whole");
  EXPECT_EQ(job.of(0)->AwaitVerdict().code(), 0);
}

TEST(ServedGenerations, WithTooFewTheRunEnds) {
  Job job(3);
  ElasticRank zero(*job.of(0), 3, 0), one(*job.of(1), 3, 1), two(*job.of(2), 3, 2);
  job.of(2).reset();
  EXPECT_THAT(one.AwaitBroken(), HasSubstr("lost rank 2"));
  std::string why[2];
  Together({[&] { why[0] = Text(job.of(0)->Reform(3, 0.2).status()); },
            [&] { why[1] = Text(job.of(1)->Reform(3, 0.2).status()); }});
  for (const std::string& text : why) EXPECT_THAT(text, HasSubstr("the next generation needs 3 members"));
}

}  // namespace served_run_test
}  // namespace twofold::control
