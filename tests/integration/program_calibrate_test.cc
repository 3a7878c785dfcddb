// `twofold calibrate`, and the quickstart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_calibrate_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Program, CalibratesThisMachineForPredictions) {
  ASSERT_EQ(Run(StrCat("calibrate --quick --json --out=", At("profile.textproto"))), 0) << err_;
  const nlohmann::json printed = nlohmann::json::parse(out_);
  EXPECT_EQ(printed["out"], At("profile.textproto"));
  for (const char* kernel : {"matmul_nt", "matmul_fp8_nt", "matmul_fp8_block_nt", "quantise_fp8", "quantise_fp8_blocks",
                             "largest_fp8", "round_fp8"})
    EXPECT_THAT(printed["profile"]["kernels"].dump(), HasSubstr(StrCat("\"", kernel, "\"")));
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"), " --set=fabric.simulated.profile=", At("profile.textproto"))),
            0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("calibration: "));
  const nlohmann::json report = Report(At("p"));
  if (fs::exists("/proc/thread-self/schedstat")) {
    EXPECT_THAT(ReadAll(At("profile.textproto")), HasSubstr("\nload {\n  taken: "));
    EXPECT_TRUE(report.contains("load"));
    EXPECT_THAT(report["notes"].dump(), HasSubstr("; other work delayed the calibration by up to "));
  }
  EXPECT_GT(report["median_step_seconds"], 0);
  EXPECT_LE(report["low"], report["median_step_seconds"]);
  EXPECT_GE(report["high"], report["median_step_seconds"]);

  EXPECT_EQ(Run("calibrate --device=abacus"), 2);
  EXPECT_THAT(err_, HasSubstr("abacus"));
  EXPECT_EQ(Run("calibrate --gpu=1"), 2);
  EXPECT_THAT(err_, HasSubstr("--gpu=1: is only for --device=cuda"));
  EXPECT_EQ(Run("calibrate --time-algorithms"), 2);
  EXPECT_THAT(err_, HasSubstr("--time-algorithms: is only for --device=cuda"));
  EXPECT_EQ(Run("calibrate --fabric=nccl"), 2);
  EXPECT_THAT(err_, HasSubstr("--fabric must be in_memory (kernels and links of this machine) or mpi (messages between "
                              "processes) or gloo (messages between processes), got \"nccl\""));
  EXPECT_EQ(Run("calibrate --fabric=gloo --cluster=star-a100 --cluster-out=" + At("cluster")), 2);
  EXPECT_THAT(err_, HasSubstr("needs messages between hosts; use --fabric=mpi"));
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
  EXPECT_THAT(err_,
              ::testing::AnyOf(HasSubstr(StrCat("--cluster-out=", At("folder"), ": cannot be written: it is a folder")),
                               HasSubstr("has no MPI")));
  EXPECT_EQ(Run(StrCat("run ", spec, " --out=", At("p"),
                       " --set=fabric.simulated.profile=", Write("x.textproto", "name: 3"))),
            2);
  EXPECT_THAT(err_, HasSubstr("x.textproto"));
}

// Where no file may grow beyond a few blocks, as on a full disk. Nothing is measured.
TEST_F(Program, CalibrationFindsOutAboutAFullDiskBeforeItMeasures) {
  const std::string limited = StrCat("trap '' XFSZ; ulimit -f 64; exec ", TWOFOLD_PROGRAM,
                                     " calibrate --quick --out=", At("profile"), " >/dev/null 2>", At("err"));
  Write("limited.sh", limited);
  const int status = std::system(StrCat("sh ", At("limited.sh")).c_str());
  const std::string err = ReadAll(At("err"));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 2) << status << err;
  EXPECT_THAT(err, HasSubstr(StrCat("--out=", At("profile"), ": cannot be written: no room for 4194304 bytes (")));
  EXPECT_THAT(err, Not(HasSubstr("warming up")));
  for (const auto& entry : fs::directory_iterator(folder_))
    EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("limited.sh", "err"));
}

