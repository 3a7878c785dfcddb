// Predictor: many predictions by a pool of processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/predict/frames.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/predict/worker.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace predictor_test {

using ::testing::HasSubstr;

spec::Spec Small(int ranks, const std::string& cluster = "dgx-a100") {
  const auto spec =
      ResolveSpec(StrCat("model { mlp { inputs: 8 hidden: [16] classes: 4 } } train { steps: 4 micro_batch: 2 } "
                         "parallel { dp: ",
                         ranks, " } fabric { simulated { cluster: \"", cluster, "\" } }"),
                  "small");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(spec::Spec());
}

std::unique_ptr<Predictor> Pool(int processes) {
  auto predictor = Predictor::Make({.processes = processes, .program = TWOFOLD_PROGRAM});
  EXPECT_TRUE(predictor.ok()) << predictor.status();
  return predictor.ok() ? *std::move(predictor) : nullptr;
}

std::vector<pid_t> Children() {
  std::ifstream in(StrCat("/proc/self/task/", getpid(), "/children"));
  std::vector<pid_t> children;
  for (pid_t pid = 0; in >> pid;) children.push_back(pid);
  return children;
}

int64_t ResidentKiB(pid_t pid) {
  std::ifstream in(StrCat("/proc/", pid, "/status"));
  for (std::string word; in >> word;) {
    int64_t kib = 0;
    if (word == "VmRSS:" && in >> kib) return kib;
  }
  return 0;
}

TEST(PredictorTest, SaysWhatThisProcessWouldSay) {
  const auto pool = Pool(1);
  const auto theirs = pool->Predict(Small(8));
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  const auto ours = PredictHere(Small(8), "small");
  ASSERT_TRUE(ours.ok()) << ours.status();
  EXPECT_GT(ours->median_step_seconds(), 0);
  EXPECT_EQ(theirs->SerializeAsString(), ours->SerializeAsString());
}

TEST(PredictorTest, ServesThreadsAtTheSameTime) {
  const auto pool = Pool(2);
  std::vector<spec::Spec> specs;
  for (int i = 0; i < 12; ++i) specs.push_back(Small(i % 4 + 1));
  std::vector<int64_t> ranks(specs.size());
  pool->PredictAll(specs, "small", [&](size_t i, absl::StatusOr<report::Report> report) {
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(ranks[i], 0);
    ranks[i] = report->world_size();
  });
  for (size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ(ranks[i], static_cast<int64_t>(i % 4) + 1);
  EXPECT_LE(Children().size(), 2U);
}

TEST(PredictorTest, AProcessThatEndsCostsOnePrediction) {
  const auto pool = Pool(1);
  ASSERT_TRUE(pool->Predict(Small(2)).ok());
  for (const pid_t child : Children()) kill(child, SIGKILL);
  const auto lost = pool->Predict(Small(2), "job");
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("job: the predicting process was ended by Killed"));
  EXPECT_TRUE(pool->Predict(Small(2)).ok());
}

// A process that answers as one of a pool does, by `work` on its end of the socket.
class Worker {
 public:
  explicit Worker(const std::function<void(int socket)>& work) {
    int sockets[2], pipes[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || pipe(pipes) != 0 || pipe(begun_) != 0) abort();
    if ((pid_ = fork()) == 0) {
      close(sockets[0]);
      close(pipes[1]);
      const auto answer = [&](const prediction::Question& question) -> absl::StatusOr<std::string> {
        if (write(begun_[1], "x", 1) == 1) work(sockets[1]);
        return question.command();
      };
      _exit(prediction::Serve(sockets[1], pipes[0], {.predict = nullptr, .answer = answer}));
    }
    close(sockets[1]);
    close(pipes[0]);
    socket_ = sockets[0];
    pipe_ = pipes[1];
    prediction::Answer greeting;
    EXPECT_TRUE(prediction::Receive(socket_, greeting).ok());
  }
  ~Worker() {
    if (pid_ > 0 && kill(pid_, SIGKILL) == 0) WaitStatus();
    for (const int end : {socket_, pipe_, begun_[0], begun_[1]}) close(end);
  }
  void Ask(const std::string& command) {
    prediction::Request request;
    request.mutable_question()->set_command(command);
    request.mutable_question()->set_folder("/");
    EXPECT_TRUE(prediction::Send(socket_, request).ok());
  }
  void AwaitBegun() {
    char begun = 0;
    EXPECT_EQ(read(begun_[0], &begun, 1), 1);
  }
  std::string Answered() {
    prediction::Answer answer;
    const absl::Status status = prediction::Receive(socket_, answer);
    return status.ok() ? answer.json() : std::string(status.message());
  }
  void ClosePipe() { close(std::exchange(pipe_, -1)); }
  int WaitStatus() {
    int status = 0;
    EXPECT_GT(waitpid(std::exchange(pid_, 0), &status, 0), 0);
    return status;
  }

 private:
  pid_t pid_ = 0;
  int socket_ = -1, pipe_ = -1, begun_[2];
};

// The kernel may signal that a request came after the request was read and begun. For one that comes early, it does.
TEST(PredictorTest, WhatComesOnTheSocketEndsNoProcessAtWork) {
  Worker worker([](int socket) {
    pollfd next = {.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&next, 1, 2000) == 1) usleep(50'000);  // until the signal is there
  });
  worker.Ask("first");
  worker.AwaitBegun();
  worker.Ask("second");
  EXPECT_EQ(worker.Answered(), "first");
}

