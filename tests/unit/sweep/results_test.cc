#include "experiments/program/sweep/results.h"

#include "experiments/program/cli/note_text.h"
#include "experiments/program/sweep/table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::sweep {
namespace results_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

report::Report Ran(double seconds, int64_t peak = 1024) {
  report::Report report;
  report.set_outcome(report::OK);
  report.set_median_step_seconds(seconds), report.set_low(0.9 * seconds), report.set_high(1.2 * seconds);
  report.add_ranks()->set_peak_bytes(peak / 2);
  report.add_ranks()->set_peak_bytes(peak);
  return report;
}

TEST(Figures, AreMediansWithTheExtremesOfRuns) {
  report::Report runs[] = {Ran(0.5), Ran(0.1), Ran(0.2, 4096), Ran(0.3)};
  runs[1].mutable_load()->set_taken(0.25);
  for (int i = 0; i < 4; ++i) runs[i].set_exposed_communication_seconds(0.01 * (i + 1));
  const Figures figures = FiguresOf(runs);
  EXPECT_TRUE(figures.known);
  EXPECT_THAT(figures.runs, ElementsAre(0.5, 0.1, 0.2, 0.3));
  EXPECT_DOUBLE_EQ(figures.seconds, 0.25);
  EXPECT_EQ(figures.low, 0.1);
  EXPECT_EQ(figures.high, 0.5);
  EXPECT_DOUBLE_EQ(figures.exposed_seconds, 0.025);
  EXPECT_EQ(figures.peak_bytes, 4096);
  EXPECT_EQ(figures.taken, 0.25);
}

TEST(Figures, OfOneRunAreItsOwn) {
  const report::Report run = Ran(0.5);
  const Figures figures = FiguresOf({&run, 1});
  EXPECT_EQ(figures.seconds, 0.5);
  EXPECT_EQ(figures.low, run.low());
  EXPECT_EQ(figures.high, run.high());
}

TEST(Figures, AFailedRunDecides) {
  report::Report runs[] = {Ran(0.5), Ran(0.5)};
  runs[1].set_outcome(report::FAILED), runs[1].set_message("rank 1 was lost");
  EXPECT_FALSE(FiguresOf(runs).known);
  EXPECT_EQ(FiguresOf(runs).why, "FAILED: rank 1 was lost");
  EXPECT_FALSE(FiguresOf(runs).foretold);
  runs[1].set_outcome(report::OUT_OF_MEMORY), runs[1].set_predicted(true);
  EXPECT_TRUE(FiguresOf(runs).foretold);
}

Row At(std::vector<std::string> values, int64_t ranks, int64_t batch, double predicted, double measured) {
  Row row{.values = std::move(values), .ranks = ranks, .global_batch = batch, .micro_batch = batch / ranks};
  const report::Report p = Ran(predicted), m = Ran(measured);
  row.predicted = FiguresOf({&p, 1}), row.measured = FiguresOf({&m, 1});
  return row;
}

Results Strong() {
  return {.name = "job",
          .fabric = "in_memory",
          .scaling = Scaling::kStrong,
          .predict = true,
          .measure = true,
          .varied = {{.path = "parallel.dp", .values = {"4", "1", "2"}}},
          .rows = {At({"4"}, 4, 64, 0.25, 0.5), At({"1"}, 1, 64, 0.8, 1.0), At({"2"}, 2, 64, 0.4, 0.5)}};
}

TEST(Results, StrongScalingIsHeldAgainstTheFewestRanks) {
  Results results = Strong();
  Scale(results);
  EXPECT_DOUBLE_EQ(results.rows[1].measured->speed_up, 1);
  EXPECT_DOUBLE_EQ(results.rows[2].measured->speed_up, 2);
  EXPECT_DOUBLE_EQ(results.rows[2].measured->efficiency, 1);
  EXPECT_DOUBLE_EQ(results.rows[0].measured->speed_up, 2);
  EXPECT_DOUBLE_EQ(results.rows[0].measured->efficiency, 0.5);
  EXPECT_DOUBLE_EQ(results.rows[0].predicted->speed_up, 3.2);
  EXPECT_DOUBLE_EQ(*results.rows[0].error(), -0.5);
}

TEST(Results, WeakScalingCountsTheLargerBatch) {
  Results results = Strong();
  results.rows = {At({"1"}, 1, 16, 1, 1), At({"4"}, 4, 64, 1.25, 1.25)};
  Scale(results);
  EXPECT_DOUBLE_EQ(results.rows[1].measured->speed_up, 3.2);
  EXPECT_DOUBLE_EQ(results.rows[1].measured->efficiency, 0.8);
}

TEST(Results, OnlyTheLayoutMayDiffer) {
  Results results = Strong();
  results.varied.push_back({.path = "train.micro_batch", .values = {"8", "16"}});
  results.rows = {At({"1", "8"}, 1, 8, 1, 1), At({"1", "16"}, 1, 16, 1.6, 1.6), At({"2", "16"}, 2, 32, 2, 2)};
  Scale(results);
  EXPECT_DOUBLE_EQ(results.rows[2].measured->speed_up, 1.6);  // 16 samples a second against 10
}

TEST(Results, WithoutTheFewestRanksThereIsNoSpeedUp) {
  Results results = Strong();
  results.rows[1].measured = NoFigures("it failed");
  Scale(results);
  EXPECT_EQ(results.rows[2].measured->speed_up, 0);
  EXPECT_DOUBLE_EQ(results.rows[2].predicted->speed_up, 2);
  EXPECT_FALSE(results.rows[1].error().has_value());
  EXPECT_THAT(ResultsText(results), HasSubstr("no figures of dp=1, measured: it failed"));
}