// The installed program's quickstart, with a profile instead of a calibration.
TEST_F(Program, QuickstartPredictsMeasuresAndCompares) {
  const std::string profile = "--profile=tests/integration/tiny.profile.textproto";
  ASSERT_EQ(Run(StrCat("quickstart ", profile, " --steps=2 --out=", At("runs"))), 0) << out_ << err_;
  EXPECT_THAT(out_, Not(HasSubstr("== calibrate")));
  const size_t predict = out_.find("== predict"), measure = out_.find("== measure"), compare = out_.find("== compare");
  ASSERT_NE(compare, std::string::npos) << out_;
  EXPECT_LT(predict, measure);
  EXPECT_LT(measure, compare);
  EXPECT_THAT(out_.substr(compare), testing::AllOf(HasSubstr("peak memory (bytes)"), HasSubstr("step time")));
  EXPECT_EQ(Report(At("runs/quickstart-measured"))["steps"].size(), 2u);
  EXPECT_TRUE(fs::exists(At("runs/quickstart-measured/report.html")));
  EXPECT_THAT(ReadAll(At("runs/quickstart.textproto")), HasSubstr("gpt-3m"));
}

// A line for each kernel would hide what comes before and after. It is ended while it measures.
TEST_F(Program, QuickstartWritesTheTablesOfItsCalibrationToAFile) {
  const std::string profile = At("runs/this-machine.profile.textproto"), tables = At("runs/calibration.txt");
  EXPECT_NE(RunShell(StrCat("timeout 120 ", TWOFOLD_PROGRAM, " quickstart --out=", At("runs"), " >", At("stdout"),
                            " 2>", At("stderr"), " & pid=$!; while kill -0 $pid && [ ! -e ", tables,
                            " ]; do sleep 0.1; done; kill $pid; wait $pid")),
            0);
  EXPECT_THAT(ReadAll(At("stdout")), HasSubstr(StrCat("twofold calibrate --out=", profile, " > ", tables, "\n")));
  EXPECT_TRUE(fs::exists(tables));
}

TEST_F(Program, QuickstartRefusesWhatItCannotUse) {
  EXPECT_EQ(Run(StrCat("quickstart --profile=", At("none"), " --out=", At("runs"))), 2);
  EXPECT_THAT(err_, HasSubstr("there is no such file; `twofold calibrate` writes one"));
  EXPECT_EQ(Run(StrCat("quickstart --steps=0 --out=", At("runs"))), 2);
  EXPECT_THAT(err_, HasSubstr("--steps must be at least 1 (got 0)"));
  EXPECT_FALSE(fs::exists(At("runs")));
}

// What `cmake` is asked for, by a quickstart in a tree of its own where all that it starts is a stand-in.
TEST_F(Program, QuickstartBuildsNeitherTestsNorCudaWithoutAGpu) {
  const auto script = [this](const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(At(name)).parent_path());
    Write(name, StrCat("#!/bin/sh\n", text, "\n"));
    fs::permissions(At(name), fs::perms::owner_all);
  };
  script("bin/dpkg-query", StrCat("echo \"$3\" >> ", At("packages"), "; echo install ok installed"));
  script("bin/cmake", StrCat("echo \"$@\" >> ", At("asked"), "; exit 1"));
  for (const char* file : {"experiments/quickstart.sh", "scripts/setup.sh"}) {
    fs::create_directories(fs::path(At(StrCat("tree/", file))).parent_path());
    fs::copy_file(file, At(StrCat("tree/", file)));
  }
  const auto asked = [this](const std::string& environment) {
    fs::remove(At("asked"));
    const std::string command = StrCat("env -u TWOFOLD_CUDA PATH=", At("bin"), ":$PATH ", environment, " bash ",
                                       At("tree/experiments/quickstart.sh"), " >", At("out"), " 2>&1");
    EXPECT_NE(std::system(command.c_str()), 0);
    return ReadAll(At("asked"));
  };
  script("bin/nvidia-smi", "exit 9");
  if (!fs::exists("/dev/nvidia0")) {
    EXPECT_EQ(asked(""), "--preset release -DTWOFOLD_TESTS=OFF -DTWOFOLD_BENCHMARKS=OFF -DTWOFOLD_CUDA=OFF\n")
        << ReadAll(At("out"));
    EXPECT_THAT(ReadAll(At("out")),
                HasSubstr("There is no GPU here, so the program is built without CUDA. To add CUDA"));
  }
  EXPECT_EQ(asked("TWOFOLD_CUDA=ON"),
            "--preset release -DTWOFOLD_TESTS=OFF -DTWOFOLD_BENCHMARKS=OFF -DTWOFOLD_CUDA=ON\n");
  EXPECT_THAT(ReadAll(At("out")), Not(HasSubstr("no GPU")));
  script("bin/nvidia-smi", "echo GPU 0");
  EXPECT_EQ(asked(""), "--preset release -DTWOFOLD_TESTS=OFF -DTWOFOLD_BENCHMARKS=OFF\n");
  script("bin/nvidia-smi", "exit 9");
  fs::create_directories(At("tree/build/release"));
  Write("tree/build/release/CMakeCache.txt", "");
  EXPECT_EQ(asked(""), "--preset release\n") << "what has been configured is used";
  EXPECT_THAT(ReadAll(At("packages")),
              testing::AllOf(HasSubstr("libsimgrid-dev"), Not(HasSubstr("libgtest-dev")), Not(HasSubstr("chromium"))));
}

