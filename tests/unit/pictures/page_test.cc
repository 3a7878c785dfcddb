#include "experiments/program/pictures/page.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/chart.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/memory_picture.h"
#include "experiments/program/pictures/timeline_picture.h"
#include "experiments/program/report/write_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace page_test {

using testing::HasSubstr;
using testing::Not;

// A folder as `twofold run` leaves it: two ranks, one traced step.
struct PageTest : testing::Test {
  void SetUp() override {
    folder = StrCat(testing::TempDir(), "/page_test-", getpid());
    report.set_name("a <b> run"), report.set_fabric("in_memory"), report.set_world_size(2);
    report.set_median_step_seconds(0.02), report.set_low(0.019), report.set_high(0.022);
    report.set_parameters(3200000);
    for (int i = 0; i < 4; ++i) {
      report::Step& s = *report.add_steps();
      s.set_seconds(0.02 + 1e-4 * i), s.set_loss(5.5 - i);
    }
    report::Collective& c = *report.add_collectives();
    c.set_operation("all_reduce"), c.set_group("world"), c.set_count(4), c.set_bytes(4 << 20), c.set_seconds(0.004);
    report.add_notes("a note & more");
    for (int rank = 0; rank < 2; ++rank) {
      report::RankRecord record;
      report.add_ranks()->set_rank(rank);
      record.set_rank(rank), record.set_trace_origin_seconds(5 + rank * 1e-3);
      AddSpan(record, "compute", "matmul_nt", 0, 0.012);
      AddSpan(record, "communication world", "all_reduce", 0.010, 0.018);
      for (int i = 0; i < 3; ++i) {
        report::MemorySample& m = *record.add_samples();
        m.set_time(0.005 * i), m.set_reserved(32 << 20);
        for (int category = 0; category < 6; ++category) m.add_live_by_category((1 + i % 2) << 20);
      }
      records.push_back(record);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  static void AddSpan(report::RankRecord& r, const char* stream, const char* name, double start, double end) {
    report::Span& s = *r.add_spans();
    s.set_stream(stream), s.set_name(name), s.set_start(start), s.set_end(end), s.set_bytes(1024);
  }
  RunData Written() {
    EXPECT_TRUE(WriteReport(folder, report, spec::Spec(), records).ok());
    auto run = ReadRun(folder);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  std::string folder;
  report::Report report;
  std::vector<report::RankRecord> records;
};

TEST_F(PageTest, ReadsWhatARunWrites) {
  const RunData run = Written();
  ASSERT_EQ(run.lanes.size(), 4u);
  EXPECT_EQ(run.lanes[0].stream, "compute");
  EXPECT_EQ(run.lanes[1].stream, "communication world");
  EXPECT_EQ(run.lanes[2].rank, 1);
  EXPECT_NEAR(run.lanes[2].spans[0].start, 1e-3, 1e-9);  // rank 1's trace began a millisecond later
  EXPECT_NEAR(run.trace_end, 0.019, 1e-9);
  ASSERT_EQ(run.memory.size(), 2u);
  EXPECT_EQ(run.memory.at(0).time.size(), 3u);
  EXPECT_EQ(run.categories.size(), 6u);
}

TEST_F(PageTest, HasEverySectionAndNeedsNothingElse) {
  const RunData run = Written();
  const std::string page = Page({&run});
  for (const char* part : {"a &lt;b&gt; run", "3.2 million", "20.0 ms", "Time line", "Memory", "peak 12.0 MiB", "loss",
                           "all_reduce", "4.00 MiB", "a note &amp; more"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  for (const char* outside : {"<script", "<link", "src=", "url(", "@import"})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
}

TEST_F(PageTest, DrawsOnlyLossesThatWereRead) {
  for (int i : {0, 2}) report.mutable_steps(i)->clear_loss();
  const RunData run = Written();
  const std::string page = Page({&run});
  for (const char* point : {"<title>step 1: 4.5</title>", "<title>step 3: 2.5</title>"})
    EXPECT_THAT(page, HasSubstr(point));
  for (const char* point : {"<title>step 0: 0</title>", "<title>step 2: 0</title>", "nan"})
    EXPECT_THAT(page, Not(HasSubstr(point)));
  for (int i : {1, 3}) report.mutable_steps(i)->set_loss(1);  // stand-ins
  const RunData symbolic = Written();
  EXPECT_THAT(Page({&symbolic}), Not(HasSubstr("<title>step 1: 1</title>")));
}

// HTML forgives; a picture that stands alone is XML.
TEST_F(PageTest, PicturesQuoteTheirAttributes) {
  const RunData run = Written();
  for (const std::string& svg :
       {TimelinePicture({&run}), MemoryPicture({&run}), Chart({{"a", {1, 2}, 0, 1, 1, 2}}, "t", true, SecondsText)}) {
    bool in_tag = false, in_quotes = false;
    for (size_t i = 0; i + 1 < svg.size(); ++i) {
      if (svg[i] == '"')
        in_quotes = in_tag && !in_quotes;
      else if (!in_quotes && svg[i] == '<')
        in_tag = true;
      else if (!in_quotes && svg[i] == '>')
        in_tag = false;
      else if (in_tag && !in_quotes && svg[i] == '=') {
        EXPECT_EQ(svg[i + 1], '"') << svg.substr(i < 30 ? 0 : i - 30, 60);
      }
    }
    EXPECT_FALSE(in_tag && in_quotes);
  }
}

TEST_F(PageTest, TwoRunsAreHeldAgainstEachOther) {
  const RunData measured = Written();
  RunData predicted = measured;
  predicted.report.set_predicted(true), predicted.report.set_fabric("simulated");
  predicted.report.set_median_step_seconds(0.022);
  for (report::Step& s : *predicted.report.mutable_steps()) s.set_loss(1);  // a stand-in: no curve
  const std::string page = Page({&predicted, &measured});
  EXPECT_THAT(page, HasSubstr("+10.0 %"));
  EXPECT_THAT(page, HasSubstr("predicted (simulated): 19.0 ms"));
  EXPECT_THAT(page, HasSubstr("measured (in_memory): 19.0 ms"));
}

// What the allocator decides is a matter of program order; where a change stands is said.
TEST_F(PageTest, SaysWhoseTimeMemoryIsDrawnAt) {
  const RunData first = Written();
  EXPECT_THAT(Page({&first}), HasSubstr("rank 0, when the host makes each change"));
  report.set_memory_at_device(true);
  const RunData second = Written();
  const std::string by_device = Page({&second});
  EXPECT_THAT(by_device, HasSubstr("rank 0, when the device reaches each change"));
  EXPECT_THAT(by_device, Not(HasSubstr("when the host makes")));
}

TEST_F(PageTest, AFailureIsSaidFirst) {
  report.set_outcome(report::OUT_OF_MEMORY), report.set_message("rank 1 asked for 3 GiB");
  records.clear();
  const RunData run = Written();
  const std::string page = Page({&run});
  EXPECT_LT(page.find("OUT_OF_MEMORY"), page.find("Summary"));
  EXPECT_THAT(page, HasSubstr("rank 1 asked for 3 GiB"));
  EXPECT_THAT(page, Not(HasSubstr("Time line")));
}

TEST_F(PageTest, RefusesFoldersThatAreNotARuns) {
  EXPECT_FALSE(ReadRun("/nowhere").ok());
  Written();
  std::ofstream(folder + "/trace.json") << "{";
  EXPECT_THAT(std::string(ReadRun(folder).status().message()), HasSubstr("trace.json"));
  std::ofstream(folder + "/trace.json") << "{\"traceEvents\":[]}";
  std::ofstream(folder + "/memory.csv") << "rank,time,parameters,live,reserved\n0,1,2,x,4\n";
  EXPECT_THAT(std::string(ReadRun(folder).status().message()), HasSubstr("memory.csv: line 2"));
}

}  // namespace page_test
}  // namespace twofold::pictures