TEST(Results, TextHasALineForEachPoint) {
  Results results = Strong();
  Scale(results);
  const std::string text = ResultsText(results);
  EXPECT_THAT(text, HasSubstr("dp  ranks  global batch  micro-batch  predicted"));
  EXPECT_THAT(text, HasSubstr("speed-up p.  speed-up m."));
  EXPECT_THAT(text, HasSubstr("-50.0 %"));
  results.measure = false;
  for (Row& row : results.rows) row.measured.reset();
  EXPECT_THAT(ResultsText(results), Not(HasSubstr("error")));
}

TEST(Results, CsvHasColumnsOfBothSides) {
  Results results = Strong();
  results.rows.resize(2);
  results.rows[1].measured = NoFigures("a \"quoted\", long reason");
  const std::string csv = ResultsCsv(results);
  EXPECT_THAT(csv, HasSubstr("parallel.dp,ranks,global_batch,micro_batch,predicted_step_seconds,predicted_low,"
                             "predicted_high,predicted_speed_up,predicted_efficiency,predicted_peak_bytes,"
                             "predicted_exposed_communication_seconds,measured_step_seconds,"));
  EXPECT_THAT(csv, HasSubstr("\n4,4,64,16,0.25,0.225,0.3,,,1024,0,0.5,0.45,0.6,,,1024,0,-0.5,\n"));
  EXPECT_THAT(csv, HasSubstr(",1024,0,,,,,,,,,\"measured: a \"\"quoted\"\", long reason\"\n"));
}

TEST(Results, JsonHasFiguresOrTheReason) {
  Results results = Strong();
  results.rows[1].measured = NoFigures("it failed");
  const auto json = ResultsJson(results);
  EXPECT_EQ(json["scaling"], "strong");
  EXPECT_EQ(json["points"][0]["set"]["parallel.dp"], "4");
  EXPECT_EQ(json["points"][0]["measured"]["median_step_seconds"], 0.5);
  EXPECT_EQ(json["points"][0]["error"], -0.5);
  EXPECT_EQ(json["points"][1]["measured"]["why"], "it failed");
  EXPECT_FALSE(json["points"][1].contains("error"));
}

TEST(Notes, OfLoadedRunsAreOne) {
  Results results = Strong();
  results.rows[0].measured->taken = 0.2, results.rows[1].measured->taken = 0.4;
  for (size_t i : {0, 1}) {
    results.rows[i].measured->notes = {
        "the machine was loaded during this run: other work delayed it by up to some % of the time", "Gloo over TCP"};
  }
  EXPECT_THAT(NotesOf(results), ElementsAre("other work on this machine delayed measurements by up to 40 % of the time",
                                            "Gloo over TCP"));
}

TEST(Notes, OfAKindThatDifferInAWordAreALine) {
  const auto extrapolated = [](const std::string& kernel) {
    return "time of " + kernel + " is extrapolated beyond what was calibrated (its sizes are larger)";
  };
  std::vector<std::string> notes = {extrapolated("cast"), "routing is adaptive", extrapolated("sum"),
                                    extrapolated("cast")};
  EXPECT_EQ(NotesText(notes, "short"),
            "note: time of cast is extrapolated beyond what was calibrated ... (also sum)\nnote: routing is adaptive\n"
            "2 notes shortened: --notes=full prints them whole\n");
  for (const char* kernel : {"add", "scale", "fill"}) notes.push_back(extrapolated(kernel));
  EXPECT_THAT(NotesText(notes, "short"), HasSubstr("calibrated ... (also sum, add, scale and 1 more)\n"));
  EXPECT_THAT(NotesText(notes, "full"), HasSubstr("note [extrapolated-kernel]: " + extrapolated("fill") + "\n"));
  EXPECT_EQ(NotesText({"one note of a user", "one note of another"}, "short"),  // of no kind
            "note: one note of a user\nnote: one note of another\n");
}

TEST(Results, PictureOfAFieldHasNoPerfectScaling) {
  Results results = Strong();
  results.varied = {{"train.micro_batch", {"4", "1", "2"}}};
  EXPECT_THAT(ResultsPicture(results), Not(HasSubstr("perfect scaling")));
}

TEST(Results, PictureHasItsPanels) {
  Results results = Strong();
  Scale(results);
  const std::string svg = ResultsPicture(results);
  for (const char* title :
       {"job: strong scaling", ">step time<", ">speed-up<", ">efficiency<", ">ranks<", ">predicted<"})
    EXPECT_THAT(svg, HasSubstr(title));
  EXPECT_THAT(svg, HasSubstr(">perfect scaling</text>"));           // the legend of lines that are no series
  EXPECT_THAT(svg, HasSubstr(">from low to high</text>"));          // and of the bars
  EXPECT_THAT(svg, HasSubstr(">1 KiB<"));                           // round on the axis
  EXPECT_THAT(svg, HasSubstr("<path class=\"series p1 dashed\""));  // the prediction beside the measurement
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  for (Row& row : results.rows) row.predicted = row.measured = NoFigures("nothing ran");
  EXPECT_EQ(ResultsPicture(results), "");
}

}  // namespace results_test
}  // namespace twofold::sweep
