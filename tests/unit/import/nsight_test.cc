// Exports of Nsight Systems as measured runs. The databases are made here, of the documented tables.
#include "experiments/program/import/nsight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "experiments/program/compare.h"
#include "experiments/program/import/kineto.h"
#include "experiments/program/measured_run.h"
#include "tests/nsight_database.h"

namespace twofold {
namespace nsight_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr double kMicro = 1e-6, kClose = 1e-12;
const MeasuredRunOptions kByIteration{
    .import = {.step = "iteration", .groups = {{"77", "dp"}}}, .name = "r", .spec = {}};

std::vector<RankTrace> TracesOf(const std::string& sql, const std::string& file = "f.sqlite") {
  absl::StatusOr<std::vector<RankTrace>> traces = ReadNsight(test::DatabaseOf(sql), file);
  EXPECT_TRUE(traces.ok()) << traces.status();
  return traces.ok() ? *std::move(traces) : std::vector<RankTrace>{};
}

MeasuredRun Imported(std::vector<RankTrace> traces, const MeasuredRunOptions& options = kByIteration) {
  absl::StatusOr<MeasuredRun> run = MeasuredRunOf(std::move(traces), options);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *std::move(run) : MeasuredRun{};
}

report::Report OfTheProfiler() {
  std::vector<RankTrace> traces;
  for (const char* name : {"ddp-rank0.json", "ddp-rank1.json"}) {
    std::stringstream text;
    text << std::ifstream(StrCat("tests/data/traces/", name)).rdbuf();
    traces.push_back(*ReadKineto(text.str(), name));
  }
  return Imported(std::move(traces), {.import = {}, .name = "r", .spec = {}}).report;
}

double Kernels(const report::Report& r, std::string_view part = "") {
  double seconds = 0;
  for (const report::KernelTotal& k : r.kernels())
    if (k.kernel().find(part) != std::string::npos) seconds += k.seconds();
  return seconds;
}

// The two programs' traces of one job: what a step consists of does not depend on who traced it.
TEST(Nsight, HasTheFiguresOfTheProfilersTraces) {
  const report::Report theirs = OfTheProfiler(), ours = Imported(TracesOf(test::NsightJob())).report;
  EXPECT_EQ(ours.fabric(), "nsight-systems");
  EXPECT_EQ(ours.imported_from(), "Nsight Systems");
  EXPECT_FALSE(ours.predicted());
  EXPECT_EQ(ours.device(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(ours.world_size(), 2);
  ASSERT_EQ(ours.steps_size(), 2);
  EXPECT_NEAR(ours.steps(0).seconds(), 1000 * kMicro, kClose) << "from its first kernel to the next step's";
  EXPECT_NEAR(ours.steps(1).seconds(), 900 * kMicro, kClose);
  for (int i = 0; i < 2; ++i) {
    EXPECT_NEAR(ours.steps(i).seconds(), theirs.steps(i).seconds(), kClose);
    EXPECT_NEAR(ours.steps(i).exposed_communication_seconds(), theirs.steps(i).exposed_communication_seconds(), kClose);
  }
  for (const char* part : {"", "nvjet", "Gelu", "Adam"})
    EXPECT_NEAR(Kernels(ours, part), Kernels(theirs, part), kClose);
  EXPECT_NEAR(ours.waiting_seconds(), theirs.waiting_seconds(), kClose);
  EXPECT_NEAR(ours.waiting_seconds(), 50 * kMicro, kClose);
  EXPECT_NEAR(ours.exposed_other_seconds(), 20 * kMicro, kClose) << "the copy from the host";
  ASSERT_EQ(ours.collectives_size(), 1);
  const report::Collective &call = ours.collectives(0), &theirs_call = theirs.collectives(0);
  EXPECT_EQ(call.operation(), "all_reduce");
  EXPECT_EQ(call.group(), "dp") << "--group=77=dp: the communicator of NCCL's range around the launch";
  EXPECT_EQ(call.count(), theirs_call.count());
  EXPECT_EQ(call.bytes(), theirs_call.bytes()) << "of the range's payload";
  EXPECT_NEAR(call.seconds(), theirs_call.seconds(), kClose);
  EXPECT_NEAR(call.exposed_seconds(), theirs_call.exposed_seconds(), kClose);
  EXPECT_THAT(ours.notes(), Contains("imported from 2 traces of Nsight Systems: f.sqlite: GPU 0 of process 4100, ..."));
  EXPECT_THAT(ours.notes(), Contains(HasSubstr("the trace has no memory: its figures are 0")));
}

TEST(Nsight, StreamsAndTheirSpansAreKept) {
  const MeasuredRun run = Imported(TracesOf(test::NsightJob()));
  ASSERT_EQ(run.records.size(), 2);
  std::vector<std::string> streams;
  for (const report::Span& s : run.records[1].record.spans()) {
    if (streams.empty() || streams.back() != s.stream()) streams.push_back(s.stream());
  }
  EXPECT_THAT(streams, ElementsAre("communication dp", "compute"));
}

TEST(Nsight, FilesOfSeveralMachinesAreOneJob) {
  // the first file is of process 4100 alone, the second of process 4101
  const std::string job = test::NsightJob();
  const auto only = [&](int64_t pid) {
    return StrCat(job, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE (globalPid >> 24) & 16777215 != ", pid,
                  ";\nDELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE (globalPid >> 24) & 16777215 != ", pid, ";\n");
  };
  std::vector<RankTrace> traces = TracesOf(only(4100), "a.sqlite");
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(traces[0].file, "a.sqlite");
  EXPECT_EQ(traces[0].launches.size(), 9u) << "those of the other process do not count";
  traces.push_back(TracesOf(only(4101), "b.sqlite").at(0));
  const report::Report apart = Imported(traces).report, together = Imported(TracesOf(job)).report;
  EXPECT_EQ(apart.world_size(), 2);
  EXPECT_NEAR(apart.waiting_seconds(), together.waiting_seconds(), kClose);
  EXPECT_NEAR(Kernels(apart), Kernels(together), kClose);
}

TEST(Nsight, OneProcessMayDriveSeveralGpus) {
  // all work is that of process 4100, on two devices; a third one is touched only
  const std::string touched =
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL SELECT start, start + 1000, 2, 1, 9, correlationId, globalPid, 4, 7, 1, "
      "1, 1 "
      "FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 1;\n";
  std::string one = StrCat(test::NsightJob(), touched);
  for (const char* table : {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY"})
    StrAppend(&one, "UPDATE ", table, " SET globalPid = (SELECT min(globalPid) FROM CUPTI_ACTIVITY_KIND_KERNEL);\n");
  const std::vector<RankTrace> traces = TracesOf(one);
  ASSERT_EQ(traces.size(), 2u);
  EXPECT_EQ(traces[0].file, "f.sqlite: GPU 0 of process 4100");
  EXPECT_EQ(traces[1].file, "f.sqlite: GPU 1 of process 4100");
  const report::Report r = Imported(traces).report;
  EXPECT_EQ(r.world_size(), 2);
  EXPECT_NEAR(r.waiting_seconds(), 50 * kMicro, kClose);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("the trace has little work of 1 other GPU in the same process")));
}

// Tables are written only if they have rows, and older versions have fewer columns.
TEST(Nsight, WhatIsNotThereIsDoneWithout) {
  const std::string job = test::NsightJob();
  std::string bare = job;
  for (const char* table : {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_MEMCPY",
                            "TARGET_INFO_GPU", "TARGET_INFO_CUDA_DEVICE", "TARGET_INFO_SESSION_START_TIME"})
    StrAppend(&bare, "DROP TABLE ", table, ";\n");
  MeasuredRunOptions whole = kByIteration;
  whole.import.step = "";
  const report::Report r = Imported(TracesOf(bare), whole).report;
  ASSERT_EQ(r.steps_size(), 1);
  EXPECT_NEAR(r.steps(0).seconds(), 1860 * kMicro, kClose) << "from 1100 to 2960";
  EXPECT_EQ(r.device(), "");
  ASSERT_EQ(r.collectives_size(), 1);
  EXPECT_EQ(r.collectives(0).operation(), "all_reduce") << "by the kernel's name";
  EXPECT_EQ(r.collectives(0).bytes(), 0);
  EXPECT_EQ(r.collectives(0).group(), "unknown group");
  EXPECT_THAT(r.notes(), Contains(HasSubstr("all of it is taken as one step")));
  EXPECT_THAT(r.notes(), Contains(HasSubstr("sizes of some collectives are not in the trace")));

  const std::string old =
      StrCat(job, "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid;\n",
             "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN demangledName;\n",
             "ALTER TABLE NVTX_EVENTS DROP COLUMN jsonTextId;\n", "ALTER TABLE NVTX_EVENTS DROP COLUMN jsonText;\n");
  const std::vector<RankTrace> traces = TracesOf(old);
  ASSERT_EQ(traces.size(), 2u) << "by the device";
  EXPECT_EQ(traces[0].device[0].name, "kernel") << "its short name";
  EXPECT_EQ(traces[0].launches.size(), 18u) << "of nobody knows which process";
}

TEST(Nsight, RangesAreSteps) {
  const std::string job = test::NsightJob();
  MeasuredRunOptions options = kByIteration;
  options.import.step = "step";
  EXPECT_EQ(
      MeasuredRunOf(TracesOf(job), options).status().message(),
      "f.sqlite: GPU 0 of process 4100: has no annotations called step (--step); it has iteration 5, iteration 6");
  // a mark, a range that nobody ended and one of another process are no steps
  const std::string more = StrCat(job, "INSERT INTO NVTX_EVENTS VALUES (900, 901, 34, 0, 0, 'iteration 1', ",
                                  (int64_t{1} << 48) | (int64_t{4100} << 24), ", 0, NULL, NULL, NULL);\n",
                                  "INSERT INTO NVTX_EVENTS VALUES (950, NULL, 60, 0, 0, 'iteration 2', ",
                                  (int64_t{1} << 48) | (int64_t{4100} << 24), ", 0, NULL, NULL, NULL);\n",
                                  "INSERT INTO NVTX_EVENTS VALUES (1000000, 3000000, 59, 0, 0, 'iteration 3', ",
                                  (int64_t{1} << 48) | (int64_t{9999} << 24), ", 0, NULL, NULL, NULL);\n");
  EXPECT_EQ(Imported(TracesOf(more)).report.steps_size(), 2);
}

TEST(Nsight, TracesOfSeveralProgramsAreRefused) {
  std::vector<RankTrace> mixed = TracesOf(test::NsightJob());
  mixed[1].program = "PyTorch's profiler";
  EXPECT_EQ(MeasuredRunOf(mixed, kByIteration).status().message(),
            "f.sqlite: GPU 1 of process 4101: is of PyTorch's profiler, but f.sqlite: GPU 0 of process 4100 of Nsight "
            "Systems; give traces of one program");
}

TEST(Nsight, SaysWhatIsWrongWithADatabase) {
  const auto refusal = [](const std::string& bytes) {
    return std::string(ReadNsight(bytes, "f.sqlite").status().message());
  };
  const auto after = [&](const std::string& sql) { return refusal(test::DatabaseOf(StrCat(test::NsightJob(), sql))); };
  EXPECT_EQ(refusal(""), "f.sqlite: is empty; give what nsys export --type=sqlite wrote");
  EXPECT_EQ(refusal(std::string(2000, 'x')),
            "f.sqlite: is not a SQLite database; give what nsys export --type=sqlite wrote");
  EXPECT_EQ(refusal(test::DatabaseOf("CREATE TABLE other (id INTEGER);\n")),
            "f.sqlite: has no table StringIds: it is no export of nsys; give what nsys export --type=sqlite wrote");
  EXPECT_EQ(after("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL;\n"),
            "f.sqlite: has no table CUPTI_ACTIVITY_KIND_KERNEL: no work of a GPU was traced; profile with nsys profile "
            "--trace=cuda,nvtx");
  EXPECT_EQ(refusal(test::DatabaseOf(std::string(test::kNsightTables))),
            "f.sqlite: has no kernels of a GPU; profile with nsys profile --trace=cuda,nvtx");
  EXPECT_THAT(after("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN streamId;\n"),
              HasSubstr("f.sqlite: CUPTI_ACTIVITY_KIND_KERNEL: has no column streamId; it has start, end, deviceId"));
  EXPECT_THAT(after("ALTER TABLE NVTX_EVENTS DROP COLUMN end;\n"),
              HasSubstr("f.sqlite: NVTX_EVENTS: has no column end"));
  EXPECT_THAT(after("ALTER TABLE CUPTI_ACTIVITY_KIND_MEMCPY DROP COLUMN copyKind;\n"),
              HasSubstr("f.sqlite: CUPTI_ACTIVITY_KIND_MEMCPY: has no column copyKind"));
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE rowid = 3;\n"),
            "f.sqlite: CUPTI_ACTIVITY_KIND_KERNEL row 3: start: soon is not a whole number");
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 7 WHERE rowid = 1;\n"),
            "f.sqlite: CUPTI_ACTIVITY_KIND_KERNEL row 1: end: 7 is before start, 1100000");
  EXPECT_EQ(after("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 99 WHERE rowid = 2;\n"),
            "f.sqlite: CUPTI_ACTIVITY_KIND_KERNEL row 2: demangledName: 99 is not in StringIds");
  EXPECT_THAT(after("UPDATE NVTX_EVENTS SET start = 9223372036854775807 WHERE rowid = 1;\n"),
              HasSubstr("f.sqlite: NVTX_EVENTS row 1: start: 9223372036854775807 is out of range"));
  EXPECT_THAT(after("UPDATE CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = -1;\n"),
              HasSubstr("f.sqlite: CUPTI_ACTIVITY_KIND_MEMCPY row 1: bytes: -1 is out of range"));
  EXPECT_THAT(after("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = -1;\n"),
              HasSubstr("TARGET_INFO_SESSION_START_TIME row 1: utcEpochNs: -1 is out of range"));
  EXPECT_THAT(std::string(ReadNsight("mine.nsys-rep").status().message()),
              HasSubstr("mine.nsys-rep: is a report of Nsight Systems; run nsys export --type=sqlite mine.nsys-rep"));
  std::string cut = test::DatabaseOf(test::NsightJob());
  EXPECT_THAT(refusal(cut.substr(0, 2000)),
              HasSubstr("f.sqlite: SQLite cannot read it: database disk image is malformed"));
}

TEST(Nsight, IsComparedWithAPrediction) {
  const MeasuredRun measured = Imported(TracesOf(test::NsightJob()));
  report::Report predicted;
  predicted.set_fabric("simulated"), predicted.set_predicted(true), predicted.set_world_size(2);
  predicted.set_median_step_seconds(1000 * kMicro), predicted.set_traced_step_seconds(1000 * kMicro);
  predicted.set_exposed_communication_seconds(300 * kMicro);
  report::KernelTotal& k = *predicted.add_kernels();
  k.set_kernel("matmul_nt"), k.set_seconds(650 * kMicro);
  report::Collective& c = *predicted.add_collectives();
  c.set_operation("all_reduce"), c.set_group("dp"), c.set_count(1), c.set_seconds(300 * kMicro);
  c.set_exposed_seconds(300 * kMicro);
  const Comparison out = Compare(predicted, spec::Spec(), measured.report, measured.spec);
  for (const auto side : {&ComparedValue::predicted, &ComparedValue::measured}) {
    double parts = 0, kernels = 0;
    for (const ComparedValue& v : out.step_parts) parts += v.*side;
    for (const ComparedValue& v : out.kernels) kernels += v.*side;
    EXPECT_NEAR(parts, out.values[0].*side, kClose);
    EXPECT_NEAR(kernels, out.step_parts[0].*side, kClose);
  }
  std::vector<std::string> rows;
  for (const ComparedValue& v : out.kernels) rows.push_back(v.name);
  EXPECT_THAT(rows, UnorderedElementsAre("products", "element by element", "optimizer"));
}

}  // namespace nsight_test
}  // namespace twofold
