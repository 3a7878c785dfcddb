// The built program as a user meets it: exit statuses, messages, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kSmall[] =
    "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
    "train { steps: 4 micro_batch: 2 }\n"
    "parallel { dp: 2 }\n"
    "fabric { simulated { profile: \"tests/integration/tiny.profile.textproto\" } }\n";

// One for each strategy, as the README's tour lists them.
TEST_F(Program, RunsEveryExample) {
  int examples = 0;
  for (const auto& file : fs::directory_iterator("examples")) {
    if (file.path().extension() != ".textproto") continue;
    const std::string run = StrCat("run ", file.path().string(), " --quiet --set=train.steps=2 --set=train.warmup_steps=1 --out=", At("out"));
    EXPECT_EQ(Run(run), 0) << file.path() << ": " << err_;
    EXPECT_EQ(Run(run + " --fabric=simulated"), 0) << file.path() << ": " << err_;
    ++examples;
  }
  EXPECT_GE(examples, 10);
}

TEST_F(Program, TeachesWithoutArgumentsAndWithHelp) {
  EXPECT_EQ(Run(""), 2);
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_THAT(out_, HasSubstr("tour"));
  for (const char* command : {"run", "memory", "compare", "bench", "list", "calibrate", "report", "schedule"}) {
    EXPECT_EQ(Run(StrCat(command, " --help")), 0) << command;
    EXPECT_THAT(out_, HasSubstr(StrCat("twofold ", command))) << command << " shows no example";
  }
}

TEST_F(Program, StatesItsVersion) {
  EXPECT_EQ(Run("--version"), 0);
  EXPECT_THAT(out_, HasSubstr("twofold 0."));
}

TEST_F(Program, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(Run("jog"), 2);
  EXPECT_THAT(err_, HasSubstr("\"jog\" is no command; use run, memory, launch, compare"));
  EXPECT_EQ(Run("run"), 2);
  EXPECT_EQ(Run("run a.textproto --frabic=simulated"), 2);
  EXPECT_EQ(Run("list flowers"), 2);
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
  EXPECT_THAT(err_, HasSubstr("train.steps"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=train.stops=3")), 2);
  EXPECT_THAT(err_, HasSubstr("did you mean steps"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --fabric=telepathy")), 2);
  EXPECT_THAT(err_, HasSubstr("telepathy"));
  EXPECT_EQ(Run(StrCat("run ", spec, " --check --set=fabric.simulated.cluster=moon")), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat(spec, ": fabric.simulated.cluster")));
  EXPECT_THAT(err_, HasSubstr("moon"));
}

TEST_F(Program, MeasuresAndWritesTheReport) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec,
                       " --fabric=in_memory --set=train.steps=6 --set parallel.dp=3 --out=", At("run"))),
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
  EXPECT_NEAR(report["tokens_per_second"].get<double>() * report["median_step_seconds"].get<double>(), 6,
              1e-9);
  for (const char* name : {"steps.csv", "validation.csv", "memory.csv", "collectives.csv", "trace.json", "spec.textproto"}) {
    EXPECT_TRUE(fs::exists(StrCat(At("run"), "/", name))) << name;
  }
}

TEST_F(Program, WritesToRunsByDefault) {
  const std::string spec = Write("small.textproto", kSmall);
  const std::string here = fs::current_path().string();
  const std::string program =
      StrCat("cd ", folder_.string(), " && mkdir tests && ln -s ", here, "/tests/integration tests/ && ");
  const std::string command =
      StrCat(program, TWOFOLD_PROGRAM, " run small.textproto --quiet >stdout 2>stderr");
  ASSERT_EQ(std::system(command.c_str()), 0) << ReadAll(At("stderr"));
  EXPECT_EQ(Report(At("runs/small-simulated"))["predicted"], true);
}

// Promise 5. The second run is of the spec that the first one wrote.
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
      EXPECT_EQ(text, ReadAll(StrCat(At("b"), "/", name))) << data << " " << name;
      EXPECT_EQ(text, ReadAll(StrCat(At("c"), "/", name))) << data << " " << name;
      ++files;
    }
    EXPECT_EQ(files, 7);
    EXPECT_LT(Report(At("a"))["low"], Report(At("a"))["median_step_seconds"]);
  }
}

TEST_F(Program, SaysThatSymbolicLossesAreStandIns) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("a"))), 0) << err_;
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

