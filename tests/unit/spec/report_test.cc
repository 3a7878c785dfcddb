// Reports as JSON, tables and traces: what is written, that it reads back, and that the bytes are always the
// same.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "core/base/strings.h"
#include "core/memory/ledger.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/rank_records.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/tables.h"
#include "experiments/program/report/trace.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace report_test {

namespace fs = std::filesystem;
using ::google::protobuf::util::MessageDifferencer;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;
using Json = nlohmann::ordered_json;

report::Report ExampleReport() {
  report::Report report;
  report.set_schema_version(kReportSchemaVersion);
  report.set_name("example");
  report.set_fabric("simulated");
  report.set_predicted(true);
  report.set_outcome(report::DEADLOCK);
  report.set_message("rank 1 waits, \"all\" of it");
  report.set_world_size(2);
  report.set_median_step_seconds(0.1);
  report.set_parameters((int64_t{1} << 53) + 1);  // not a double
  report.add_notes("a note");
  for (double loss : {5.5, 1.0 / 3}) {
    report::Step& step = *report.add_steps();
    step.set_seconds(1e-7);
    step.set_loss(loss);
    step.set_exposed_communication_seconds(0);
  }
  report::Rank& rank = *report.add_ranks();
  rank.set_peak_bytes(int64_t{5} << 40);
  rank.add_categories()->set_name("parameters");
  report::Collective& collective = *report.add_collectives();
  collective.set_operation("all_reduce");
  collective.set_group("dp, \"first\"");
  collective.set_count(3);
  collective.set_bytes(4096);
  collective.set_seconds(0.25);
  return report;
}

report::Span& AddSpan(report::RankRecord& record, const char* stream, const char* name, double start, double end) {
  report::Span& span = *record.add_spans();
  span.set_stream(stream);
  span.set_name(name);
  span.set_start(start);
  span.set_end(end);
  return span;
}

std::vector<report::RankRecord> ExampleRecords() {
  std::vector<report::RankRecord> records(2);
  for (int r = 0; r < 2; ++r) {
    records[r].set_rank(r);
    records[r].set_trace_origin_seconds(10 + 0.5 * r);
    AddSpan(records[r], "dp", "all_reduce", 0.25, 0.5).set_bytes(4096);
    AddSpan(records[r], "compute", "matmul", 0, 0.25);
    report::MemorySample& sample = *records[r].add_samples();
    sample.set_time(0.125);
    for (int64_t bytes : {512, 0, 0, 1024, 0, 0}) sample.add_live_by_category(bytes);
    sample.set_reserved(1 << 21);
  }
  return records;
}

spec::Spec ExampleSpec() { return *ResolveSpec("model { preset: \"gpt-3m\" }", "example.textproto"); }

