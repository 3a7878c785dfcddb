// `twofold run` as a user meets it: exit statuses, messages, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "tests/children.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_run_test {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// One for each strategy, as docs/model_parallelism.md lists them.
TEST_F(Program, RunsEveryExample) {
  int examples = 0;
  for (const auto& file : fs::directory_iterator("examples")) {
    if (file.path().extension() != ".textproto") continue;
    const bool warms_up = ReadAll(file.path().string()).find("schedule { linear") != std::string::npos;
    const std::string run =
        StrCat("run ", file.path().string(), " --quiet --set=train.steps=2 --set=train.warmup_steps=1",
               warms_up ? " --set=train.schedule.warmup_steps=0" : "", " --out=", At("out"));
    EXPECT_EQ(Run(run), 0) << file.path() << ": " << err_;
    EXPECT_EQ(Run(run + " --fabric=simulated"), 0) << file.path() << ": " << err_;
    ++examples;
  }
  EXPECT_GE(examples, 10);
}

// Each of them would do the whole job, and write the same folder.
TEST_F(Program, RefusesSeveralProcessesWhereOneRunsAllRanks) {
  const std::string spec = Write("small.textproto", kSmall), profile = At("profile.textproto");
  constexpr char kMpirun[] =
      "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_RANK=";
  auto run = [&](const std::string& variables, const std::string& command) {
    const std::string plain = "env -u SLURM_JOB_ID -u SLURM_STEP_ID -u RANK -u WORLD_SIZE ";
    const int status =
        RunShell(StrCat(plain, variables, " ", TWOFOLD_PROGRAM, " ", command, " >", At("stdout"), " 2>", At("stderr")));
    err_ = ReadAll(At("stderr"));
    return WEXITSTATUS(status);
  };
  const std::pair<std::string, const char*> kCommands[] = {
      {StrCat("run ", spec, " --fabric=in_memory --out=", At("run")), "in_memory"},
      {StrCat("run ", spec, " --out=", At("run")), "simulated"},
      {"bench all_reduce -e 8", "in_memory"},
      {"bench all_reduce -e 8 --fabric=simulated", "simulated"},
      {StrCat("calibrate --quick --out=", profile), "in_memory"}};
  for (const auto& [command, fabric] : kCommands) {
    EXPECT_EQ(run(StrCat(kMpirun, "0"), command), 2) << command;
    EXPECT_THAT(err_, HasSubstr(StrCat("2 processes were started (Open MPI's mpirun), but fabric ", fabric,
                                       " runs all ranks in one process; use --fabric=")))
        << command;
    EXPECT_THAT(err_, HasSubstr(", or start one process")) << command;
  }
  EXPECT_EQ(run(StrCat(kMpirun, "1"), kCommands[0].first), 2);
  EXPECT_THAT(err_, IsEmpty()) << "rank 0 says it";
  EXPECT_FALSE(fs::exists(At("run")));
  EXPECT_EQ(run("TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=4 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4", kCommands[1].first), 2);
  EXPECT_THAT(err_, HasSubstr("4 processes were started (torchrun)"));
  EXPECT_EQ(run("SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_NODELIST=n1",
                kCommands[1].first),
            2);
  EXPECT_THAT(err_, HasSubstr("8 processes were started (Slurm's srun)"));
  // Alone: in a batch script, whose job has tasks that no step has begun; in an interactive shell, which is a step of
  // its own.
  EXPECT_EQ(run("SLURM_JOB_ID=1 SLURM_NTASKS=8 SLURM_PROCID=0", kCommands[1].first), 0) << err_;
  EXPECT_EQ(
      run("SLURM_JOB_ID=1 SLURM_NTASKS=8 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0", kCommands[1].first), 0)
      << err_;
  EXPECT_EQ(run("OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0", kCommands[1].first), 0) << err_;
}

TEST_F(Program, TellsWhatItReplaces) {
  const std::string spec = Write("small.textproto", kSmall), out = StrCat(" --quiet --out=", At("run"));
  ASSERT_EQ(Run(StrCat("run ", spec, out)), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, out)), 0) << err_;
  EXPECT_THAT(err_, IsEmpty()) << "the same";
  ASSERT_EQ(Run(StrCat("run ", spec, out, " --set=parallel.dp=4")), 0) << err_;
  EXPECT_THAT(err_, HasSubstr(StrCat("warning: ", At("run"),
                                     ": replaces a run whose spec differs in train, parallel; --out=DIR keeps both")));
  ASSERT_EQ(Run(StrCat("run ", spec, out, " --set=parallel.dp=4 --fabric=in_memory")), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("differs in fabric;"));
}

