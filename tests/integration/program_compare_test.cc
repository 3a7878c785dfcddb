// `twofold compare`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/strings.h"
#include "tests/integration/program.h"
#include "tests/nsight_database.h"

namespace twofold {
namespace program_compare_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Program, ComparesAPredictionWithAMeasurement) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  for (const char* row :
       {"step time", "samples a second", "exposed communication", "peak memory", "reserved memory", "final loss",
        "stand-in", "all_reduce", "Parts of the error in step time against in_memory", "predicted interval"}) {
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

TEST_F(Program, NamesTheClustersOfTwoPredictions) {
  const std::string spec = Write("small.textproto",
                                 "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
                                 "train { steps: 4 micro_batch: 2 }\nparallel { dp: 2 }\n");
  for (const char* cluster : {"dgx-a100", "dgx-h100"}) {
    ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=simulated --set=fabric.simulated.cluster=", cluster,
                         " --out=", At(cluster))),
              0)
        << err_;
  }
  ASSERT_EQ(Run(StrCat("compare ", At("dgx-a100"), " ", At("dgx-h100"))), 0) << err_;
  EXPECT_THAT(out_, ::testing::StartsWith("Note: the first run is of cluster dgx-a100, the second of dgx-h100\n"));
  ASSERT_EQ(Run(StrCat("compare ", At("dgx-a100"), " ", At("dgx-a100"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("cluster")));
}

TEST_F(Program, SaysWhenTheTwoRunsDiffer) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(
      Run(StrCat("run ", spec, " --fabric=in_memory --set=model.mlp.hidden=32 --set=train.steps=3 --out=", At("m"))),
      0);
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_,
              ::testing::StartsWith("Note: the two runs did different work: their specs differ in model, train\n"));
  EXPECT_THAT(out_, Not(HasSubstr("bytes differ"))) << "they are of different models";
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_)["interval"]["inside"], nullptr);
}

// Of one job they should be equal, whatever fabrics they ran on; of runs that ended early, or had other budgets, they
// need not.
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
  EXPECT_THAT(out_,
              ::testing::StartsWith(
                  "Note: peak or reserved bytes differ on rank 1: on the same kind of device they should be equal\n"));
  with_peak(At("m"), 512, "INTERRUPTED");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --set=memory.budget_mib=1000 --out=", At("m"))), 0) << err_;
  with_peak(At("m"), 512, "OK");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
}

// The step time of m is set, so that the error is known.
TEST_F(Program, FailsIfTheErrorIsLargerThanAllowed) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  const double predicted = Report(At("p"))["median_step_seconds"].get<double>();
  const auto with_error = [&](double error) {
    nlohmann::json report = Report(At("m"));
    report["median_step_seconds"] = predicted / (1 + error);
    std::ofstream(At("m") + "/report.json") << report.dump();
  };
  const auto compare = [&](const std::string& options) {
    return Run(StrCat("compare ", options, " ", At("p"), " ", At("m")));
  };
  with_error(-0.06);
  EXPECT_EQ(compare("--max-error=5%"), 1);
  EXPECT_THAT(err_, HasSubstr("--max-error=5%: the error in step time is -6.0 %"));
  EXPECT_THAT(out_, HasSubstr("step time")) << "the table is printed all the same";
  EXPECT_EQ(compare("--max-error=7"), 0);
  with_error(0.04);
  EXPECT_EQ(compare("--max-error=5%"), 0) << err_;
  EXPECT_EQ(compare("--max-error=3.9%"), 1);
  with_error(std::numeric_limits<double>::infinity());  // it did no step
  EXPECT_EQ(compare("--max-error=1000%"), 1);
  EXPECT_THAT(err_, HasSubstr("there is no step time to compare"));
  // two predictions, which are the same
  EXPECT_EQ(Run(StrCat("compare --max-error=0 ", At("p"), " ", At("p"))), 0) << err_;
  for (const char* wrong : {"-1", "5s", "nan", "%", "inf"}) {
    EXPECT_EQ(compare(StrCat("--max-error=", wrong)), 2);
    EXPECT_THAT(err_, HasSubstr(StrCat("--max-error=", wrong, ": use a share"))) << wrong;
  }
}