TEST_F(Program, TellsMemoryAlone) {
  const std::string spec = Write("gpt.textproto",
                                 "model { gpt { layers: 3 hidden: 64 heads: 4 sequence: 32 } }\n"
                                 "train { steps: 1000 micro_batch: 4 precision { parameter: BF16 } }\n"
                                 "parallel { dp: 4 sharding: ZERO_2 }\nfabric { simulated { cluster: \"star-a100\" } }\n");
  ASSERT_EQ(Run(StrCat("memory ", spec, " --out=", At("memory"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits (A100-80GB SXM: 80,000,000,000 bytes)"));
  EXPECT_THAT(out_, HasSubstr("each of ranks 0 to 3"));
  EXPECT_THAT(out_, HasSubstr("12 psi / 4"));
  EXPECT_THAT(out_, HasSubstr("34 + 5 a s / h"));
  const nlohmann::json memory = nlohmann::json::parse(ReadAll(At("memory/memory.json")));
  EXPECT_EQ(memory["fits"], true);
  EXPECT_EQ(memory["world_size"], 4);
  EXPECT_LE(memory["ranks"][0]["steps_replayed"], 4);
  EXPECT_EQ(memory["model_states"][1]["formula_bytes"], memory["parameters"].get<double>() * 2 / 4);
  ASSERT_EQ(Run(StrCat("run ", At("memory"), "/spec.textproto --quiet --set=train.steps=5 --out=", At("run"))), 0) << err_;
  EXPECT_EQ(Report(At("memory"))["ranks"], Report(At("run"))["ranks"]);
  EXPECT_EQ(Report(At("memory"))["steps"].size(), 0u);
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=parallel.dp=zwei")), 2);
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=fabric.simulated.cluster=moon")), 2);
  EXPECT_THAT(err_, HasSubstr("moon"));
}

TEST_F(Program, TellsHowMemoryRunsOut) {
  const std::string spec = Write("big.textproto",
                                 "model { preset: \"gpt2-1.5b\" }\n"
                                 "train { steps: 1 micro_batch: 64 }\n"
                                 "fabric { simulated { cluster: \"star-a100\" } }\nparallel { dp: 2 }\n");
  EXPECT_EQ(Run(StrCat("memory ", spec, " --out=", At("memory"))), 3);
  EXPECT_THAT(out_, HasSubstr("It does not fit"));
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("run"))), 3);
  EXPECT_THAT(err_, HasSubstr("out of memory"));
  EXPECT_EQ(Report(At("memory"))["message"], Report(At("run"))["message"]);
  EXPECT_EQ(Report(At("memory"))["outcome"], "OUT_OF_MEMORY");
  EXPECT_EQ(Report(At("memory"))["ranks"][0], Report(At("run"))["ranks"][0]);
  const nlohmann::json memory = nlohmann::json::parse(ReadAll(At("memory/memory.json")));
  EXPECT_GT(memory["ranks"][0]["reserved_bytes"], int64_t{80'000'000'000}) << "what it would need";
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=memory.budget_mib=1 --set=train.micro_batch=1")), 3);
  EXPECT_THAT(err_, HasSubstr("rank 0: out of memory: asked for"));
}

TEST_F(Program, TrainsForEpochsAndRepeatsThemFromTheSpecItWrites) {
  const std::string spec = Write("epochs.textproto",
                                 "model { mlp { inputs: 8 hidden: [24] classes: 5 } }\ndata { synthetic { samples: 100 } }\n"
                                 "train { epochs: 3 global_batch: 16 micro_batch: 8 validation { fraction: 0.2 } }\nparallel { dp: 2 }\n");
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("run"))), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("after step 5 of 15: validation loss "));
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
  EXPECT_THAT(err_, HasSubstr("are two lengths"));
  ASSERT_EQ(Run(StrCat("report ", At("run"))), 0) << err_;
  EXPECT_THAT(ReadAll(At("run") + "/report.html"), HasSubstr("validation loss, by validation"));
}

TEST_F(Program, RefusesAFolderThatCannotBeMade) {
  const std::string spec = Write("small.textproto", kSmall), file = Write("occupied", "");
  EXPECT_EQ(Run(StrCat("run ", spec, " --out=", file, "/run")), 2);
  EXPECT_THAT(err_, HasSubstr("occupied/run"));
}