TEST_F(Program, NamesASpecThatIsNotThere) {
  EXPECT_EQ(Run("run " + At("nothing.textproto")), 2);
  EXPECT_THAT(err_, HasSubstr(At("nothing.textproto")));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(Program, RefusesEveryBadSpec) {
  int count = 0;
  for (const fs::directory_entry& file : fs::directory_iterator("tests/specs/bad")) {
    EXPECT_EQ(Run(StrCat("run --check ", file.path().string())), 2) << file.path();
    EXPECT_THAT(err_, HasSubstr(file.path().filename().string())) << "the message does not name the file";
    ++count;
  }
  EXPECT_GT(count, 20);
}

TEST_F(Program, ChecksWithoutRunning) {
  const std::string spec = Write("small.textproto", kSmall);
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --out=", At("run"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("fine"));
  EXPECT_FALSE(fs::exists(At("run")));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=train.steps=0")), 2);
  EXPECT_THAT(err_, HasSubstr("error: --set train.steps=0: train.steps: 0 is out of range"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=train.stops=3")), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean steps"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --fabric=telepathy")), 2);
  EXPECT_THAT(err_, HasSubstr("telepathy"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=fabric.simulated.cluster=moon")), 2);
  EXPECT_THAT(
      err_,
      HasSubstr(
          "error: --set fabric.simulated.cluster=moon: fabric.simulated.cluster: \"moon\" is neither a known cluster"));
}

// Who asks for a measurement gets one, or an error.
TEST_F(Program, RefusesASetThatContradictsTheFabric) {
  const std::string run = StrCat("run ", Write("small.textproto", kSmall), " --check --fabric=in_memory");
  for (const char* set :
       {"fabric.simulated.cluster=dgx-h100", "fabric.mpi.gpu_buffers=STAGED", "'fabric={ simulated {} }'"}) {
    EXPECT_EQ(Run(StrCat(run, " --set ", set)), 2) << set;
    EXPECT_THAT(err_, HasSubstr(": contradicts --fabric=in_memory; leave one out")) << set;
    EXPECT_THAT(err_, HasSubstr(StrCat("--set fabric", set[0] == '\'' ? "=" : "."))) << set;
  }
  EXPECT_EQ(Run(StrCat(run, " --set fabric.timeout_s=5 --set fabric.in_memory.link_gbps=1")), 0) << err_;
}

TEST_F(Program, MeasuresAndWritesTheReport) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --set=train.steps=6 --set parallel.dp=3 --out=", At("run"))),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("step time"));
  const nlohmann::json report = Report(At("run"));
  EXPECT_EQ(report["schema_version"], 1);
  EXPECT_EQ(report["name"], "small");
  EXPECT_EQ(report["fabric"], "in_memory");
  EXPECT_EQ(report["predicted"], false);
  EXPECT_EQ(report["outcome"], "OK");
  EXPECT_EQ(report["world_size"], 3);
  EXPECT_EQ(report["steps"].size(), 6u);
  EXPECT_EQ(report["ranks"].size(), 3u);
  EXPECT_EQ(report["parameters"], 8 * 16 + 16 + 16 * 4 + 4);
  EXPECT_EQ(report["model_flops_per_step"],
            3.0 * 2 * (8 * 16 + 16 * 4) * 6);  // forward, and twice that backward
  EXPECT_GT(report["median_step_seconds"], 0);
  EXPECT_LE(report["low"], report["median_step_seconds"]);
  EXPECT_GE(report["high"], report["median_step_seconds"]);
  EXPECT_NEAR(report["tokens_per_second"].get<double>() * report["median_step_seconds"].get<double>(), 6, 1e-9);
  for (const char* name : {"steps.csv", "validation.csv", "memory.csv", "memory_blocks.json.gz", "collectives.csv",
                           "trace.json", "spec.textproto"}) {
    EXPECT_TRUE(fs::exists(StrCat(At("run"), "/", name))) << name;
  }
}

// Two stages of 1,024 ranks each, which a rank each stands for: what is written does not grow with them.
TEST_F(Program, WritesOneRowAndOneTimeLineForRanksThatAreFolded) {
  const std::string spec =
      Write("many.textproto",
            "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\ntrain { steps: 2 warmup_steps: 0 "
            "micro_batch: 1 global_batch: 2048 }\n"
            "parallel { pp: 2 dp: 1024 }\nfabric { simulated { cluster: \"dgx-h100-16k\" folding: ON } }\n");
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("many"))), 0) << err_;
  EXPECT_THAT(err_, Not(HasSubstr("rotobuf")));
  const nlohmann::json report = Report(At("many"));
  EXPECT_EQ(report["outcome"], "OK");
  EXPECT_GT(report["median_step_seconds"], 0);
  ASSERT_EQ(report["ranks"].size(), 2u);
  EXPECT_GT(report["ranks"][1]["peak_bytes"], 0);
  EXPECT_EQ(report["ranks"][1]["stands_for"].dump(),
            R"({"count":1024,"ranges":[{"first":1024,"last":2047,"stride":1}]})");
  std::set<int> traced;
  const nlohmann::json trace = nlohmann::json::parse(ReadAll(At("many") + "/trace.json"));
  for (const nlohmann::json& event : trace["traceEvents"]) traced.insert(event["pid"].get<int>());
  EXPECT_EQ(traced, (std::set<int>{0, 1024}));
  EXPECT_EQ(Run(StrCat("compare ", At("many"), " ", At("many"))), 0) << err_;
  EXPECT_EQ(Run(StrCat("report ", At("many"), " --out=", At("page.html"))), 0) << err_;

  ASSERT_EQ(Run(StrCat("run ", spec, " --set=trace.enabled=false --out=", At("many"))), 0) << err_;
  EXPECT_FALSE(fs::exists(At("many") + "/trace.json"));
  // Spans that nobody traces are added up before their waits.
  const double seconds = report["median_step_seconds"];
  EXPECT_NEAR(Report(At("many"))["median_step_seconds"], seconds, 1e-12 * seconds);
}

TEST_F(Program, SaysWhatTheSimulationItselfCosts) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --profile-simulator --out=", At("run"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("the simulation itself"));
  std::map<std::string, std::vector<std::string>> rows;  // by part: seconds, bytes, count
  std::istringstream lines(ReadAll(At("run/simulate.csv")));
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells(1);
    for (const char c : line) c == ',' ? cells.emplace_back("") : cells.back() += c;
    ASSERT_EQ(cells.size(), 4u) << line;
    rows[cells[0]] = {cells[1], cells[2], cells[3]};
  }
  EXPECT_EQ(rows["part"], (std::vector<std::string>{"seconds", "bytes", "count"}));
  for (const char* part : {"building", "set-up", "training", "report"}) {
    ASSERT_EQ(rows.count(part), 1u) << part;
    EXPECT_GT(std::stod(rows[part][0]), 0) << part;
    EXPECT_LT(std::stod(rows[part][0]), 60) << part;
  }
  EXPECT_GT(std::stoll(rows["simulation's process"][1]), 1 << 20);
  EXPECT_EQ(rows["ranks of the job"][2], "2");
  EXPECT_EQ(rows["ranks simulated"][2], "1");  // folded
  EXPECT_EQ(rows["attempts"][2], "1");
  EXPECT_GT(std::stoll(rows["planned communications"][2]), 0);
  EXPECT_EQ(rows["communications"][2], "0");            // alone on the network, their times are known
  EXPECT_EQ(rows["classes of flows at most"][2], "1");  // all flows of a phase are alike

  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("run"))), 0) << err_;
  EXPECT_FALSE(fs::exists(At("run/simulate.csv")));
  EXPECT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --profile-simulator --out=", At("run"))), 2);
  EXPECT_THAT(err_, HasSubstr("--profile-simulator: fabric in_memory measures"));
}