std::string Text(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

// ---- JSON ----
TEST(ReportJson, HasEveryScalarAndList) {
  const Json json = ToJson(report::Report());
  // All but best, last, load, codec and async_sgd, which are blocks
  EXPECT_EQ(json.size() + 5, static_cast<size_t>(report::Report::descriptor()->field_count()));
  EXPECT_EQ(json["world_size"], 0);
  EXPECT_TRUE(json["world_size"].is_number_integer());
  EXPECT_TRUE(json["median_step_seconds"].is_number_float());
  EXPECT_EQ(json["predicted"], false);
  EXPECT_EQ(json["outcome"], "OK");
  EXPECT_EQ(json["steps"], Json::array());
}

TEST(ReportJson, UnsetBlocksAreLeftOutAndDefaultsShown) {
  spec::Spec spec;
  EXPECT_FALSE(ToJson(spec).contains("model"));
  spec.mutable_train();
  EXPECT_EQ(ToJson(spec)["train"]["steps"], 20);
  EXPECT_FALSE(ToJson(spec)["train"].contains("optimizer"));
}

TEST(ReportJson, ReadsBackAsItWas) {
  const report::Report report = ExampleReport();
  const Json json = ToJson(report);
  report::Report again;
  ASSERT_TRUE(FromJson(Json::parse(JsonText(json)), &again).ok());
  EXPECT_EQ(JsonText(ToJson(again)), JsonText(json));
  EXPECT_EQ(again.parameters(), (int64_t{1} << 53) + 1);
  EXPECT_EQ(again.steps(1).loss(), 1.0 / 3);
  EXPECT_EQ(again.outcome(), report::DEADLOCK);
}

TEST(ReportJson, NumbersAreNumbersInFull) {
  report::Report report = ExampleReport();
  report.set_parameters(std::numeric_limits<int64_t>::min());
  const std::string text = JsonText(ToJson(report));
  EXPECT_THAT(text, HasSubstr("\"parameters\": -9223372036854775808,"));
  EXPECT_THAT(text, HasSubstr("\"loss\": 0.3333333333333333,"));
  EXPECT_THAT(text, HasSubstr("\"seconds\": 1e-07,"));
  spec::Train train;
  train.set_seed(~uint64_t{0});
  EXPECT_THAT(JsonText(ToJson(train)), HasSubstr("\"seed\": 18446744073709551615,"));
  spec::Train again;
  ASSERT_TRUE(FromJson(ToJson(train), &again).ok());
  EXPECT_EQ(again.seed(), ~uint64_t{0});
}

TEST(ReportJson, WhatIsNotFiniteIsNullAndReadsAsNan) {
  report::Step step;
  step.set_seconds(std::numeric_limits<double>::infinity());
  step.set_loss(std::nan(""));
  const Json json = ToJson(step);
  EXPECT_TRUE(json["seconds"].is_null());
  EXPECT_TRUE(json["loss"].is_null());
  ASSERT_TRUE(FromJson(json, &step).ok());
  EXPECT_TRUE(std::isnan(step.seconds()));
}

// A loss that the host did not read is in no file: it is neither 0 nor the null of one that is not finite.
TEST(ReportJson, LeavesOutALossThatWasNotRead) {
  report::Report report = ExampleReport();
  report.mutable_steps(0)->clear_loss();
  const Json json = ToJson(report);
  EXPECT_FALSE(json["steps"][0].contains("loss"));
  EXPECT_TRUE(json["steps"][0].contains("seconds"));
  EXPECT_EQ(json["steps"][1]["loss"], 1.0 / 3);
  report::Report again;
  ASSERT_TRUE(FromJson(json, &again).ok());
  EXPECT_FALSE(again.steps(0).has_loss());
  EXPECT_THAT(LossesRead(again), ElementsAre(1.0 / 3));
  EXPECT_THAT(StepsCsv(again), HasSubstr("\n0,1e-07,,0\n1,1e-07,0.3333333333333333,0\n"));
}

TEST(ReportJson, RefusesWhatDoesNotFitAndSaysWhere) {
  report::Report report;
  const auto refused = [&report](const char* text) {
    const absl::Status status = FromJson(Json::parse(text), &report);
    EXPECT_FALSE(status.ok()) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(R"({"world_sizes": 1})"), AllOf(HasSubstr("world_sizes"), HasSubstr("no such field")));
  EXPECT_THAT(refused(R"({"steps": [{"loss": 1}, {"loss": "x"}]})"),
              AllOf(HasSubstr("steps[1].loss"), HasSubstr("a number")));
  EXPECT_THAT(refused(R"({"world_size": 1.5})"),
              AllOf(HasSubstr("world_size: expected a whole number"), HasSubstr("(got 1.5)")));
  EXPECT_THAT(refused(R"({"world_size": 9223372036854775808})"), HasSubstr("a whole number of 64 bits"));
  EXPECT_THAT(refused(R"({"world_size": null})"), HasSubstr("a whole number"));
  EXPECT_THAT(refused(R"({"outcome": "FINE"})"), HasSubstr("expected a value of Outcome (got \"FINE\")"));
  EXPECT_THAT(refused(R"({"steps": {}})"), HasSubstr("a list"));
  EXPECT_THAT(refused(R"({"name": 3})"), HasSubstr("text"));
  EXPECT_THAT(refused(R"({"predicted": 1})"), HasSubstr("true or false"));
  EXPECT_THAT(refused("[]"), HasSubstr("an object"));
}

// ---- CSV ----
TEST(ReportTables, Steps) {
  EXPECT_EQ(StepsCsv(ExampleReport()),
            "step,seconds,loss,exposed_communication_seconds\n"
            "0,1e-07,5.5,0\n"
            "1,1e-07,0.3333333333333333,0\n");
  report::Report report;
  report.add_steps()->set_loss(std::nan(""));
  EXPECT_THAT(StepsCsv(report), HasSubstr("\n0,0,,0\n"));
}

TEST(ReportTables, ValidationLeavesEmptyWhatAModelHasNot) {
  report::Report report;
  EXPECT_EQ(ValidationCsv(report), "step,loss,accuracy,perplexity,seconds\n");
  report::Validation* v = report.add_validations();
  v->set_step(40);
  v->set_loss(0.5);
  v->set_accuracy(0.75);
  v->set_seconds(2);
  EXPECT_THAT(ValidationCsv(report), HasSubstr("\n40,0.5,0.75,,2\n"));
  EXPECT_EQ(ToJson(report)["validations"][0]["perplexity"], nullptr);
}

TEST(ReportTables, CollectivesQuoteWhatNeedsIt) {
  EXPECT_EQ(CollectivesCsv(ExampleReport()),
            "operation,group,count,bytes,seconds\n"
            "all_reduce,\"dp, \"\"first\"\"\",3,4096,0.25\n");
}

TEST(ReportTables, MemoryCountsFromTheEarliestRank) {
  EXPECT_EQ(MemoryCsv(ExampleRecords()),
            "rank,time,parameters,gradients,optimizer_state,activations,communication,other,live,reserved\n"
            "0,0.125,512,0,0,1024,0,0,1536,2097152\n"
            "1,0.625,512,0,0,1024,0,0,1536,2097152\n");
}

// ---- Trace ----
std::vector<Json> Events(const std::string& trace, const std::string& kind) {
  std::vector<Json> events;
  const Json parsed = Json::parse(trace);
  for (const Json& event : parsed["traceEvents"]) {
    if (event["ph"] == kind) events.push_back(event);
  }
  return events;
}

TEST(ReportTrace, NamesRanksAndStreams) {
  std::vector<std::string> names;
  for (const Json& event : Events(TraceJson(ExampleRecords()), "M")) {
    const std::string name = event["name"];
    if (name == "process_name")
      names.push_back(std::to_string(int{event["pid"]}) + " " + std::string(event["args"]["name"]));
    if (name == "thread_name") {
      names.push_back(std::to_string(int{event["pid"]}) + "." + std::to_string(int{event["tid"]}) + " " +
                      std::string(event["args"]["name"]));
    }
  }
  EXPECT_THAT(names, UnorderedElementsAre("0 rank 0", "0.0 compute", "0.1 dp", "1 rank 1", "1.0 compute", "1.1 dp"));
}

TEST(ReportTrace, SpansAreMicrosecondsFromTheEarliestRank) {
  const std::vector<Json> events = Events(TraceJson(ExampleRecords()), "X");
  ASSERT_EQ(events.size(), 4u);
  const Json& reduce = events[2];  // rank 1's first
  EXPECT_EQ(reduce["name"], "all_reduce");
  EXPECT_EQ(reduce["pid"], 1);
  EXPECT_EQ(reduce["tid"], 1);
  EXPECT_EQ(reduce["ts"], 750000.0);
  EXPECT_EQ(reduce["dur"], 250000.0);
  EXPECT_EQ(reduce["args"]["bytes"], 4096);
  EXPECT_EQ(Events(TraceJson(ExampleRecords()), "C").size(), 2u);
}

// Perfetto counts whole nanoseconds, truncated, and drops a span that begins before the one ahead of it ends.
TEST(ReportTrace, SpansThatFollowOneAnotherDoNotOverlap) {
  report::RankRecord record;
  double time = 0;
  for (int i = 0; i < 5000; ++i) {
    report::Span* span = record.add_spans();
    span->set_stream("compute");
    span->set_name("op");
    span->set_start(time);
    time += 1e-6 * (1 + 0.37 * (i % 11)) / 3;
    span->set_end(time);
  }
  int64_t end = 0;
  for (const Json& event : Events(TraceJson(std::vector{record}), "X")) {
    const auto start = static_cast<int64_t>(event["ts"].get<double>() * 1000);
    EXPECT_GE(start, end);
    end = start + static_cast<int64_t>(event["dur"].get<double>() * 1000);
  }
  EXPECT_NEAR(static_cast<double>(end) * 1e-9, time, 2e-9);
}

TEST(ReportTrace, IsValidForNothingAndLeavesOutWhatHasNoTime) {
  EXPECT_TRUE(Json::parse(TraceJson({}))["traceEvents"].empty());
  std::vector<report::RankRecord> records(1);
  AddSpan(records[0], "compute", "lost", 0, std::nan(""));
  AddSpan(records[0], "compute", "backwards", 2, 1);
  const std::vector<Json> events = Events(TraceJson(records), "X");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["dur"], 0.0);
}

