// Many damaged traces of PyTorch's profiler, plain and in gzip: each becomes a run whose parts add up to its steps, or
// a message that names the file.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/import/kineto.h"
#include "experiments/program/import/to_record.h"
#include "experiments/program/report/gzip.h"
#include "tests/fuzz/mutate.h"

namespace twofold {
namespace kineto_fuzz {

constexpr std::string_view kWords[] = {"{",
                                       "}",
                                       "[",
                                       "]",
                                       ",",
                                       "\"",
                                       "null",
                                       "true",
                                       "\"ph\":\"X\"",
                                       "\"pid\":\"CPU functions\",",
                                       "\"cat\":\"kernel\",",
                                       "\"cat\":\"cpu_op\",",
                                       "\"ts\":-1,",
                                       "\"dur\":1e15,",
                                       "\"dur\":0,",
                                       "\"args\":{\"stream\":9223372036854775807},",
                                       "\"correlation\":1,",
                                       "\"In msg nelems\":4611686018427387904,",
                                       "\"Group size\":-1,",
                                       "\"Total Allocated\":-1,",
                                       "\"baseTimeNanoseconds\":9e18,",
                                       "\"name\":\"ProfilerStep#9\",",
                                       "\"name\":\"ncclDevKernel_AllReduce\",",
                                       "\"traceEvents\":[],",
                                       "\"world_size\":0,",
                                       "\xff"};

std::string File(const std::string& name) {
  std::ifstream file(StrCat("tests/data/traces/", name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Every figure is finite, and kernels and exposed communication take no more than the steps.
void Check(const report::RankRecord& record) {
  double steps = 0, exposed = 0, kernels = 0;
  for (const report::Step& s : record.steps()) {
    ASSERT_TRUE(std::isfinite(s.seconds()) && s.seconds() >= 0);
    steps += s.seconds(), exposed += s.exposed_communication_seconds();
  }
  for (const report::KernelTotal& k : record.kernels()) {
    ASSERT_TRUE(std::isfinite(k.seconds()) && k.seconds() >= 0) << k.kernel();
    kernels += k.seconds() * record.steps_size();
  }
  ASSERT_GT(steps, 0);
  ASSERT_LE(kernels + exposed, steps * (1 + 1e-9));
  double of_calls = 0;
  for (const report::Span& s : record.spans()) {
    ASSERT_TRUE(std::isfinite(s.start()) && s.end() >= s.start()) << s.name();
    of_calls += s.exposed();
  }
  ASSERT_LE(of_calls, exposed * (1 + 1e-9) + 1e-12);
  for (const report::Collective& c : record.collectives()) ASSERT_GE(c.bytes(), 0);
}

TEST(KinetoFuzz, EveryTraceIsARunOrRefused) {
  const std::vector<std::string> good = {File("ddp-rank0.json"), File("old-categories.json"), File("own-steps.json"),
                                         File("legacy-cpu.json")};
  test::Mutator mutator(TestSeed(), {.words = kWords});
  test::Mutator of_gzip(TestSeed(1), {.numbers = false});
  std::vector<std::string> zipped;
  for (const std::string& text : good) zipped.push_back(Gzip(text));
  int runs = 0;
  for (int i = 0; i < Mutants(); ++i) {
    const size_t which = static_cast<size_t>(i) % good.size();
    const std::string text = i % 16 == 15 ? of_gzip.Damage(zipped[which]) : mutator.Damage(good[which]);
    const absl::StatusOr<RankTrace> trace = ReadKineto(text, "f.json");
    const absl::StatusOr<report::RankRecord> record =
        trace.ok() ? ToRecord(*trace, {.step = i % 2 == 0 ? "" : "train_step", .groups = {}})
                   : absl::StatusOr<report::RankRecord>(trace.status());
    if (!record.ok()) {
      ASSERT_EQ(record.status().code(), absl::StatusCode::kInvalidArgument) << text;
      ASSERT_EQ(record.status().message().find("f.json:"), 0u) << record.status() << "\n" << text;
      continue;
    }
    ++runs;
    Check(*record);
    if (::testing::Test::HasFatalFailure()) FAIL() << text;
  }
  EXPECT_GT(runs, Mutants() / 10) << "the mutations no longer leave readable traces";
  EXPECT_LT(runs, Mutants());
}

}  // namespace kineto_fuzz
}  // namespace twofold