TEST_F(Program, WritesToRunsByDefault) {
  const std::string spec = Write("small.textproto", kSmall);
  const std::string here = fs::current_path().string();
  const std::string program =
      StrCat("cd ", folder_.string(), " && mkdir tests && ln -s ", here, "/tests/integration tests/ && ");
  const std::string command = StrCat(program, TWOFOLD_PROGRAM, " run small.textproto --quiet >stdout 2>stderr");
  ASSERT_EQ(RunShell(command), 0) << ReadAll(At("stderr"));
  EXPECT_EQ(Report(At("runs/small-simulated"))["predicted"], true);
}

// Promise 5. The third run is of the spec that the first one wrote. What the simulation itself cost differs.
TEST_F(Program, PredictsTheSameBytesTwice) {
  const std::string spec = Write("small.textproto", kSmall);
  for (const char* data : {"SYMBOLIC", "REAL"}) {
    const std::string set = StrCat(" --set=fabric.simulated.data=", data);
    ASSERT_EQ(Run(StrCat("run ", spec, set, " --out=", At("a"))), 0) << err_;
    ASSERT_EQ(Run(StrCat("run ", spec, set, " --out=", At("b"))), 0) << err_;
    ASSERT_EQ(Run(StrCat("run ", At("a"), "/spec.textproto --out=", At("c"))), 0) << err_;
    int files = 0;
    for (const fs::directory_entry& file : fs::directory_iterator(At("a"))) {
      const std::string name = file.path().filename().string(), text = ReadAll(file.path());
      if (name == "simulate.csv") continue;
      EXPECT_EQ(text, ReadAll(StrCat(At("b"), "/", name))) << data << " " << name;
      EXPECT_EQ(text, ReadAll(StrCat(At("c"), "/", name))) << data << " " << name;
      ++files;
    }
    EXPECT_EQ(files, 11);
    EXPECT_LT(Report(At("a"))["low"], Report(At("a"))["median_step_seconds"]);
  }
}