TEST_F(Program, PrintsComparisonsForOtherPrograms) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  const std::string folders = StrCat(" ", At("p"), " ", At("m"));
  ASSERT_EQ(Run(StrCat("compare --json", folders)), 0) << err_;
  const std::string json = out_;
  ASSERT_EQ(Run(StrCat("compare --format=json", folders)), 0) << err_;
  EXPECT_EQ(out_, json);
  // one line for each value of the JSON, with its figures
  const nlohmann::json values = nlohmann::json::parse(json);
  std::string csv = "measured_fabric,section,name,unit,predicted,measured,error\n";
  const auto number = [](const nlohmann::json& v) { return v.is_null() ? std::string() : v.dump(); };
  for (const char* section : {"values", "step_parts", "kernels", "exposed", "collectives"}) {
    for (const nlohmann::json& v : values[section]) {
      std::string name = v["name"].get<std::string>();
      if (name.find(',') != std::string::npos) name = StrCat("\"", name, "\"");
      StrAppend(&csv, "in_memory,", section, ",", name, ",", v["unit"].get<std::string>(), ",", number(v["predicted"]),
                ",", number(v["measured"]), ",", number(v["error"]), "\n");
    }
  }
  ASSERT_EQ(Run(StrCat("compare --format=csv", folders)), 0) << err_;
  EXPECT_EQ(out_, csv);
  ASSERT_EQ(Run(StrCat("compare --format=markdown", folders)), 0) << err_;
  EXPECT_THAT(out_, ::testing::StartsWith("| small | predicted (simulated) | measured (in_memory) | error |\n"
                                          "|---|---:|---:|---:|\n| step time | "));
  EXPECT_THAT(out_,
              HasSubstr("\n**Parts of the error in step time against in_memory**\n\n|  | predicted | measured |"));
  EXPECT_THAT(out_, HasSubstr("\n| &nbsp;&nbsp;kernels | "));
  EXPECT_EQ(Run(StrCat("compare --format=xml", folders)), 2);
  EXPECT_THAT(err_, HasSubstr("--format"));
}

TEST_F(Program, ComparesTwoMeasurements) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("m"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, ::testing::ContainsRegex("^small +measured +measured +difference\n"));
  EXPECT_THAT(out_, Not(HasSubstr("predicted")));
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
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