// ---- Ranks that share a record ----
// 2,048 ranks, of whom every other one shares rank 0's and the rest rank 1's; rank 0's own was traced.
RankRecords SharedRecords() {
  RankRecords records;
  std::vector<report::RankRecord> two = ExampleRecords();
  two[1].mutable_memory()->set_peak_bytes(7);
  for (report::RankRecord& record : two) records.Keep(std::move(record));
  for (int rank = 0; rank < 2048; ++rank) records.Add(rank, static_cast<size_t>(rank % 2), rank == 0);
  return records;
}

std::string Progressions(const std::vector<int64_t>& ranks) {
  std::string text;
  for (const report::RankRange& r : RangesOf(ranks)) StrAppend(&text, r.first(), "-", r.last(), "/", r.stride(), " ");
  return text;
}

TEST(RankRows, RangesAreFewProgressions) {
  EXPECT_EQ(Progressions({3}), "3-3/1 ");
  EXPECT_EQ(Progressions({0, 1, 2, 3}), "0-3/1 ");
  EXPECT_EQ(Progressions({4, 6, 8}), "4-8/2 ");
  EXPECT_EQ(Progressions({0, 1, 2, 8, 9, 10}), "0-2/1 8-10/1 ");
  EXPECT_EQ(Progressions({0, 1, 8, 9, 16, 17}), "0-16/8 1-17/8 ");
  EXPECT_EQ(Progressions({0, 1, 2, 7, 11}), "0-2/1 7-11/4 ");
}