TEST_F(Program, HasNoLossWhereTheHostReadNone) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --set=train.steps=5 --out=", At("all"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec,
                       " --fabric=in_memory --set=train.steps=5 --set=train.report_loss_every=3 --out=", At("some"))),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("loss, first to last"));
  const nlohmann::json all = Report(At("all")), some = Report(At("some"));
  for (size_t step = 0; step < 5; ++step) {
    const bool read = step == 2 || step == 4;
    ASSERT_EQ(some["steps"][step].contains("loss"), read) << "step " << step;
    if (read) {
      EXPECT_EQ(some["steps"][step]["loss"], all["steps"][step]["loss"]) << "step " << step;
    }
  }
  EXPECT_THAT(some["notes"].dump(), HasSubstr("train.report_loss_every"));
  EXPECT_THAT(all["notes"].dump(), Not(HasSubstr("train.report_loss_every")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("all"), " ", At("some"))), 0) << err_;
  const nlohmann::json values = nlohmann::json::parse(out_)["values"];
  EXPECT_EQ(values.back()["name"], "final loss");
  EXPECT_EQ(values.back()["predicted"], values.back()["measured"]);
  EXPECT_EQ(Run(StrCat("report ", At("some"))), 0) << err_;
}

TEST_F(Program, SaysThatSymbolicLossesAreStandIns) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --notes=full --out=", At("a"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("stand-in"));
  EXPECT_NEAR(Report(At("a"))["steps"][0]["loss"].get<double>(), std::log(4.0), 1e-12);
  ASSERT_EQ(Run(StrCat("run ", spec, " --set=fabric.simulated.data=REAL --out=", At("b"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("stand-in")));
}

TEST_F(Program, PredictsThatMemoryRunsOut) {
  const std::string spec = Write("big.textproto",
                                 "model { preset: \"gpt2-1.5b\" }\n"
                                 "train { steps: 1 micro_batch: 64 }\n"
                                 "fabric { simulated { cluster: \"star-a100\" } }\nparallel { dp: 2 }\n");
  EXPECT_EQ(Run(StrCat("run ", spec, " --out=", At("run"))), 3) << err_;
  EXPECT_THAT(err_, HasSubstr("out of memory"));
  const nlohmann::json report = Report(At("run"));
  EXPECT_EQ(report["outcome"], "OUT_OF_MEMORY");
  EXPECT_THAT(report["message"].get<std::string>(), HasSubstr("rank"));
  ASSERT_GE(report["ranks"].size(), 1u);
  EXPECT_GT(report["ranks"][0]["peak_bytes"], int64_t{10} << 30);  // it had begun
}

TEST_F(Program, TrainsForEpochsAndRepeatsThemFromTheSpecItWrites) {
  const std::string spec =
      Write("epochs.textproto",
            "model { mlp { inputs: 8 hidden: [24] classes: 5 } }\ndata { synthetic { samples: 100 } }\n"
            "train { epochs: 3 global_batch: 16 micro_batch: 8 validation { fraction: 0.2 } }\nparallel { dp: 2 }\n");
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("run"))), 0) << err_;
  EXPECT_THAT(err_, ContainsRegex("after step 5 of 15: validation loss [0-9.]+, accuracy [0-9.]+ %\n"));
  EXPECT_THAT(out_, HasSubstr("15 steps of 16 samples"));
  EXPECT_THAT(out_, HasSubstr("validation, best"));
  const nlohmann::json report = Report(At("run"));
  EXPECT_EQ(report["steps"].size(), 15u);
  EXPECT_EQ(report["validations"].size(), 3u);
  EXPECT_EQ(report["epochs"], 3.0);
  EXPECT_EQ(report["last"]["step"], 15);
  EXPECT_EQ(report["last"]["perplexity"], nullptr);
  EXPECT_THAT(ReadAll(At("run") + "/validation.csv"), HasSubstr("\n5,"));
  ASSERT_EQ(Run(StrCat("run ", At("run"), "/spec.textproto --quiet --out=", At("again"))), 0) << err_;
  nlohmann::json again = Report(At("again"));
  for (size_t v = 0; v < 3; ++v) EXPECT_EQ(again["validations"][v]["loss"], report["validations"][v]["loss"]);
  EXPECT_EQ(ReadAll(At("again") + "/spec.textproto"), ReadAll(At("run") + "/spec.textproto"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=train.validation.fraction=0.999 --set=train.steps=5")), 2);
  EXPECT_THAT(err_, HasSubstr("both set the length of training"));
  ASSERT_EQ(Run(StrCat("report ", At("run"))), 0) << err_;
  EXPECT_THAT(ReadAll(At("run") + "/report.html"), HasSubstr("validation loss, by validation"));
}

TEST_F(Program, RefusesAFolderThatCannotBeMade) {
  const std::string spec = Write("small.textproto", kSmall), file = Write("occupied", "");
  for (const char* command : {"run ", "memory "}) {
    for (const std::string& out : {file, file + "/run"}) {
      EXPECT_EQ(Run(StrCat(command, spec, " --out=", out)), 2);
      EXPECT_THAT(err_, HasSubstr(StrCat("--out: ", out, ": cannot be created")));
      EXPECT_THAT(out_, IsEmpty());
    }
  }
}

// What a run has found is worth more than its files: it is on stdout before they are written.
TEST_F(Program, PrintsTheSummaryWhereTheReportCannotBeWritten) {
  const std::string spec = Write("small.textproto", kSmall);
  fs::create_directories(At("run"));
  fs::create_symlink("/dev/full", At("run/report.json.part"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("run"))), 1);
  EXPECT_THAT(out_, AllOf(HasSubstr("step time"), HasSubstr("peak memory"), Not(HasSubstr("report: "))));
  EXPECT_THAT(err_, HasSubstr(StrCat(At("run"), "/report.json.part: cannot be written: No space left on device")));
  EXPECT_FALSE(fs::exists(At("run/steps.csv"))) << "all files or none";
  // A limit of files' size ends no process without a word.
  const int status = std::system(StrCat("( ulimit -f 1; ", TWOFOLD_PROGRAM, " run ", spec,
                                        " --fabric=in_memory --quiet --out=", At("limited"),
                                        " 2>&1; echo status $? ) | cat >", At("both"))
                                     .c_str());
  EXPECT_EQ(status, 0);
  EXPECT_THAT(ReadAll(At("both")),
              AllOf(HasSubstr("step time"), HasSubstr(": cannot be written: File too large"), HasSubstr("status 1")));
}

