// The other commands as a user meets them: memory, calibrate, compare, report, schedule, topology, bench.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_tools_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

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
  EXPECT_THAT(err_, Not(HasSubstr("by category")));  // it holds nothing yet
}

// Of a machine's CPU, whose memory all ranks share, it is known; of hosts that a launcher will name, or a GPU elsewhere, not.
TEST_F(Program, TellsWhetherMemoryFitsAsFarAsIsKnown) {
  const std::string small = StrCat("memory ", Write("small.textproto", kSmall), " --out=", At("memory"));
  const std::string huge = StrCat("memory ", Write("huge.textproto", "model { preset: \"gpt3-175b\" }\ntrain { steps: 1 micro_batch: 1 }\n"), " --out=", At("memory"));
  const auto fits = [this] { return nlohmann::json::parse(ReadAll(At("memory/memory.json")))["fits"]; };
  for (const char* fabric : {" --fabric=in_memory", " --fabric=simulated", " --fabric=in_memory --set=device=EMULATED"}) {
    EXPECT_EQ(Run(small + fabric), 0) << err_;
    EXPECT_THAT(out_, ::testing::ContainsRegex("It fits this machine: its 2 ranks reserve [0-9,]+ bytes, and this machine has [0-9,]+")) << fabric;
    EXPECT_EQ(fits(), true);
    EXPECT_EQ(Run(huge + fabric), 3) << fabric;
    EXPECT_THAT(out_, HasSubstr("It does not fit this machine: its rank reserves 2,"));
    EXPECT_THAT(err_, HasSubstr("OUT_OF_MEMORY: its rank reserves "));
    EXPECT_EQ(fits(), false);
    EXPECT_EQ(Report(At("memory"))["outcome"], "OUT_OF_MEMORY");
  }
  EXPECT_EQ(Run(huge + " --fabric=in_memory --set=memory.budget_mib=1e9"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits (memory.budget_mib: 1,048,576,000,000,000 bytes)"));
  EXPECT_EQ(Run(small + " --fabric=mpi"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It fits if all ranks are on this machine: its 2 ranks reserve "));
  EXPECT_EQ(Run(huge + " --fabric=mpi"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It is not known whether it fits: its rank reserves 2,"));
  EXPECT_EQ(fits(), nullptr);
  ASSERT_EQ(Run("list devices"), 0);
  if (out_.find("not available") == std::string::npos) return;
  EXPECT_EQ(Run(huge + " --fabric=in_memory --set=device=CUDA"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("It is not known whether it fits: "));
  EXPECT_THAT(out_, HasSubstr("; set memory.budget_mib, or a cluster with --fabric=simulated"));
}

// What `memory` says of ranks that share this machine, a simulated run of them says, too: of one rank, and of many small ones that
// are folded or not.
TEST_F(Program, PredictsThatThisMachinesMemoryRunsOut) {
  const std::string huge = Write("huge.textproto", "model { preset: \"gpt3-175b\" }\ntrain { steps: 1 micro_batch: 1 }\nfabric { simulated {} }\n");
  const std::string many = Write("many.textproto", "model { preset: \"gpt2-1.5b\" }\ntrain { steps: 1 micro_batch: 1 }\nparallel { dp: 1024 }\nfabric { simulated {} }\n");
  const std::pair<std::string, std::string> kRuns[] = {
      {huge, "rank 0: out of this machine's memory \\([0-9]+ bytes for 1 rank\\): asked for [0-9]+ bytes of .* with [0-9]+ live"},
      {many, "rank 0: out of this machine's memory \\([0-9]+ bytes for 1024 ranks\\): asked for"},
      {many + " --set=fabric.simulated.folding=OFF", "rank [0-9]+: out of this machine's memory \\([0-9]+ bytes for 1024 ranks\\): asked for"}};
  for (const auto& [arguments, message] : kRuns) {
    EXPECT_EQ(Run(StrCat("memory ", arguments)), 3) << arguments;
    EXPECT_THAT(err_, HasSubstr("and this machine has ")) << arguments;
    EXPECT_EQ(Run(StrCat("run --quiet --out=", At("run"), " ", arguments)), 3) << arguments;
    EXPECT_EQ(Report(At("run"))["outcome"], "OUT_OF_MEMORY") << arguments;
    EXPECT_THAT(Report(At("run"))["message"].get<std::string>(), ::testing::ContainsRegex(message)) << arguments;
  }
  for (const char* command : {"memory", "run --quiet"}) {
    EXPECT_EQ(Run(StrCat(command, " --out=", At("run"), " --set=memory.budget_mib=1e9 ", huge)), 0) << err_;
  }
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
  if (fs::exists("/proc/thread-self/schedstat")) {
    EXPECT_THAT(ReadAll(At("profile.textproto")), HasSubstr("\nload {\n  taken: "));
    EXPECT_TRUE(report.contains("load"));
    EXPECT_THAT(report["notes"].dump(), HasSubstr("; while it was calibrated other work held it up for up to "));
  }
  EXPECT_GT(report["median_step_seconds"], 0);
  EXPECT_LE(report["low"], report["median_step_seconds"]);
  EXPECT_GE(report["high"], report["median_step_seconds"]);

  EXPECT_EQ(Run("calibrate --device=abacus"), 2);
  EXPECT_THAT(err_, HasSubstr("abacus"));
  EXPECT_EQ(Run("calibrate --gpu=1"), 2);
  EXPECT_THAT(err_, HasSubstr("--gpu=1: is for --device=cuda"));
  EXPECT_EQ(Run("calibrate --time-algorithms"), 2);
  EXPECT_THAT(err_, HasSubstr("--time-algorithms: is for --device=cuda"));
  EXPECT_EQ(Run("calibrate --fabric=nccl"), 2);
  EXPECT_THAT(err_, HasSubstr("--fabric=nccl: is not calibrated"));
  for (const std::string& nowhere : {Write("file", "") + "/profile.textproto", std::string("/proc/profile")}) {
    EXPECT_EQ(Run(StrCat("calibrate --out=", nowhere)), 2);
    EXPECT_THAT(err_, HasSubstr(StrCat("--out=", nowhere, ": cannot be written")));
    EXPECT_THAT(err_, Not(HasSubstr("warming up")));  // known before anything is measured
  }
  fs::create_directory(At("folder"));
  EXPECT_EQ(Run(StrCat("calibrate --out=", At("folder"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", At("folder"), ": cannot be written: it is a folder")));
  EXPECT_FALSE(fs::exists(At("folder.fit")));
  EXPECT_EQ(Run("calibrate --fabric=mpi --cluster=star-a100 --cluster-out=" + At("folder")), 2);
  EXPECT_THAT(err_, ::testing::AnyOf(HasSubstr(StrCat("--cluster-out=", At("folder"), ": cannot be written: it is a folder")), HasSubstr("has no MPI")));
  EXPECT_EQ(Run(StrCat("run ", spec, " --out=", At("p"), " --set=fabric.simulated.profile=", Write("x.textproto", "name: 3"))),
            2);
  EXPECT_THAT(err_, HasSubstr("x.textproto"));
}

// Where no file may grow beyond a few blocks, as on a full disk. Nothing is measured.
TEST_F(Program, CalibrationFindsOutAboutAFullDiskBeforeItMeasures) {
  const std::string limited = StrCat("trap '' XFSZ; ulimit -f 64; exec ", TWOFOLD_PROGRAM, " calibrate --quick --out=", At("profile"), " >/dev/null 2>", At("err"));
  Write("limited.sh", limited);
  const int status = std::system(StrCat("sh ", At("limited.sh")).c_str());
  const std::string err = ReadAll(At("err"));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status << err;
  EXPECT_THAT(err, HasSubstr(StrCat("--out=", At("profile"), ": cannot be written: no room for 4194304 bytes (")));
  EXPECT_THAT(err, Not(HasSubstr("warming up")));
  for (const auto& entry : fs::directory_iterator(folder_)) EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("limited.sh", "err"));
}

// What `cmake` is asked for, by a quickstart in a tree of its own where all that it starts is a stand-in.
TEST_F(Program, QuickstartBuildsWithoutCudaWhereThereIsNoGpu) {
  const auto script = [this](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(At(name)).parent_path());
    Write(name, StrCat("#!/bin/sh\n", text, "\n"));
    fs::permissions(At(name), fs::perms::owner_all);
  };
  script("bin/dpkg-query", "echo install ok installed");
  script("bin/cmake", StrCat("echo \"$@\" >> ", At("asked"), "; exit 1"));
  for (const char* file : {"experiments/quickstart.sh", "scripts/setup.sh"}) {
    fs::create_directories(fs::path(At(StrCat("tree/", file))).parent_path());
    fs::copy_file(file, At(StrCat("tree/", file)));
  }
  const auto asked = [this](const std::string& environment) {
    fs::remove(At("asked"));
    const std::string command = StrCat("env -u TWOFOLD_CUDA PATH=", At("bin"), ":$PATH ", environment, " bash ", At("tree/experiments/quickstart.sh"), " >", At("out"), " 2>&1");
    EXPECT_NE(std::system(command.c_str()), 0);
    return ReadAll(At("asked"));
  };
  script("bin/nvidia-smi", "exit 9");
  if (!fs::exists("/dev/nvidia0")) {
    EXPECT_EQ(asked(""), "--preset release -DTWOFOLD_CUDA=OFF\n") << ReadAll(At("out"));
    EXPECT_THAT(ReadAll(At("out")), HasSubstr("There is no GPU here: without CUDA. To add it"));
  }
  EXPECT_EQ(asked("TWOFOLD_CUDA=ON"), "--preset release -DTWOFOLD_CUDA=ON\n");
  EXPECT_THAT(ReadAll(At("out")), Not(HasSubstr("no GPU")));
  script("bin/nvidia-smi", "echo GPU 0");
  EXPECT_EQ(asked(""), "--preset release\n");
  script("bin/nvidia-smi", "exit 9");
  fs::create_directories(At("tree/build/release"));
  Write("tree/build/release/CMakeCache.txt", "");
  EXPECT_EQ(asked(""), "--preset release\n") << "what has been configured is used";
}

TEST_F(Program, LeavesNothingWhereCalibrationIsInterrupted) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::signal(signal, SIG_DFL);  // nohup may have started the test
      if (freopen(At("stderr").c_str(), "w", stderr) == nullptr || freopen("/dev/null", "w", stdout) == nullptr) _exit(127);
      execl(TWOFOLD_PROGRAM, "twofold", "calibrate", "--quick", StrCat("--out=", At("profile")).c_str(), nullptr);
      _exit(127);
    }
    AwaitThat([&] { return ReadAll(At("stderr")).find("part 1 of") != std::string::npos; }, "part 1 of the calibration");
    kill(child, signal);
    const int status = AwaitProcess(child, "twofold calibrate");
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << ReadAll(At("stderr"));
    fs::remove(At("stderr"));
    EXPECT_TRUE(fs::is_empty(folder_)) << *fs::directory_iterator(folder_);
  }
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
  EXPECT_THAT(header, ::testing::ContainsRegex("predicted +measured +error +measured +error$"));
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
  EXPECT_THAT(out_, ::testing::StartsWith("Note: the two runs did not do the same: their specs differ in model, train\n"));
  EXPECT_THAT(out_, Not(HasSubstr("bytes differ"))) << "they are of different models";
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_)["interval"]["inside"], nullptr);
}

// Of one job they should be equal, whatever fabrics they ran on; of runs that ended early, or had other budgets, they need not.
TEST_F(Program, SaysWhenOneJobsMemoryDiffers) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  const auto with_peak = [this](const std::string& folder, int64_t peak, const std::string& outcome) {
    nlohmann::json report = Report(folder);
    report["ranks"][1]["peak_bytes"] = peak, report["outcome"] = outcome;
    std::ofstream(folder + "/report.json") << report.dump();
  };
  with_peak(At("m"), 512, "OK");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, ::testing::StartsWith("Note: peak or reserved bytes differ on rank 1: on one kind of device they should be equal\n"));
  with_peak(At("m"), 512, "INTERRUPTED");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --set=memory.budget_mib=1000 --out=", At("m"))), 0) << err_;
  with_peak(At("m"), 512, "OK");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
}

// What the columns are is said of each run; two of a kind judge nothing.
TEST_F(Program, ComparesTwoPredictions) {
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("p"))), 0) << err_;
  EXPECT_THAT(out_, ::testing::ContainsRegex("^small +predicted +predicted +difference\n"));
  EXPECT_THAT(out_, Not(HasSubstr("measured")));
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
  EXPECT_THAT(out_, Not(HasSubstr("0.00 ns")));
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
  EXPECT_THAT(err_, HasSubstr("\"ONE_B_ONE_F\" is no schedule; did you mean ONE_F_ONE_B? (known: GPIPE, "));
  EXPECT_EQ(Run("schedule --stages=0"), 2);
  EXPECT_THAT(err_, HasSubstr("--stages=0: use a whole number from 1 to 4096"));
  EXPECT_EQ(Run("schedule INTERLEAVED_ONE_F_ONE_B --stages=4 --micro-batches=6"), 2);
  EXPECT_THAT(err_, HasSubstr("INTERLEAVED_ONE_F_ONE_B: "));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(Run("schedule GPIPE --virtual-stages=3"), 2);
  EXPECT_THAT(err_, HasSubstr("--virtual-stages=3: is of INTERLEAVED_ONE_F_ONE_B alone"));
  EXPECT_EQ(Run(StrCat("schedule --out=", folder_.string())), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", folder_.string(), ": cannot be written")));
  EXPECT_EQ(out_, "");
}