TEST(RankRows, OfMoreThanAThousandRanksEqualOnesShareARow) {
  report::Report report = ExampleReport();
  report.clear_ranks(), report.set_world_size(2048);
  AddRankRows(SharedRecords(), report);
  ASSERT_EQ(report.ranks_size(), 2);
  EXPECT_EQ(ToJson(report)["ranks"][1]["rank"], 1);
  EXPECT_EQ(ToJson(report)["ranks"][1]["peak_bytes"], 7);
  EXPECT_EQ(ToJson(report)["ranks"][1]["stands_for"].dump(),
            R"({"count":1024,"ranges":[{"first":1,"last":2047,"stride":2}]})");
  EXPECT_TRUE(CheckRankRows(report).ok()) << CheckRankRows(report);
  const std::vector<const report::Rank*> rows = RowsByRank(report);
  ASSERT_EQ(rows.size(), 2048u);
  EXPECT_EQ(rows[2046], &report.ranks(0));
  EXPECT_EQ(rows[2047], &report.ranks(1));
}

TEST(RankRows, UpToAThousandEachHasItsOwnAsBefore) {
  report::Report report;
  AddRankRows(RankRecords(std::vector<report::RankRecord>(kListedRanks)), report);
  ASSERT_EQ(report.ranks_size(), static_cast<int>(kListedRanks));
  EXPECT_FALSE(ToJson(report)["ranks"][0].contains("stands_for"));
}

TEST(RankRows, WrongOnesAreRefused) {
  report::Report right = ExampleReport();
  right.clear_ranks(), right.set_world_size(2048);
  AddRankRows(SharedRecords(), right);
  const auto message = [&](auto damage) {
    report::Report report = right;
    damage(report);
    return std::string(CheckRankRows(report).message());
  };
  const auto range = [](report::Report& r) { return r.mutable_ranks(1)->mutable_stands_for()->mutable_ranges(0); };
  EXPECT_EQ(message([&](report::Report& r) { range(r)->set_last(2048); }),
            "ranks[1].stands_for.ranges[0].last: 2048 is out of range; expected 1 to 2047");
  EXPECT_THAT(message([&](report::Report& r) { range(r)->set_stride(0); }),
              HasSubstr("ranks[1].stands_for.ranges[0].stride: 0 is out of range"));
  EXPECT_THAT(message([&](report::Report& r) { range(r)->set_stride(1); }),
              HasSubstr("ranks[1].stands_for: rank 2046 already has a row"));
  EXPECT_THAT(message([&](report::Report& r) { range(r)->set_last(2045); }),
              HasSubstr("ranks[1].stands_for.count: 1024 is out of range; expected 1023"));
}