// An interrupted run reports what it has done.
class InterruptedProgram : public Program, public testing::WithParamInterface<std::pair<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Fabrics, InterruptedProgram,
                         testing::Values(std::pair("in_memory", "device=CPU"), std::pair("simulated", "device=CPU"),
                                         std::pair("in_memory", "device=EMULATED"),
                                         std::pair("in_memory", "train.validation={every_steps: 1 batch: 64}")));

TEST_P(InterruptedProgram, ReportsWhatWasDone) {
  const std::string fabric = StrCat("--fabric=", GetParam().first), set = StrCat("--set=", GetParam().second);
  const std::string spec = Write("long.textproto",
                                 "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
                                 "train { steps: 2000000 micro_batch: 2 }\nparallel { dp: 2 }\n");
  int status = 0;
  // An interrupt that comes before the run has begun kills the program as usual: then it is given more time.
  for (int wait_ms = 200; wait_ms < 20000; wait_ms *= 2) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (freopen(At("stderr").c_str(), "w", stderr) == nullptr ||
          freopen(At("stdout").c_str(), "w", stdout) == nullptr)
        _exit(127);
      execl(TWOFOLD_PROGRAM, "twofold", "run", spec.c_str(), fabric.c_str(), set.c_str(),
            StrCat("--out=", At("run")).c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
    kill(child, SIGINT);
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) break;
  }
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1) << ReadAll(At("stderr"));
  const nlohmann::json report = Report(At("run"));
  EXPECT_EQ(report["outcome"], "INTERRUPTED");
  EXPECT_GT(report["steps"].size(), 0u);
  EXPECT_LT(report["steps"].size(), 2000000u);
  EXPECT_EQ(report["ranks"].size(), 2u);
}

// What calibration writes is what the simulated fabric reads, and kernels of a small model are among it.
TEST_F(Program, CalibratesThisMachineForPredictions) {
  ASSERT_EQ(Run(StrCat("calibrate --quick --out=", At("profile.textproto"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("matmul_nt"));
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"), " --set=fabric.simulated.profile=", At("profile.textproto"))), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("calibration: "));
  const nlohmann::json report = Report(At("p"));
  EXPECT_GT(report["median_step_seconds"], 0);
  EXPECT_LE(report["low"], report["median_step_seconds"]);
  EXPECT_GE(report["high"], report["median_step_seconds"]);

  EXPECT_EQ(Run("calibrate --device=abacus"), 2);
  EXPECT_THAT(err_, HasSubstr("abacus"));
  const std::string nowhere = Write("file", "") + "/profile.textproto";  // known before anything is measured
  EXPECT_EQ(Run(StrCat("calibrate --out=", nowhere)), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", nowhere, ": cannot be written")));
  EXPECT_THAT(err_, Not(HasSubstr("warming up")));
  EXPECT_EQ(Run(StrCat("run ", spec, " --out=", At("p"), " --set=fabric.simulated.profile=", Write("x.textproto", "name: 3"))),
            2);
  EXPECT_THAT(err_, HasSubstr("x.textproto"));
}

TEST_F(Program, ComparesAPredictionWithAMeasurement) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  for (const char* row :
       {"step time", "samples a second", "exposed communication", "peak memory", "reserved memory",
        "final loss", "stand-in", "all_reduce", "is made of", "predicted interval"}) {
    EXPECT_THAT(out_, HasSubstr(row));
  }
  EXPECT_THAT(out_, Not(HasSubstr("differ")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"))), 0) << err_;
  const nlohmann::json json = nlohmann::json::parse(out_);
  const nlohmann::json& peak = json["values"][3];
  EXPECT_EQ(peak["name"], "peak memory");
  EXPECT_EQ(peak["predicted"], peak["measured"]);
  EXPECT_EQ(peak["error"], 0);
  for (const char* side : {"predicted", "measured"}) {
    double parts = 0;
    for (const nlohmann::json& part : json["step_parts"]) parts += part[side].get<double>();
    EXPECT_NEAR(parts, json["values"][0][side].get<double>(), 1e-12);
  }

  EXPECT_EQ(Run(StrCat("compare ", At("m"), " ", At("p"))), 2);
  EXPECT_THAT(err_, HasSubstr("prediction first"));

  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"), " ", At("m"))), 0) << err_;
  const std::string header = out_.substr(0, out_.find('\n'));
  EXPECT_THAT(header, testing::ContainsRegex("predicted +measured +error +measured +error$"));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_).size(), 2u);
  EXPECT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"), " ", At("nothing"))), 2);
}

TEST_F(Program, SaysWhenTheTwoRunsDiffer) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec,
                       " --fabric=in_memory --set=model.mlp.hidden=32 --set=train.steps=3 --out=", At("m"))),
            0);
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("their specs differ in model, train"));
  EXPECT_THAT(out_, HasSubstr("bytes differ on ranks 0, 1"));
}