// Those that do not fit are left out where none was named.
TEST_F(Program, DrawsTheSchedulesThatFit) {
  ASSERT_EQ(Run(StrCat("schedule --stages=2 --micro-batches=3 --out=", At("s.svg"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("GPIPE: "));
  EXPECT_THAT(out_, HasSubstr("ZERO_BUBBLE_H1: "));
  EXPECT_THAT(out_, Not(HasSubstr("INTERLEAVED")));
  EXPECT_THAT(err_, HasSubstr("left out: INTERLEAVED_ONE_F_ONE_B: an interleaved schedule needs a multiple of its 2 stages"));
  EXPECT_TRUE(fs::exists(At("s.svg")));
}

TEST_F(Program, RefusesATopologyByTheOption) {
  const std::string folder = folder_.string(), xml = "tests/data/topologies/dgx-h100.nccl.xml";
  const std::pair<std::string, std::string> kWrong[] = {
      {"show dgx-h100 --nodes=0", "--nodes=0: "},
      {"show dgx-h100 --nodes=-2", "--nodes=-2: "},
      {"show dgxh100", "did you mean dgx-h100"},
      {"show dgx-h100 --out=" + folder, StrCat("--out=", folder, ": cannot be written")},
      {"show dgx-h100 --out=/no/folder/x.svg", "--out=/no/folder/x.svg: cannot be written"},
      {"export dgx-h100 --to=dot --out=" + folder, StrCat("--out=", folder, ": cannot be written")},
      {"import " + folder, folder + ": cannot be read: it is a folder"},
      {"import " + At("none.xml"), At("none.xml") + ": cannot be read: No such file or directory"},
      {StrCat("import ", xml, " --nodes=0"), "--nodes=0: use 1 or more"},
      {StrCat("import ", xml, " --out=", folder), StrCat("--out=", folder, ": cannot be written")}};
  for (const auto& [arguments, message] : kWrong) {
    EXPECT_EQ(Run(StrCat("topology ", arguments)), 2) << arguments;
    EXPECT_THAT(err_, HasSubstr(message)) << arguments;
    EXPECT_THAT(out_, IsEmpty()) << arguments;
  }
}

TEST_F(Program, RefusesAPageThatCannotBeWritten) {
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("run"))), 0) << err_;
  EXPECT_EQ(Run(StrCat("report ", At("run"), " --out=", At("run"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", At("run"), ": cannot be written")));
  EXPECT_THAT(out_, IsEmpty());
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

TEST_F(Program, BenchesNoMoreThanADeviceHolds) {
  EXPECT_EQ(Run("bench all_reduce --fabric=simulated --cluster=star-a100 -b 128G -e 128G"), 3);
  EXPECT_THAT(err_, HasSubstr("rank 0: out of memory: asked for 137438953472 bytes of communication"));
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
      {"all_reduce --fabrik=simulated", "--fabrik"}, {"all_reduce -g 2", "-g 2: is nccl-tests'; use --ranks"},
      {"all_reduce -t 2", "-t 2: is nccl-tests'; use --ranks"}, {"all_reduce --ranks=100000000", "--ranks=100000000: use 1 to 1048576"}};
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
  const int status = RunShell(command);
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("out of memory: asked for 34359738368 bytes"));
  EXPECT_THAT(ReadAll(At("stdout")), HasSubstr("\n        1024 "));
}

TEST_F(Program, NamesTheFolderWithoutAReport) {
  fs::create_directory(At("empty"));
  EXPECT_EQ(Run(StrCat("compare ", At("empty"), " ", At("none"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat(At("empty"), "/report.json")));
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("p"))), 0) << err_;
  fs::remove(At("p/spec.textproto"));
  EXPECT_EQ(Run(StrCat("compare ", At("p"), " ", At("p"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat(At("p"), "/spec.textproto: cannot be read: No such file or directory; give a folder that `twofold run` wrote")));
}

// What NCCL writes of a DGX-1V gives what the catalogue's dgx-1v gives, and an import of NVIDIA's GPUs communicates by NCCL.
TEST_F(Program, AnImportedDgx1vIsTheCatalogues) {
  ASSERT_EQ(Run(StrCat("topology import tests/data/topologies/dgx-1v.nccl.xml --out=", At("mine.textproto"))), 0) << err_;
  const auto bench = [&](const std::string& cluster, const std::string& more) {
    EXPECT_EQ(Run(StrCat("bench ", more, " -b 1K -e 1G -f 32 --json --fabric=simulated --cluster=", cluster)), 0) << err_;
    return nlohmann::json::parse(out_);
  };
  // Between nodes the file says nothing: the catalogue's network joins them.
  std::string several = ReadAll("topologies/catalogue/dgx-1v.textproto");
  const size_t node = several.find("  node {"), network = several.find("  network {");
  ASSERT_NE(node, std::string::npos);
  several.replace(node, network - node, StrCat("  node { file: \"", fs::absolute("tests/data/topologies/dgx-1v.nccl.xml").string(), "\" }\n"));
  const std::string joined = Write("joined.textproto", several);
  for (const char* operation : {"all_reduce", "all_gather", "all_to_all", "broadcast --algorithm=ring"}) {
    const nlohmann::json own = bench(At("mine.textproto"), operation), theirs = bench("dgx-1v", StrCat(operation, " --nodes=1"));
    EXPECT_EQ(own["library"], "nccl");
    EXPECT_EQ(own["results"], theirs["results"]) << operation;
    EXPECT_EQ(bench(joined, StrCat(operation, " --nodes=3"))["results"], bench("dgx-1v", StrCat(operation, " --nodes=3"))["results"]) << operation;
  }
  const nlohmann::json rings = bench("dgx-1v", "all_reduce --nodes=1 --algorithm=ring --protocol=Simple");
  EXPECT_NEAR(rings["results"].back()["in_place"]["bus_bw"], 120, 1);  // six NVLinks of 25 GB/s, of which NCCL counts on 20
  EXPECT_EQ(rings["results"].back()["algorithm"], "ring");
}

// report.json and what is printed name library, algorithm and protocol.
TEST_F(Program, ARunSaysWhatRan) {
  const std::string spec = Write("gpt.textproto", "model { gpt { layers: 2 hidden: 64 heads: 4 sequence: 32 } }\ntrain { steps: 2 micro_batch: 1 }\n"
                                                  "parallel { dp: 16 }\nfabric { simulated { cluster: \"dgx-h100\" } }\n");
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --out=", At("run"))), 0) << err_;
  bool seen = false;
  const nlohmann::json report = Report(At("run"));
  for (const nlohmann::json& c : report["collectives"]) {
    EXPECT_EQ(c["library"], "nccl") << c;
    EXPECT_NE(c["algorithm"], "") << c;
    EXPECT_NE(c["protocol"], "") << c;
    if (c["operation"] != "all_reduce") continue;
    seen = true;
    EXPECT_THAT(out_, HasSubstr(StrCat("library nccl"))) << c;
    EXPECT_THAT(out_, HasSubstr(StrCat(c["algorithm"].get<std::string>(), "; ", c["protocol"].get<std::string>())));
  }
  EXPECT_TRUE(seen) << report["collectives"];
}

}  // namespace program_tools_test
}  // namespace twofold
