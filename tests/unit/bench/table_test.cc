// What is printed, from given figures.
#include "experiments/program/bench/table.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::bench {
namespace table_test {

using testing::HasSubstr;

// 4 ranks gather 4 KB in 2 us (2 GB/s) and, in place, 1 us; and 64 KB in 10 us and 8 us, of which 3 elements are wrong.
Bench Gathered() {
  Bench bench;
  bench.request.operation = FindOperation("all_gather");
  bench.fabric = "in_memory";
  bench.ranks = 4;
  bench.sweep = {.least = 4000, .most = 64000, .step = 0, .factor = 16};
  bench.rows = {{.bytes = 4000, .block = 250, .out_of_place = Timing{2e-6, 0}, .in_place = Timing{1e-6, 0}},
                {.bytes = 64000, .block = 4000, .out_of_place = Timing{10e-6, 0}, .in_place = Timing{8e-6, 3}}};
  return bench;
}

Bench Predicted() {
  Bench bench;
  bench.request.operation = FindOperation("reduce");
  bench.request.dtype = DType::kBF16;
  bench.request.reduce = ReduceOp::kProduct;
  bench.request.root = 2;
  bench.request.check = false;
  bench.request.iterations = 1;
  bench.request.warmup = 0;
  bench.request.last_rank = true;
  bench.fabric = "simulated";
  bench.cluster = "star-a100";
  bench.algorithm = "ring";
  bench.predicted = true;
  bench.ranks = 4;
  bench.notes = {"links are assumed"};
  bench.rows = {{.bytes = 1 << 20, .block = 1 << 19, .in_place = Timing{.seconds = 0.125}}};
  return bench;
}

TEST(Table, IsThatOfNcclTests) {
  EXPECT_EQ(
      RowsText(Gathered()),
      "#                                                               out-of-place                     in-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)\n"
      "        4000           250     float    none      -1     2.00    2.00    1.50       0     1.00    4.00    3.00  "
      "     0\n"
      "       64000          4000     float    none      -1    10.00    6.40    4.80       0     8.00    8.00    6.00  "
      "     3\n");
}

TEST(Table, SaysWhatRanOnWhat) {
  EXPECT_EQ(HeaderText(Gathered()),
            "# twofold bench all_gather on in_memory: 4 ranks, measured\n"
            "# minBytes 4000 maxBytes 64000 step: 16(factor) warmup iters: 5 iters: 20 validation: 1\n"
            "# time: mean over iterations and ranks; calls are issued while the ones before them run (--wait: one at a "
            "time)\n"
            "#\n");
  const std::string predicted = HeaderText(Predicted());
  EXPECT_THAT(predicted, HasSubstr("reduce on simulated: 4 ranks of cluster star-a100, algorithm ring, predicted\n"));
  EXPECT_THAT(predicted, HasSubstr("# time: virtual, mean over iterations, until the last rank is done; "));
  EXPECT_THAT(predicted, HasSubstr("# out-of-place: N/A, reduce only works in place"));
  EXPECT_THAT(predicted, HasSubstr("# #wrong: N/A"));
  EXPECT_THAT(predicted, HasSubstr("# note: links are assumed\n"));
}

TEST(Table, SaysWhichWayEachSizeRan) {
  Bench bench = Predicted();
  bench.library = "", bench.algorithm = "auto", bench.protocol = "auto", bench.rows.clear();
  for (const int64_t bytes : {8, 16, 32, 64})
    bench.rows.push_back({.bytes = bytes, .block = bytes / 2, .in_place = Timing{.seconds = 1}});
  const std::vector<RunResult::Ran> ran = {{"world", "barrier", 8, "nccl", "ring", "LL128"},
                                           {"world", "reduce", 8, "nccl", "ring", "LL"},
                                           {"world", "reduce", 16, "nccl", "ring", "LL"},
                                           {"world", "reduce", 32, "nccl", "ring", "Simple"},
                                           {"world", "reduce", 64, "nccl", "nvls", "Simple"}};
  NameWhatRan(ran, bench);
  EXPECT_THAT(HeaderText(bench), HasSubstr("cluster star-a100, library nccl, algorithm auto, protocol auto, predicted\n"
                                           "# ran: ring LL to 16 B, ring Simple at 32 B, nvls Simple from 64 B\n"));
  const nlohmann::json json = nlohmann::json::parse(JsonText(bench));
  EXPECT_EQ(json["library"], "nccl");
  EXPECT_EQ(json["results"][2]["algorithm"], "ring");
  EXPECT_EQ(json["results"][2]["protocol"], "Simple");
  EXPECT_THAT(CsvText(bench), HasSubstr(",ring,LL\n"));
  bench.rows.resize(2);
  EXPECT_THAT(HeaderText(bench), HasSubstr("\n# ran: ring LL\n"));
}

TEST(Table, ShowsWhatThereIsNotAsNotApplicable) {
  EXPECT_THAT(RowsText(Predicted()),
              HasSubstr("\n     1048576        524288  bfloat16    prod       2      N/A     N/A     N/A     N/A"
                        "   125000    0.01    0.01     N/A\n"));
  EXPECT_EQ(FooterText(Predicted()),
            "# Out of bounds values : N/A (nothing was checked)\n# Avg bus bandwidth    : 0.00838861\n");
}

TEST(Table, CountsWrongValuesAndAveragesBusBandwidth) {
  EXPECT_EQ(WrongValues(Gathered()), 3);
  EXPECT_DOUBLE_EQ(AverageBusBandwidth(Gathered()).value(), (1.5 + 3 + 4.8 + 6) / 4);
  EXPECT_EQ(FooterText(Gathered()), "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 3.825\n");
  Bench fine = Gathered();
  fine.rows.pop_back();
  EXPECT_EQ(FooterText(fine), "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 2.25\n");
}

TEST(Table, HasNoBandwidthWhereNoTimePassed) {
  Bench bench = Gathered();
  bench.rows = {{.bytes = 8, .block = 2, .out_of_place = Timing{0, 0}, .in_place = Timing{0, 0}}};
  EXPECT_THAT(RowsText(bench), HasSubstr("-1     0.00     N/A     N/A       0     0.00     N/A     N/A       0\n"));
  EXPECT_FALSE(AverageBusBandwidth(bench).has_value());
}

TEST(Table, WideTimesKeepTheirColumn) {
  Bench bench = Gathered();
  bench.rows = {{.bytes = int64_t{1} << 40, .block = 1, .out_of_place = Timing{12345.6789, 0}}};
  EXPECT_THAT(RowsText(bench), HasSubstr("-1  1.2e+10    0.09    0.07       0"));
}

TEST(Table, JsonHasWhatTheTableHas) {
  const nlohmann::json json = nlohmann::json::parse(JsonText(Gathered()));
  EXPECT_EQ(json["operation"], "all_gather");
  EXPECT_EQ(json["fabric"], "in_memory");
  EXPECT_EQ(json["predicted"], false);
  EXPECT_EQ(json["ranks"], 4);
  EXPECT_TRUE(json["cluster"].is_null());
  EXPECT_TRUE(json["error"].is_null());
  EXPECT_EQ(json["out_of_bounds"], 3);
  ASSERT_EQ(json["results"].size(), 2u);
  const nlohmann::json& row = json["results"][1];
  EXPECT_EQ(row["size"], 64000);
  EXPECT_EQ(row["count"], 4000);
  EXPECT_EQ(row["type"], "float");
  EXPECT_EQ(row["redop"], "none");
  EXPECT_EQ(row["root"], -1);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["time"], 10);
  EXPECT_DOUBLE_EQ(row["out_of_place"]["alg_bw"], 6.4);
  EXPECT_DOUBLE_EQ(row["in_place"]["bus_bw"], 6);
  EXPECT_EQ(row["in_place"]["nwrong"], 3);

  const nlohmann::json predicted = nlohmann::json::parse(JsonText(Predicted()));
  EXPECT_EQ(predicted["predicted"], true);
  EXPECT_EQ(predicted["cluster"], "star-a100");
  EXPECT_EQ(predicted["algorithm"], "ring");
  EXPECT_TRUE(predicted["out_of_bounds"].is_null());
  EXPECT_TRUE(predicted["results"][0]["out_of_place"].is_null());
  EXPECT_TRUE(predicted["results"][0]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(predicted["results"][0]["root"], 2);
  EXPECT_EQ(predicted["notes"][0], "links are assumed");
}

TEST(Table, CsvHasALineARow) {
  EXPECT_EQ(
      CsvText(Predicted()),
      "size,count,type,redop,root,out_of_place_time_us,out_of_place_alg_bw,out_of_place_bus_bw,out_of_place_nwrong,"
      "in_place_time_us,in_place_alg_bw,in_place_bus_bw,in_place_nwrong,algorithm,protocol\n"
      "1048576,524288,bfloat16,prod,2,,,,,125000.0,0.008388608,0.008388608,,,\n");
}

}  // namespace table_test
}  // namespace twofold::bench