TEST(ReportTrace, IsOfTracedRanksAlone) {
  const std::vector<Json> named = Events(TraceJson(SharedRecords()), "M");
  ASSERT_FALSE(named.empty());
  EXPECT_EQ(named[0]["args"]["name"], "rank 0 and 1023 like it");
  for (const Json& event : named) EXPECT_EQ(event["pid"], 0);
  EXPECT_EQ(Events(TraceJson(SharedRecords()), "X").size(), 2u);
  EXPECT_THAT(MemoryCsv(SharedRecords()), HasSubstr("\n0,0.125,512,"));
  EXPECT_THAT(MemoryCsv(SharedRecords()), Not(HasSubstr("\n1,")));
}

// ---- The folder ----
TEST(WriteReport, LeavesNoTraceWhereNoneIsAskedFor) {
  const std::string folder = test::ScratchFolder("untraced");
  ASSERT_TRUE(WriteReport(folder, ExampleReport(), ExampleSpec(), ExampleRecords()).ok());
  ASSERT_TRUE(fs::exists(folder + "/trace.json"));
  spec::Spec spec = ExampleSpec();
  spec.mutable_trace()->set_enabled(false);
  ASSERT_TRUE(WriteReport(folder, ExampleReport(), spec, ExampleRecords()).ok());
  EXPECT_FALSE(fs::exists(folder + "/trace.json")) << "that of the run before";
  EXPECT_TRUE(WriteReport(folder, ExampleReport(), spec, ExampleRecords()).ok()) << "there is none to remove";
}

TEST(WriteReport, WritesEveryFileAndNothingElse) {
  const std::string folder = test::ScratchFolder("all") + "/deeper";
  ASSERT_TRUE(WriteReport(folder, ExampleReport(), ExampleSpec(), ExampleRecords()).ok());
  std::vector<std::string> names;
  for (const auto& file : fs::directory_iterator(folder)) names.push_back(file.path().filename());
  EXPECT_THAT(names, UnorderedElementsAre("report.json", "steps.csv", "validation.csv", "memory.csv", "collectives.csv",
                                          "trace.json", "spec.textproto"));
  const absl::StatusOr<report::Report> report = ReadReport(folder);
  ASSERT_TRUE(report.ok()) << report.status();
  report::Report expected = ExampleReport();
  expected.add_note_names("other");
  EXPECT_EQ(JsonText(ToJson(*report)), JsonText(ToJson(expected)));
  const absl::StatusOr<spec::Spec> spec = LoadSpec(folder + "/spec.textproto");
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(MessageDifferencer::Equals(*spec, ExampleSpec()));
}

TEST(WriteReport, GivesTheSameBytesAgain) {
  const std::string a = test::ScratchFolder("same_a"), b = test::ScratchFolder("same_b");
  for (const std::string& folder : {a, b, b}) {
    ASSERT_TRUE(WriteReport(folder, ExampleReport(), ExampleSpec(), ExampleRecords()).ok());
  }
  for (const auto& file : fs::directory_iterator(a)) {
    EXPECT_EQ(Text(file.path()), Text(b + "/" + file.path().filename().string()));
  }
}

TEST(WriteReport, NamesThePathThatCannotBeWritten) {
  const std::string folder = test::ScratchFolder("blocked");
  fs::create_directories(folder);
  ASSERT_TRUE(WriteFiles(folder, {{"plain", "a file"}}).ok());
  const absl::Status in_file = WriteReport(folder + "/plain", ExampleReport(), ExampleSpec(), {});
  EXPECT_THAT(std::string(in_file.message()), HasSubstr(folder + "/plain"));
  EXPECT_FALSE(in_file.ok());
  fs::create_directories(folder + "/steps.csv/occupied");
  const absl::Status over_folder = WriteReport(folder, ExampleReport(), ExampleSpec(), {});
  EXPECT_THAT(std::string(over_folder.message()), HasSubstr(folder + "/steps.csv"));
  EXPECT_FALSE(fs::exists(folder + "/report.json"));
  EXPECT_FALSE(fs::exists(folder + "/report.json.part"));
}