TEST_F(Program, FindsBeforeTrainingThatCheckpointsHaveNoPlace) {
  const std::string run =
      StrCat("run ", Write("small.textproto", kSmall), " --out=", At("run"), " --set=train.checkpoint.path=");
  EXPECT_EQ(Run(run + "/proc/no/such/place --fabric=in_memory"), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("train.checkpoint.path: /proc/no/such/place: cannot be created: "),
                          HasSubstr("give a folder that this user may write to"), Not(HasSubstr("step"))));
  EXPECT_FALSE(fs::exists(At("run/report.json")));
  EXPECT_EQ(Run(run + At("small.textproto") + "/below --check --fabric=in_memory"), 2);
  EXPECT_THAT(err_, HasSubstr("cannot be created: "));
  EXPECT_EQ(Run(run + At("simulated") + " --fabric=simulated"), 0) << err_;
  EXPECT_FALSE(fs::exists(At("simulated"))) << "nothing is written there without data";
}

// By the program's check of it, for its rank 0, and for all of the others.
TEST_F(Program, OpensACheckpointsManifestOnce) {
  const std::string run = StrCat("run ", Write("small.textproto", kSmall), " --quiet --out=", At("run"),
                                 " --set=parallel.dp=4 --set=train.global_batch=8 ");
  ASSERT_EQ(Run(StrCat(run, "--fabric=in_memory --set=train.checkpoint.path=", At("saved"))), 0) << err_;
  const int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(watch, At("saved/000001-step-4/manifest.json").c_str(), IN_OPEN | IN_CLOSE), 0);
  for (const char* fabric :
       {"--fabric=in_memory", "--fabric=simulated", "--fabric=simulated --set=fabric.simulated.data=REAL"}) {
    ASSERT_EQ(Run(StrCat(run, "--set=train.steps=6 --set=train.resume=", At("saved"), " ", fabric)), 0) << err_;
    EXPECT_EQ(Report(At("run"))["first_step"], 4);
    alignas(inotify_event) char events[1 << 12];
    int opened = 0;
    const ssize_t bytes = read(watch, events, sizeof(events));
    for (ssize_t at = 0; at < bytes; at += static_cast<ssize_t>(sizeof(inotify_event))) {
      opened += (reinterpret_cast<const inotify_event*>(events + at)->mask & IN_OPEN) != 0 ? 1 : 0;
    }
    EXPECT_EQ(opened, 1) << fabric;
  }
  close(watch);
}

