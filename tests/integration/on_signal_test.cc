// SIGTERM, or SIGUSR1, lets a run save before it ends, wherever the signal arrives, unless train.checkpoint.on_signal
// is false.
#include <gmock/gmock.h>

#include <cmath>

#include "core/io/checkpoint_folder.h"
#include "tests/children.h"
#include "tests/integration/program.h"
#include "tests/integration/ranks_of.h"

namespace twofold {
namespace on_signal_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSpec[] =
    "model { mlp { inputs: 64 hidden: [128, 128] classes: 8 } }\n"
    "data { synthetic { samples: 1000 } }\nparallel { dp: 3 }\n"
    "train { micro_batch: 8 global_batch: 48 steps: 2000000 checkpoint {} }\n";

struct Case {
  const char* name;
  const char* fabric;
  int rank;  // whose process gets the signal; -1: the one that the test started
  int signal = SIGTERM;
};

class OnSignal : public Program, public ::testing::WithParamInterface<Case> {
 protected:
  std::vector<std::string> Words(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {TWOFOLD_PROGRAM};
    const std::string fabric = StrCat("--fabric=", GetParam().fabric);
    if (fabric != "--fabric=in_memory") words.insert(words.end(), {"launch", "--ranks=3", fabric, "--"});
    words.insert(words.end(), {"run", At("spec.textproto"), fabric});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};
INSTANTIATE_TEST_SUITE_P(Processes, OnSignal,
                         ::testing::Values(Case{"InMemory", "in_memory", -1},
                                           Case{"InMemoryUsr1", "in_memory", -1, SIGUSR1},
                                           Case{"MpiByLaunch", "mpi", -1}, Case{"MpiRank0", "mpi", 0},
                                           Case{"MpiRank2", "mpi", 2}, Case{"GlooByLaunch", "gloo", -1},
                                           Case{"GlooRank1", "gloo", 1}, Case{"GlooByLaunchUsr1", "gloo", -1, SIGUSR1}),
                         [](const auto& info) { return std::string(info.param.name); });

// In memory, a run that is resumed has the losses of one that was never interrupted, bit for bit; to 1e-5 elsewhere.
TEST_P(OnSignal, SavesAfterTheSameStepOnAllRanks) {
  Write("spec.textproto", kSpec);
  const std::string out = StrCat("--out=", At("out"));
  test::Child run(Words({out}));
  ASSERT_TRUE(run.AwaitOutput("step 1 of")) << run.Output();
  GetParam().rank < 0 ? run.Signal(GetParam().signal) : SignalRank(GetParam().rank, out, GetParam().signal);
  ASSERT_EQ(run.Wait(), 1) << run.Output();
  const nlohmann::json report = Report(At("out"));
  EXPECT_EQ(report["outcome"], "INTERRUPTED");
  const size_t done = report["steps"].size();
  EXPECT_THAT(std::string(report["message"]),
              HasSubstr(StrCat("(train.checkpoint.on_signal); it saved a checkpoint after step ", done)));
  const std::vector<checkpoint::Found> found = checkpoint::List(At("out/checkpoints"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].step, static_cast<int64_t>(done));
  ASSERT_EQ(report["checkpoints"].size(), 1u);
  EXPECT_EQ(report["checkpoints"][0]["step"], done);

  constexpr size_t kMore = 10;
  const std::string steps = StrCat("--set=train.steps=", done + kMore);
  test::Child resumed(
      Words({StrCat("--out=", At("resumed")), steps, StrCat("--set=train.resume=", At("out/checkpoints"))}));
  ASSERT_EQ(resumed.Wait(), 0) << resumed.Output();
  ASSERT_EQ(Run(StrCat("run ", At("spec.textproto"), " --quiet --fabric=in_memory --out=", At("whole"), " ", steps)), 0)
      << err_;
  const nlohmann::json rest = Report(At("resumed"))["steps"], whole = Report(At("whole"))["steps"];
  ASSERT_EQ(rest.size(), kMore);
  ASSERT_EQ(whole.size(), done + kMore);
  const double bound = std::string(GetParam().fabric) == "in_memory" ? 0 : 1e-5;
  const auto expect_equal = [&](double a, double b, size_t step) { EXPECT_LE(std::abs(a - b), bound * b) << step; };
  for (size_t i = 0; i < done; ++i) expect_equal(report["steps"][i]["loss"], whole[i]["loss"], i);
  for (size_t i = 0; i < kMore; ++i) expect_equal(rest[i]["loss"], whole[done + i]["loss"], done + i);
}

class OneProcess : public Program {};

TEST_F(OneProcess, SavesNothingIfInterruptedOrIfTheSpecSaysSo) {
  Write("spec.textproto", kSpec);
  for (const auto& [on_signal, signal] : {std::pair("true", SIGINT), {"false", SIGTERM}, {"false", SIGUSR1}}) {
    test::Child run({TWOFOLD_PROGRAM, "run", At("spec.textproto"), "--fabric=in_memory", StrCat("--out=", At("out")),
                     StrCat("--set=train.checkpoint.on_signal=", on_signal)});
    ASSERT_TRUE(run.AwaitOutput("step 1 of"));
    run.Signal(signal);
    EXPECT_EQ(run.Wait(), 1);
    EXPECT_EQ(Report(At("out"))["outcome"], "INTERRUPTED");
    EXPECT_TRUE(checkpoint::List(At("out/checkpoints")).empty());
  }
}

// Of pipelines, the stages are at different steps when the signal comes; steps whose loss is not read take no message
// of it; an asynchronous save is completed.
TEST_F(OneProcess, SavesWhateverRanksAreDoing) {
  const std::string spec =
      Write("spec.textproto",
            "model { gpt { layers: 4 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\nparallel { dp: 2 pp: 2 tp: 2 }\n"
            "train { micro_batch: 2 global_batch: 8 steps: 2000000 report_loss_every: 1000000\n"
            "  checkpoint { every_steps: 7 asynchronous: true on_signal: true } }\n");
  for (const bool again : {false, true}) {  // the second one goes on from the first
    std::vector<std::string> words = {TWOFOLD_PROGRAM, "run", spec, "--fabric=in_memory", StrCat("--out=", At("out"))};
    if (again) words.push_back(StrCat("--set=train.resume=", At("out/checkpoints")));
    test::Child run(words);
    ASSERT_TRUE(run.AwaitOutput(": saved ")) << run.Output();
    run.Signal(SIGTERM);
    ASSERT_EQ(run.Wait(), 1) << run.Output();
    const nlohmann::json report = Report(At("out"));
    EXPECT_EQ(report["outcome"], "INTERRUPTED") << report["message"];
    const int64_t done = static_cast<int64_t>(report["first_step"]) + static_cast<int64_t>(report["steps"].size());
    EXPECT_EQ(checkpoint::List(At("out/checkpoints"))[0].step, done);
    EXPECT_EQ(report["first_step"] > 0, again);
  }
}

// The script of docs/elastic_training.md, with stand-ins: srun trains on threads, scontrol tells what it was asked.
TEST_F(OneProcess, TheSlurmScriptResumesAndAsksForARequeue) {
  const std::string page = ReadAll("docs/elastic_training.md");
  const size_t begin = page.find("#!/bin/bash"), end = page.find("```", begin);
  ASSERT_NE(begin, std::string::npos);
  Write("job.sh", page.substr(begin, end - begin));
  Write("my.textproto", kSpec);
  fs::create_directories(At("bin"));
  Write("bin/srun", StrCat("#!/bin/bash\nshift 2\nargs=(\"$@\")\nexec ", TWOFOLD_PROGRAM,
                           " \"${args[@]/nccl/in_memory}\" $MORE\n"));
  Write("bin/scontrol", "#!/bin/bash\necho \"scontrol was asked to $*\"\n");
  for (const char* name : {"bin/srun", "bin/scontrol"}) fs::permissions(At(name), fs::perms::owner_all);
  const std::string path = StrCat(At("bin"), ":", std::getenv("PATH"));
  const auto job = [&](const std::string& more) {
    return std::make_unique<test::Child>(
        std::vector<std::string>{"/bin/bash", "-c", StrCat("cd ", folder_.string(), " && exec /bin/bash job.sh")},
        test::Environment{{"PATH", path}, {"SLURM_JOB_ID", "4711"}, {"MORE", more}});
  };
  const auto first = job("");
  ASSERT_TRUE(first->AwaitOutput("step 1 of")) << first->Output();
  pid_t task = -1;
  AwaitThat([&] { return (task = ProcessWith("--out=runs/my", folder_)) > 0; }, "the task");
  kill(task, SIGTERM);
  EXPECT_EQ(first->Wait(), 0) << first->Output();
  EXPECT_THAT(first->Output(), HasSubstr("scontrol was asked to requeue 4711"));
  const auto done = static_cast<int64_t>(Report(At("runs/my"))["steps"].size());
  const auto second = job(StrCat("--set=train.steps=", done + 3));
  EXPECT_EQ(second->Wait(), 0) << second->Output();
  EXPECT_THAT(second->Output(), Not(HasSubstr("requeue")));
  EXPECT_EQ(Report(At("runs/my"))["outcome"], "OK");
  EXPECT_EQ(Report(At("runs/my"))["first_step"], done);
}

TEST_F(OneProcess, APredictionSaysThatItHasNoEffect) {
  ASSERT_EQ(Run(StrCat("run ", Write("spec.textproto", kSmall), " --quiet --fabric=simulated --out=", At("out"),
                       " '--set=train.checkpoint={on_signal: true}'")),
            0)
      << err_;
  EXPECT_THAT(Report(At("out"))["notes"].dump(), HasSubstr("train.checkpoint.on_signal: no signal reaches simulated"));
}

}  // namespace on_signal_test
}  // namespace twofold