TEST_F(Program, ImportsTracesAsAMeasuredRun) {
  const std::string spec = Write("small.textproto", kSmall), traces = "tests/data/traces/";
  const std::string both = StrCat(traces, "ddp-rank0.json ", traces, "ddp-rank1.json");
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("import ", both, " --spec=", spec, " --out=", At("m"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 steps of small, median 950 µs; rank 0 of 2"));
  const nlohmann::json report = Report(At("m"));
  EXPECT_EQ(report["fabric"], "pytorch");
  EXPECT_EQ(report["predicted"], false);
  EXPECT_NEAR(report["tokens_per_second"].get<double>(), 4 / 950e-6, 1e-6) << "two samples for each of two ranks";
  for (const char* file : {"steps.csv", "collectives.csv", "memory.csv", "trace.json", "spec.textproto"})
    EXPECT_TRUE(fs::exists(At("m") + "/" + file)) << file;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("Parts of the error in step time against pytorch"));
  EXPECT_THAT(out_, HasSubstr("OUTSIDE")) << "the work is the same, so the prediction is judged";
  EXPECT_THAT(out_, Not(HasSubstr("taken to be of the same job")));
  EXPECT_THAT(out_, Not(HasSubstr("final loss")));
  EXPECT_EQ(Run(StrCat("compare --max-error=5% ", At("p"), " ", At("m"))), 1);
  ASSERT_EQ(Run(StrCat("report --json ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_)["files"][0], At("m/report.html"));

  ASSERT_EQ(Run(StrCat("import --json ", both, " --out=", At("n"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_), Report(At("n")));
  EXPECT_EQ(Report(At("n"))["name"], "n");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("n"))), 0) << err_;
  EXPECT_THAT(out_,
              HasSubstr("Note: a trace does not say what was trained: both runs are taken to be of the same job"));
  ASSERT_EQ(Run(StrCat("compare ", At("n"), " ", At("n"))), 0) << err_;  // two measurements
  ASSERT_EQ(Run(StrCat("report --trace=pftrace ", At("p"), " ", At("n"))), 0) << err_;
  for (const char* run : {"p", "n"}) {
    EXPECT_THAT(out_, HasSubstr(At(run) + "/trace.pftrace\n"));
    EXPECT_THAT(ReadAll(At(run) + "/trace.pftrace"), ::testing::StartsWith("\x1f\x8b")) << "a gzip file";
  }

  // a folder stands for its files; here they are not of one job
  EXPECT_EQ(Run(StrCat("import ", traces, " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("does not say which rank it is of"));
  EXPECT_EQ(Run(StrCat("import ", both, " --spec=", spec, " --group=7 --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("--group=7: use the trace's process group and a name"));
  std::string text = kSmall;
  const std::string four = Write("four.textproto", text.replace(text.find("dp: 2"), 5, "dp: 4"));
  EXPECT_EQ(Run(StrCat("import ", both, " --spec=", four, " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("is a job of 4 ranks, but the traces are of 2"));
  EXPECT_EQ(Run(StrCat("import ", At("nothing.json"), " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("nothing.json: cannot be read"));
  fs::create_directory(At("empty"));
  EXPECT_EQ(Run(StrCat("import ", At("empty"), " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("has no traces in it"));
  EXPECT_FALSE(fs::exists(At("x") + "/report.json"));
}

TEST_F(Program, ImportsExportsOfNsightSystemsAsAMeasuredRun) {
  const std::string job = test::DatabaseOf(test::NsightJob());
  const std::string spec = Write("small.textproto", kSmall), export_ = Write("node0.sqlite", job);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("import ", export_, " --step=iteration --spec=", spec, " --out=", At("m"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("2 steps of small, median 950 µs; rank 0 of 2"));
  EXPECT_EQ(Report(At("m"))["fabric"], "nsight-systems");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("Parts of the error in step time against nsight-systems"));
  EXPECT_THAT(out_, HasSubstr("  products"));
  EXPECT_THAT(out_, Not(HasSubstr("taken to be of the same job")));
  ASSERT_EQ(Run(StrCat("report ", At("p"), " ", At("m"))), 0) << err_;

  // two ranks were traced of four, which only the spec says
  std::string text = kSmall;
  const std::string four = Write("four.textproto", text.replace(text.find("dp: 2"), 5, "dp: 4"));
  ASSERT_EQ(Run(StrCat("import --json ", export_, " --step=iteration --spec=", four, " --out=", At("f"))), 0) << err_;
  EXPECT_EQ(Report(At("f"))["world_size"], 4);
  EXPECT_THAT(out_, HasSubstr("the order of the files counts, and 4 ranks, as the spec has"));
  const std::string one = Write("one.textproto", text.replace(text.find("dp: 4"), 5, "dp: 1"));
  EXPECT_EQ(Run(StrCat("import ", export_, " --step=iteration --spec=", one, " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("but the traces are of 2"));

  // a folder, a file without the usual name, and what is no export
  fs::create_directory(At("folder"));
  fs::copy_file(export_, At("folder") + "/node0.sqlite");
  EXPECT_EQ(Run(StrCat("import ", At("folder"), " --step=iteration --out=", At("g"))), 0) << err_;
  EXPECT_EQ(Run(StrCat("import ", Write("renamed", job), " --step=iteration --out=", At("h"))), 0) << err_;
  EXPECT_EQ(
      Run(StrCat("import ", Write("bad.sqlite", "no database of any kind, and not a short one"), " --out=", At("x"))),
      2);
  EXPECT_THAT(err_, HasSubstr("bad.sqlite: is not a SQLite database; give what nsys export --type=sqlite wrote"));
  EXPECT_EQ(Run(StrCat("import ", Write("empty.sqlite", ""), " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("empty.sqlite: is empty"));
  EXPECT_EQ(Run(StrCat("import ", At("none.sqlite"), " --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("none.sqlite: SQLite cannot read it: unable to open database file"));
  EXPECT_EQ(Run(StrCat("import ", export_, " tests/data/traces/own-steps.json --out=", At("x"))), 2);
  EXPECT_THAT(err_, HasSubstr("give traces of one program"));
  EXPECT_FALSE(fs::exists(At("x") + "/report.json"));
}

}  // namespace program_compare_test
}  // namespace twofold