TEST_F(Program, PrintsAndDrawsSchedules) {
  ASSERT_EQ(Run(StrCat("schedule GPIPE ONE_F_ONE_B --stages=2 --micro-batches=4 --out=", At("s.svg"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("ONE_F_ONE_B: 15 forward passes long, bubble 20.0 %"));
  EXPECT_THAT(out_, HasSubstr("stage 0, at most 4 in flight: F0 F1 F2 F3 B3"));
  EXPECT_THAT(out_, HasSubstr("stage 1, at most 1 in flight: F0 B0 F1 B1 F2 B2 F3 B3"));
  EXPECT_THAT(ReadAll(At("s.svg")), HasSubstr("micro-batch 3"));
  ASSERT_EQ(Run("schedule"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("F3.1"));
  EXPECT_THAT(out_, HasSubstr("ZERO_BUBBLE_H1: 27 forward passes long"));
  EXPECT_EQ(Run("schedule ONE_B_ONE_F"), 2);
  EXPECT_THAT(err_, HasSubstr("\"ONE_B_ONE_F\" is no schedule; use GPIPE"));
  EXPECT_EQ(Run("schedule --stages=0"), 2);
  EXPECT_THAT(err_, HasSubstr("--stages=0: use a whole number from 1 to 4096"));
  EXPECT_EQ(Run("schedule --micro-batches=7"), 2);
  EXPECT_THAT(err_, HasSubstr("INTERLEAVED_ONE_F_ONE_B: "));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(Run("schedule INTERLEAVED_ONE_F_ONE_B --stages=4 --micro-batches=6"), 2);
}

TEST_F(Program, BenchesThreadsAndChecksWhatTheyHold) {
  ASSERT_EQ(Run("bench all_reduce --ranks=3 -b 8 -e 64K -f 8 -n 2 -w 1"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("all_reduce on in_memory: 3 ranks, measured"));
  EXPECT_THAT(out_, HasSubstr("#wrong"));
  EXPECT_THAT(out_, HasSubstr("\n       32768          8192     float     sum      -1 "));
  EXPECT_THAT(out_, HasSubstr("# Out of bounds values : 0 OK"));
  EXPECT_THAT(err_, IsEmpty());
  for (const char* operation : {"all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "send_recv"}) {
    ASSERT_EQ(Run(StrCat("bench ", operation, " --json -d bfloat16 -b 64 -e 4K -f 8 -n 2 -w 1 --out=", At("rows.csv"))), 0) << err_;
    const nlohmann::json json = nlohmann::json::parse(out_);
    EXPECT_EQ(json["out_of_bounds"], 0) << operation;
    ASSERT_EQ(json["results"].size(), 3u) << operation;
    EXPECT_EQ(json["results"][2]["size"], 4096) << operation;
    const std::string csv = ReadAll(At("rows.csv"));
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4) << csv;
  }
}

// Ring: 2 (N - 1) rounds of 2 us, and 2 (N - 1)/N of the bytes at 25 GB/s (the catalogue's star-a100).
TEST_F(Program, BenchesASimulatedRingByItsClosedForm) {
  constexpr char kRing[] = "bench all_reduce --json --fabric=simulated --cluster=star-a100 --algorithm=ring -b 1K -e 1G -f 32";
  for (int n : {2, 3, 8, 100}) {
    ASSERT_EQ(Run(StrCat(kRing, " --ranks=", n)), 0) << err_;
    const nlohmann::json json = nlohmann::json::parse(out_);
    EXPECT_EQ(json["predicted"], true);
    EXPECT_TRUE(json["out_of_bounds"].is_null());
    ASSERT_EQ(json["results"].size(), 5u);
    for (const nlohmann::json& row : json["results"]) {
      const double bytes = row["size"], share = 2.0 * (n - 1) / n;
      const double seconds = 2 * (n - 1) * 2e-6 + share * bytes / 25e9, busbw = share * bytes / seconds / 1e9;
      EXPECT_NEAR(row["in_place"]["time"].get<double>(), seconds * 1e6, seconds * 1e6 * 1e-6) << n << " ranks, " << bytes;
      EXPECT_NEAR(row["in_place"]["bus_bw"].get<double>(), busbw, busbw * 1e-6) << n << " ranks, " << bytes;
    }
  }
}

TEST_F(Program, BenchesTheSameBytesTwice) {
  for (const char* operation : {"all_reduce", "broadcast", "gather", "all_to_all", "send_recv"}) {
    const std::string command = StrCat("bench ", operation, " --fabric=simulated --cluster=star-a100 --ranks=16 -e 1G");
    ASSERT_EQ(Run(command), 0) << err_;
    const std::string first = out_;
    ASSERT_EQ(Run(command), 0) << err_;
    EXPECT_EQ(out_, first);
    EXPECT_THAT(first, HasSubstr("\n  1073741824 "));
  }
}

// Whatever the algorithm, nothing goes through a rank's link of 25 GB/s faster than that.
TEST_F(Program, BenchesNoFasterThanTheLink) {
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter",
                                "all_to_all", "send_recv"}) {
    const std::string command = StrCat("bench ", operation, " --json --fabric=simulated --cluster=star-a100");
    ASSERT_EQ(Run(StrCat(command, " --ranks=12 -b 1G -e 1G")), 0) << err_;
    const nlohmann::json row = nlohmann::json::parse(out_)["results"].at(0);
    for (const char* form : {"out_of_place", "in_place"}) {
      if (row[form].is_null()) continue;
      EXPECT_LE(row[form]["bus_bw"].get<double>(), 25.0 * (1 + 1e-9)) << operation;
      EXPECT_GE(row[form]["bus_bw"].get<double>(), 12) << operation;
    }
  }
}

TEST_F(Program, RefusesABenchByTheOption) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"", "OPERATION"}, {"all_sing", "all_sing"}, {"all_reduce -b 12Q", "--minbytes"},
      {"all_reduce -e 1", "--maxbytes"},           {"all_reduce -f 1", "--stepfactor"},
      {"all_reduce -n x", "--iters"},              {"all_reduce --op=xor", "--op"},
      {"all_reduce --protocol=LL128", "--protocol"}, {"all_reduce --fabric=telepathy", "in_memory"},
      {"all_reduce --cluster=star-a100", "--cluster"}, {"gather --fabric=simulated --algorithm=ring", "--algorithm"},
      {"all_reduce --fabrik=simulated", "--fabrik"}};
  for (const auto& [arguments, name] : kWrong) {
    EXPECT_EQ(Run(StrCat("bench ", arguments)), 2) << arguments;
    EXPECT_THAT(err_, HasSubstr(name)) << arguments;
    EXPECT_THAT(out_, IsEmpty()) << arguments;
  }
}