// A DGX A100 whose constants are others measures; the catalogue's is fitted to what it measured.
TEST_F(Program, CalibratesLinksByATableOfCollectives) {
  const std::string catalogue = ReadAll("topologies/catalogue/dgx-a100.textproto"), nccl = "nccl { ",
                    nic = "nic_us: 0.6";
  ASSERT_THAT(catalogue, testing::AllOf(HasSubstr(nccl), HasSubstr(nic)));
  const std::string truth =
      Write("truth.textproto", absl::StrReplaceAll(catalogue, {{nccl,
                                                                "nccl { nvlink_efficiency: 0.6 network_efficiency: 0.5 "
                                                                "messages_network_efficiency: 0.4 call_us: 9 "},
                                                               {nic, "nic_us: 3"}}));
  std::string rows = "collective,ranks,nodes,bytes,us\n";
  for (const auto& [collective, nodes] :
       {std::pair<std::string, int>{"all_reduce", 1}, {"all_gather", 2}, {"all_to_all", 2}}) {
    const std::string size = StrCat(" --nodes=", nodes, " --ranks=", 8 * nodes, " --json");
    ASSERT_EQ(Run(StrCat("bench ", collective, " -b 64K -e 1G -f 4 --fabric=simulated --cluster=", truth, size)), 0);
    const auto bench = nlohmann::json::parse(out_);
    for (const auto& row : bench["results"]) {
      const auto& side = row[row["out_of_place"].is_null() ? "in_place" : "out_of_place"];
      StrAppend(&rows, collective, ",", 8 * nodes, ",", nodes, ",", row["size"].get<int64_t>(), ",",
                side["time"].get<double>(), "\n");
    }
  }
  StrAppend(&rows, "all_gather,16,2,4,10\n");  // a float for 16 ranks
  const std::string table = Write("sweep.csv", rows), out = At("mine.textproto");
  ASSERT_EQ(Run(StrCat("calibrate --from=", table, " --cluster=dgx-a100 --cluster-out=", out, " --json")), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("1 of 25 rows are left out: they have less than one float on every rank"));
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["out"], out);
  EXPECT_THAT(json["cluster"]["source"].get<std::string>(),
              HasSubstr("median error of the rows left out of the fit: 0."));
  const auto& fitted = json["cluster"]["library"]["nccl"];
  EXPECT_NEAR(fitted["nvlink_efficiency"].get<double>(), 0.6, 0.012);
  EXPECT_NEAR(fitted["network_efficiency"].get<double>(), 0.5, 0.01);
  EXPECT_NEAR(fitted["messages_network_efficiency"].get<double>(), 0.4, 0.008);
  EXPECT_NEAR(fitted["call_us"].get<double>(), 9, 1);
  EXPECT_NEAR(json["cluster"]["machines"]["network"]["nic_us"].get<double>(), 3, 0.3);
  EXPECT_EQ(Run(StrCat("bench all_reduce -b 1G -e 1G --fabric=simulated --cluster=", out, " --ranks=4")), 0) << err_;
}