TEST(ReadReport, NamesTheFileAndWhatIsWrong) {
  EXPECT_THAT(std::string(ReadReport("no/such").status().message()),
              AllOf(HasSubstr("no/such/report.json"), HasSubstr("twofold run")));
  const std::string folder = test::ScratchFolder("wrong");
  const auto message = [&folder](const std::string& text) {
    EXPECT_TRUE(WriteFiles(folder, {{"report.json", text}}).ok());
    return std::string(ReadReport(folder).status().message());
  };
  EXPECT_THAT(message("no JSON"), AllOf(HasSubstr(folder), HasSubstr("byte 2: is not JSON")));
  EXPECT_THAT(message(""), HasSubstr("report.json: is empty"));
  const std::string whole = JsonText(ToJson(ExampleReport()));
  EXPECT_EQ(message(whole), "");
  for (const size_t size : {1, 100, 500})
    EXPECT_THAT(message(whole.substr(0, size)), HasSubstr(StrCat("ends at byte ", size, " and seems to be cut short")));
  EXPECT_THAT(message(R"({"schema_version": 1, "stepz": []})"), AllOf(HasSubstr(folder), HasSubstr("stepz")));
  EXPECT_THAT(message(R"({"schema_version": 2, "stepz": []})"),
              HasSubstr("schema_version 2 is of a later version of Twofold"));
  EXPECT_THAT(message(R"({"schema_version": 0})"), HasSubstr("schema_version 0 never existed; this program reads 1"));
  EXPECT_THAT(message(R"({"name": "x"})"), HasSubstr("schema_version: is missing"));
  EXPECT_THAT(message("[]"), HasSubstr("the whole file: expected an object (got [])"));
}

TEST(ReadReport, NamesTheFieldThatIsMissingOrOutOfRange) {
  const std::string folder = test::ScratchFolder("damaged");
  const auto message = [&folder](auto damage) {
    Json json = ToJson(ExampleReport());
    damage(json);
    EXPECT_TRUE(WriteFiles(folder, {{"report.json", JsonText(json)}}).ok());
    return std::string(ReadReport(folder).status().message());
  };
  for (const char* field : {"predicted", "world_size", "median_step_seconds", "ranks", "steps"}) {
    EXPECT_THAT(message([&](Json& j) { j.erase(field); }), HasSubstr(StrCat("report.json: ", field, ": is missing")));
  }
  for (const char* field : {"median_step_seconds", "low", "high"}) {
    EXPECT_THAT(message([&](Json& j) { j[field] = -1; }),
                HasSubstr(StrCat("report.json: ", field, ": -1 is out of range; expected 0 or more")));
    EXPECT_THAT(message([&](Json& j) { j[field] = nullptr; }), HasSubstr(StrCat(field, ": nan is out of range")));
  }
  EXPECT_THAT(message([](Json& j) { j["world_size"] = 0; }),
              HasSubstr("world_size: 0 is out of range; expected 1 or more"));
  EXPECT_THAT(message([](Json& j) { j["steps"][1]["seconds"] = -2; }),
              HasSubstr("steps[1].seconds: -2 is out of range"));
  EXPECT_THAT(message([](Json& j) { j["ranks"][0]["rank"] = 2; }),
              HasSubstr("ranks[0].rank: 2 is out of range; expected 0 to 1"));
  EXPECT_THAT(message([](Json& j) { j["ranks"].push_back(j["ranks"][0]); }),
              HasSubstr("ranks[1].rank: 0 is out of range; expected 1 to 1"));
  EXPECT_THAT(message([](Json& j) { j["ranks"][0]["peak_bytes"] = -5; }),
              HasSubstr("ranks[0].peak_bytes: -5 is out of range"));
  EXPECT_THAT(message([](Json& j) { j["ranks"] = Json::array(); }), "") << "a run that failed early has none";
  EXPECT_THAT(message([](Json& j) { j["ranks"] = Json::array(), j["outcome"] = "OK"; }),
              HasSubstr("ranks: is empty, although outcome is OK"));
}

}  // namespace report_test
}  // namespace twofold
