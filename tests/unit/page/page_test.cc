#include "experiments/program/page/page.h"

#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/page/page_data.h"
#include "experiments/program/pictures/chart.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/memory_picture.h"
#include "experiments/program/pictures/timeline_picture.h"
#include "experiments/program/report/write_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::page {
namespace page_test {

using pictures::Chart;
using pictures::MemoryPicture;
using pictures::ReadRun;
using pictures::RunData;
using pictures::TimelinePicture;

using testing::ElementsAre;
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
    if (s.stream() == "compute") s.set_shape("3 x 4 x 5, f32");
    if (s.stream() != "compute") s.set_waiting(0.002), s.set_exposed(0.003), s.set_label("F3");
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
  const std::string page = PageOf({&run});
  for (const char* part : {"a &lt;b&gt; run", "3.2 million", "20.0 ms", "Time line", "Memory", "loss", "all_reduce",
                           "4.00 MiB", "a note &amp; more", "class TimeLine", "d3js.org"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  for (const char* outside : {"{{", "<link", " src=", "url(", "@import"}) EXPECT_THAT(page, Not(HasSubstr(outside)));
}

// ---- What the scripts read: the format that page_data.h states ----

std::string Unzipped(const std::string& base64) {
  std::string zipped, text(1 << 20, '\0');
  EXPECT_TRUE(absl::Base64Unescape(base64, &zipped));
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(zipped.data()), stream.avail_in = static_cast<uInt>(zipped.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data()), stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

struct Reading {
  explicit Reading(const std::string& all) : bytes(all) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length |= static_cast<size_t>(static_cast<unsigned char>(all[i])) << (8 * i);
    json = nlohmann::json::parse(all.substr(4, length));
    at = 4 + length;
  }
  uint64_t Next() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes.at(at++));
      value |= static_cast<uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  int64_t Signed() {
    const uint64_t value = Next();
    return value % 2 ? -static_cast<int64_t>(value / 2) - 1 : static_cast<int64_t>(value / 2);
  }
  std::vector<uint64_t> Column(size_t n) {
    std::vector<uint64_t> column(n);
    for (uint64_t& value : column) value = Next();
    return column;
  }
  const std::string bytes;
  nlohmann::json json;
  size_t at = 0;
};

TEST_F(PageTest, CarriesEverySpanAndEverySample) {
  AddSpan(records[0], "compute", "matmul_nn", 0.013, 0.0135);
  const RunData run = Written();
  Reading data(Unzipped(PageData({&run, &run})));
  ASSERT_EQ(data.json["runs"].size(), 2u);
  for (const nlohmann::json& of : data.json["runs"]) {
    EXPECT_EQ(of["report"]["world_size"], 2);
    EXPECT_EQ(of["report"]["steps"][1]["loss"], 4.5);
    EXPECT_EQ(of["kernel_classes"].size(), 0u);
    ASSERT_EQ(of["lanes"].size(), 4u);
    EXPECT_EQ(of["ranks"][1]["name"], "rank 1");
    const auto named = [&](uint64_t i) {
      return StrCat(of["class_names"][of["class_of"][i].get<size_t>()].get<std::string>(), " ",
                    of["names"][i].get<std::string>());
    };
    int64_t rank_begins = 0;
    for (size_t l = 0; l < 4; ++l) {
      const nlohmann::json& lane = of["lanes"][l];
      const size_t n = lane["count"];
      const bool compute = lane["stream"] == "compute";
      ASSERT_EQ(n, l == 0 ? 2u : 1u);
      rank_begins = l < 2 ? 0 : 1'000'000;
      std::vector<int64_t> starts(n);
      for (int64_t& start : starts) start = data.Signed();
      EXPECT_EQ(starts[0], rank_begins + (compute ? 0 : 10'000'000));
      if (n == 2) {
        EXPECT_EQ(starts[1], 1'000'000);  // since the end of the first
      }
      EXPECT_EQ(data.Column(n)[0], compute ? 12'000'000u : 8'000'000u);
      const std::vector<uint64_t> names = data.Column(n);
      EXPECT_EQ(named(names[0]), compute ? "product matmul_nt" : "communication all_reduce");
      if (n == 2) {
        EXPECT_EQ(named(names[1]), "product matmul_nn");
      }
      EXPECT_EQ(of["labels"][data.Column(n)[0]], compute ? "" : "F3");
      EXPECT_EQ(of["shapes"][data.Column(n)[0]], compute ? "3 x 4 x 5, f32" : "");
      EXPECT_EQ(data.Column(n)[0], 1024u);
      EXPECT_EQ(data.Column(n)[0], compute ? 0u : 2'000'000u);
      EXPECT_EQ(data.Column(n)[0], compute ? 0u : 3'000'000u);
    }
    for (int rank = 0; rank < 2; ++rank) {
      const int64_t from = rank * 1'000'000;
      for (const int64_t change : {from, int64_t{5'000'000}, int64_t{5'000'000}}) EXPECT_EQ(data.Signed(), change);
      for (int category = 0; category < 6; ++category)
        for (const int64_t change : {1 << 20, 1 << 20, -(1 << 20)}) EXPECT_EQ(data.Signed(), change);
      for (const int64_t change : {32 << 20, 0, 0}) EXPECT_EQ(data.Signed(), change);
    }
  }
  EXPECT_EQ(data.at, data.bytes.size());
}

// Two blocks, of which one is there throughout, in one segment.
void AddBlocks(report::RankRecord& record) {
  report::MemoryBlocks& b = *record.mutable_blocks();
  for (const char* module : {"a", "b"}) {
    report::MemoryOwner& owner = *b.add_owners();
    owner.set_pass("forward"), owner.set_module(module), owner.set_tensor("f32[8]"), owner.set_category("activations");
  }
  for (const int i : {0, 1}) {
    b.add_owner(1 - i), b.add_bytes(512 + i), b.add_segment(7), b.add_offset(1024 * i);
    b.add_first(i), b.add_end(3 - i);
  }
  b.add_segment_number(7), b.add_segment_bytes(2 << 20), b.add_segment_first(0), b.add_segment_end(3);
}

TEST_F(PageTest, CarriesTheBlocksOfARankThatKeptThem) {
  AddBlocks(records[1]);
  const RunData run = Written();
  ASSERT_EQ(run.blocks.size(), 1u);
  EXPECT_EQ(run.blocks.at(1).owners(1).module(), "b");
  Reading data(Unzipped(PageData({&run})));
  const nlohmann::json& memory = data.json["runs"][0]["memory"];
  EXPECT_FALSE(memory[0].contains("owners"));
  EXPECT_EQ(memory[1]["owners"][0]["tensor"], "f32[8]");
  EXPECT_EQ(memory[1]["blocks"], 2);
  EXPECT_EQ(memory[1]["segments"], 1);
  constexpr size_t kSamples = 3, kLanes = 4, kColumns = 8;
  data.Column(kLanes * kColumns + 2 * kSamples * (6 + 2));
  const auto is = [&](std::vector<uint64_t> expected) { EXPECT_EQ(data.Column(expected.size()), expected); };
  is({1, 0}), is({512, 513}), is({7, 7}), is({0, 1024});
  is({0, 2}), is({3, 1});  // first samples: differences, zigzag; numbers of samples
  is({7}), is({2 << 20}), is({0}), is({3});
  EXPECT_EQ(data.at, data.bytes.size());
}

TEST_F(PageTest, RefusesBlocksThatDoNotFitTheSamples) {
  AddBlocks(records[0]);
  records[0].mutable_blocks()->set_end(0, 4);
  EXPECT_TRUE(WriteReport(folder, report, spec::Spec(), records).ok());
  EXPECT_THAT(std::string(ReadRun(folder).status().message()),
              HasSubstr("memory_blocks.json.gz: rank 0: block 0: is at samples 0 to 4 of 3"));
}

TEST_F(PageTest, DrawsOnlyLossesThatWereRead) {
  for (int i : {0, 2}) report.mutable_steps(i)->clear_loss();
  const RunData run = Written();
  const std::string whole = PageOf({&run}), page = whole.substr(0, whole.find("<script"));
  for (const char* point : {"<title>step 1: 4.5</title>", "<title>step 3: 2.5</title>"})
    EXPECT_THAT(page, HasSubstr(point));
  for (const char* point : {"<title>step 0: 0</title>", "<title>step 2: 0</title>", "nan"})
    EXPECT_THAT(page, Not(HasSubstr(point)));
  for (int i : {1, 3}) report.mutable_steps(i)->set_loss(1);  // stand-ins
  const RunData symbolic = Written();
  EXPECT_THAT(PageOf({&symbolic}), Not(HasSubstr("<title>step 1: 1</title>")));
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
  const std::string page = PageOf({&predicted, &measured});
  EXPECT_THAT(page, HasSubstr("+10.0 %"));
  EXPECT_THAT(page, HasSubstr("<th>predicted (simulated)</th><th>measured (in_memory)</th>"));
}

TEST_F(PageTest, RunsOfOneKindAreToldApartByTheirFolders) {
  const auto titles = [run = Written()](const std::vector<std::string>& folders, size_t predicted = 0) {
    std::vector<RunData> runs(folders.size(), run);
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].folder = folders[i];
      runs[i].report.set_predicted(i < predicted);
    }
    TellApart(runs);
    std::vector<std::string> titles;
    for (const RunData& r : runs) titles.push_back(r.Title());
    return titles;
  };
  EXPECT_THAT(titles({"runs/a", "runs/b/"}), ElementsAre("measured (in_memory), a", "measured (in_memory), b"));
  EXPECT_THAT(titles({"1/measured", "2/measured"}),
              ElementsAre("measured (in_memory), 1/measured", "measured (in_memory), 2/measured"));
  EXPECT_THAT(titles({"a", "b"}, 1), ElementsAre("predicted (in_memory)", "measured (in_memory)"));
  RunData first = Written(), second = first;
  first.apart = "one<", second.apart = "two";
  const std::string page = PageOf({&first, &second});
  EXPECT_THAT(page, HasSubstr("<th>measured (in_memory), one&lt;</th><th>measured (in_memory), two</th>"));
  EXPECT_THAT(page, HasSubstr("<th>calls, one&lt;</th>"));
}

// What the allocator decides is a matter of program order; where a change stands is said.
TEST_F(PageTest, SaysWhoseTimeMemoryIsDrawnAt) {
  const RunData first = Written();
  EXPECT_THAT(MemoryPicture({&first}), HasSubstr("rank 0, when the host makes each change"));
  report.set_memory_at_device(true);
  const RunData second = Written();
  const std::string by_device = MemoryPicture({&second});
  EXPECT_THAT(by_device, HasSubstr("rank 0, when the device reaches each change"));
  EXPECT_THAT(by_device, Not(HasSubstr("when the host makes")));
}

TEST_F(PageTest, AFailureIsSaidFirst) {
  report.set_outcome(report::OUT_OF_MEMORY), report.set_message("rank 1 asked for 3 GiB");
  records.clear();
  const RunData run = Written();
  const std::string page = PageOf({&run});
  EXPECT_LT(page.find("OUT_OF_MEMORY"), page.find("Summary"));
  EXPECT_THAT(page, HasSubstr("rank 1 asked for 3 GiB"));
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
}  // namespace twofold::page