TEST(PredictorTest, AProcessAtWorkEndsIfNobodyWaits) {
  for (const bool before : {false, true}) {
    Worker worker([](int) {
      usleep(5'000'000);
      _exit(1);  // nothing has ended it
    });
    if (before) worker.ClosePipe();
    worker.Ask("long");
    if (!before) {
      worker.AwaitBegun();
      worker.ClosePipe();
    }
    const int status = worker.WaitStatus();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  }
}

// Engines of a process follow one another, and leave nothing to the next.
TEST(PredictorTest, EachIsAsInAProcessOfItsOwn) {
  constexpr char kGpt[] = "gpt { layers: 4 hidden: 64 heads: 8 vocab: 512 sequence: 16 }";
  constexpr char kExperts[] =
      "moe { llama { layers: 2 hidden: 64 heads: 8 vocab: 512 sequence: 16 } experts: 4 top_k: 2 }";
  struct Case {
    const char *model, *parallel, *simulated;
  };
  const Case cases[] = {
      {kGpt, "dp: 2 tp: 2 pp: 2", "cluster: \"dgx-h100\""},
      {kGpt, "dp: 8 sharding: ZERO_3", "cluster: \"alps\""},               // adaptive routing
      {kGpt, "dp: 4 tp: 2", "cluster: \"" TWOFOLD_OPEN_MPI_CLUSTER "\""},  // an actor for each message
      {kExperts, "dp: 8 ep: 4", "cluster: \"dgx-h100\" folding: OFF"},
      {kGpt, "dp: 2 pp: 4 schedule: ZERO_BUBBLE_H1", "cluster: \"dgx-h100\" solver: SIMGRID"},
      {"preset: \"llama3-8b\"", "dp: 8", "cluster: \"dgx-h100\""},  // runs out of memory
      {kGpt, "dp: 4 cp: 2", "cluster: \"dgx-a100\" stragglers { rank: 3 factor: 1.5 }"},
      {kGpt, "dp: 600 tp: 2 sharding: FULL_SHARD", "cluster: \"dgx-h100-16k\""},
  };
  std::vector<spec::Spec> specs;
  std::vector<absl::StatusOr<report::Report>> expected;
  for (const Case& c : cases) {
    auto spec = ResolveSpec(StrCat("model { ", c.model, " }\ntrain { steps: 3 micro_batch: 2 }\nparallel { ",
                                   c.parallel, " }\nfabric { simulated { ", c.simulated, " } }\n"),
                            "job");
    ASSERT_TRUE(spec.ok()) << spec.status();
    specs.push_back(*std::move(spec));
    expected.push_back(PredictHere(specs.back(), "job"));
  }
  const auto pool = Pool(1);
  for (const size_t stride : {1, 3, 5}) {  // in several orders
    for (size_t i = 0; i < specs.size(); ++i) {
      const size_t job = i * stride % specs.size();
      const auto predicted = pool->Predict(specs[job], "job");
      ASSERT_EQ(predicted.status(), expected[job].status()) << cases[job].parallel;
      if (!predicted.ok()) continue;
      EXPECT_EQ(predicted->SerializeAsString(), expected[job]->SerializeAsString()) << cases[job].parallel;
    }
  }
  EXPECT_EQ(expected[5]->outcome(), report::OUT_OF_MEMORY);
}

TEST(PredictorTest, ErrorsNameTheFile) {
  const auto pool = Pool(1);
  spec::Spec wrong = Small(2);
  wrong.mutable_fabric()->mutable_simulated()->set_cluster("no-such");
  const auto refused = pool->Predict(wrong, "mine");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(refused.status().message()), testing::StartsWith("mine: fabric.simulated.cluster: "));
  EXPECT_TRUE(pool->Predict(Small(2)).ok());
}

TEST(PredictorTest, NeedsAProgramThatPredicts) {
  const auto none = Predictor::Make({.program = "/no/such/twofold"});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("\"/no/such/twofold\", cannot be started: No such file"));
  const auto other = Predictor::Make({.program = "true"});
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("\"true\", does not predict: it ended with exit status 0"));
}

// By how many KiB so many predictions let a process grow that has made some.
int64_t GrownKiB(const spec::Spec& spec, int times) {
  const auto pool = Pool(1);
  const auto predict = [&](int n) {
    for (int i = 0; i < n; ++i) ASSERT_TRUE(pool->Predict(spec).ok());
  };
  predict(10);
  EXPECT_EQ(Children().size(), 1U);
  const int64_t before = ResidentKiB(Children()[0]);
  predict(times);
  return ResidentKiB(Children()[0]) - before;
}

TEST(PredictorTest, ItsMemoryDoesNotGrow) { EXPECT_LT(GrownKiB(Small(2), 100), 1024); }  // a report has several KiB

// Routing is adaptive there: SimGrid shares the links of flows between nodes.
TEST(PredictorTest, NorDoesItWithLinksOfSimGrid) { EXPECT_LT(GrownKiB(Small(8, "alps"), 60), 2048); }

}  // namespace predictor_test
}  // namespace twofold