// Runs of a Megatron-LM whose host and products are slower than the profile's; the profile is fitted to them.
TEST_F(Program, CalibratesAFrameworkByATableOfRuns) {
  std::string slower = ReadAll("topologies/catalogue/frameworks/megatron.textproto");
  for (const auto& [from, to] :
       {std::pair(R"((name: "\w+") launch_us: \d{2,})", "$1 launch_us: 238"),
        std::pair(R"(\n  launch_us: [\d.]+)", "\n  launch_us: 116 families { kind: PRODUCTS factor: 1.3 }"),
        std::pair(R"(communication_launch_us: [\d.]+)", "communication_launch_us: 150")}) {
    const std::string before = std::exchange(slower, std::regex_replace(slower, std::regex(from), to));
    ASSERT_NE(slower, before) << from;
  }
  const std::string truth = Write("truth.textproto", slower);
  const std::string spec =
      "model { gpt { layers: 2 hidden: 1024 heads: 16 vocab: 8192 sequence: 1024 } }\n"
      "train { steps: 2 warmup_steps: 0 }\n"
      "fabric { simulated { cluster: \"dgx-a100\" } }\nframework: MEGATRON\n";
  const std::string base = Write("base.textproto", spec),
                    measured = Write("measured.textproto", StrCat(spec, "framework_profile: \"", truth, "\"\n"));
  const std::vector<std::string> fields = {"parallel.tp", "model.gpt.sequence", "train.micro_batch"};
  ASSERT_EQ(Run(StrCat(
                "predict ", measured,
                " --vary=parallel.tp=1,2,4 --vary=model.gpt.sequence=512,2048 --vary=train.micro_batch=1,8,24 --json")),
            0)
      << err_;
  std::string rows = StrCat(absl::StrJoin(fields, ","), ",seconds\n");
  for (const auto& run : nlohmann::json::parse(out_)) {
    for (const std::string& field : fields) StrAppend(&rows, run["set"][field].get<std::string>(), ",");
    StrAppend(&rows, run["median_step_seconds"].get<double>(), "\n");
  }
  const std::string table = Write("runs.csv", rows), out = At("mine.textproto");
  ASSERT_EQ(Run(StrCat("calibrate --from=", table, " --spec=", base, " --framework-out=", out, " --json")), 0) << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_THAT(json["framework"]["source"].get<std::string>(),
              testing::ContainsRegex("median error of the rows left out of the fit: [01]\\.[0-9] %"));
  const auto& time = json["framework"]["time"];
  EXPECT_NEAR(time["launch_us"].get<double>(), 116, 12);
  EXPECT_NEAR(time["communication_launch_us"].get<double>(), 150, 60);
  for (const auto& family : time["families"]) {
    const bool products = family["kind"] == "PRODUCTS";
    EXPECT_NEAR(family["factor"].get<double>(), products ? 1.3 : 1, products ? 0.065 : 0.25) << family;
  }
  EXPECT_EQ(Run(StrCat("predict ", Write("mine.spec.textproto", StrCat(spec, "framework_profile: \"", out, "\"\n")))),
            0)
      << err_;
  EXPECT_FALSE(fs::exists(StrCat(out, ".fit.textproto")));
}

TEST_F(Program, LeavesNothingWhereCalibrationIsInterrupted) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::signal(signal, SIG_DFL);  // nohup may have started the test
      if (freopen(At("stderr").c_str(), "w", stderr) == nullptr || freopen("/dev/null", "w", stdout) == nullptr)
        _exit(127);
      execl(TWOFOLD_PROGRAM, "twofold", "calibrate", "--quick", StrCat("--out=", At("profile")).c_str(), nullptr);
      _exit(127);
    }
    AwaitThat([&] { return ReadAll(At("stderr")).find("part 1 of") != std::string::npos; },
              "part 1 of the calibration");
    kill(child, signal);
    const int status = AwaitProcess(child, "twofold calibrate");
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status << ReadAll(At("stderr"));
    fs::remove(At("stderr"));
    EXPECT_TRUE(fs::is_empty(folder_)) << *fs::directory_iterator(folder_);
  }
}

}  // namespace program_calibrate_test
}  // namespace twofold