// Where an allocation fails, what was done before is shown.
TEST_F(Program, ReportsABenchThatRunsOutOfMemory) {
  const std::string command = StrCat("ulimit -v 16000000 && ", TWOFOLD_PROGRAM, " bench all_reduce -b 1K -e 32G -f 33554432 >",
                                     At("stdout"), " 2>", At("stderr"));
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("out of memory: asked for 34359738368 bytes"));
  EXPECT_THAT(ReadAll(At("stdout")), HasSubstr("\n        1024 "));
}

TEST_F(Program, NamesTheFolderWithoutAReport) {
  fs::create_directory(At("empty"));
  EXPECT_EQ(Run(StrCat("compare ", At("empty"), " ", At("none"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat(At("empty"), "/report.json")));
}

TEST_F(Program, ListsWhatASpecCanName) {
  EXPECT_EQ(Run("list models"), 0);
  EXPECT_THAT(out_, HasSubstr("405,853,388,800 parameters"));
  EXPECT_THAT(out_, HasSubstr("gpt2-124m"));
  EXPECT_EQ(Run("list clusters"), 0);
  EXPECT_THAT(out_, HasSubstr("this-machine"));
  EXPECT_EQ(Run("list strategies"), 0);
  EXPECT_THAT(out_, HasSubstr("NO_SHARD"));
  EXPECT_EQ(Run("list fabrics"), 0);
  EXPECT_THAT(out_, HasSubstr("in_memory"));
  EXPECT_THAT(out_, HasSubstr("simulated"));
  EXPECT_EQ(Run("list"), 2);
}

TEST_F(Program, PrintsProgressWithoutABarWhereThereIsNoTerminal) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  EXPECT_THAT(err_, Not(HasSubstr("\r")));
}

}  // namespace
}  // namespace twofold