TEST_F(Program, PrintsNoControlCharacters) {
  const std::string escape = "\x1b[31m";
  EXPECT_EQ(Run(StrCat("run '", At(escape), "'")), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("/\\x1b[31m: cannot be read"), Not(HasSubstr(escape))));
  EXPECT_EQ(Run(StrCat("run ", Write("binary", std::string("\x7f"
                                                           "ELF\x02\x01\x01\0\x1b[31m",
                                                           13)))),
            2);
  EXPECT_THAT(err_, AllOf(HasSubstr(StrCat(At("binary"), ":1:1: byte 0 is \\x7f, a control character")),
                          Not(HasSubstr("\x7f"))));
  EXPECT_EQ(Run(StrCat("run '--", escape, "'")), 2);
  EXPECT_THAT(err_, Not(HasSubstr(escape)));
}

TEST_F(Program, GoesOnWhereNobodyReadsWhatItPrints) {
  const std::string spec = Write("small.textproto", kSmall);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int ends[2];
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 || dup2(ends[1], STDOUT_FILENO) < 0) _exit(127);
    for (const int end : ends) close(end);
    execl(TWOFOLD_PROGRAM, "twofold", "run", spec.c_str(), StrCat("--out=", At("run")).c_str(), nullptr);
    _exit(127);
  }
  const int status = AwaitProcess(child, "twofold run");
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << status << ": of the summary, as ever";
  EXPECT_EQ(Report(At("run"))["outcome"], "OK");
}

TEST_F(Program, PrintsProgressWithoutABarWhereThereIsNoTerminal) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  EXPECT_THAT(err_, Not(HasSubstr("\r")));
  EXPECT_THAT(err_, HasSubstr("step 1 of 4"));
  EXPECT_THAT(err_, Not(HasSubstr("left"))) << "after one step nobody knows";
}

}  // namespace program_run_test
}  // namespace twofold
