#include "strategies/kernel_totals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/proto/report.pb.h"

namespace twofold {
namespace kernel_totals_test {

TEST(KernelTotals, MeasuredCallsHaveThePercentilesOfTheirShape) {
  const Trace::AllExpected measured;
  KernelTotals totals(measured);
  for (int i = 1; i <= 11; ++i)
    totals.Add({.kernel = "matmul_nt", .shape = "8 x 8 x 8, f32", .seconds = i * 1.0, .flops = 1024, .bytes = 768});
  totals.Add({.kernel = "matmul_nt", .shape = "64 x 8 x 8, f32", .seconds = 100});
  totals.Add({.kernel = "add", .seconds = 2});
  totals.Add({.kernel = "add", .seconds = 3, .continues = true});
  report::RankRecord record;
  totals.WriteTo(2, record);
  ASSERT_EQ(record.kernels_size(), 2);
  const report::KernelTotal &add = record.kernels(0), &product = record.kernels(1);
  EXPECT_EQ(add.kernel(), "add");
  EXPECT_EQ(add.seconds(), 2.5);
  ASSERT_EQ(add.shapes_size(), 1);
  EXPECT_EQ(add.shapes(0).shape(), "");
  EXPECT_EQ(add.shapes(0).count(), 0.5) << "a call in two pieces is one";
  EXPECT_EQ(add.shapes(0).low(), 2.5);
  EXPECT_EQ(add.shapes(0).high(), 2.5);
  EXPECT_EQ(product.kernel(), "matmul_nt");
  EXPECT_EQ(product.count(), 6);
  EXPECT_EQ(product.seconds(), (66 + 100) / 2.0);
  ASSERT_EQ(product.shapes_size(), 2);
  EXPECT_EQ(product.shapes(0).shape(), "64 x 8 x 8, f32") << "those that take most come first";
  const report::KernelShape& often = product.shapes(1);
  EXPECT_EQ(often.source(), report::MEASURED);
  EXPECT_EQ(often.count(), 5.5);
  EXPECT_EQ(often.seconds(), 33);
  EXPECT_EQ(often.low(), 5.5 * 2);
  EXPECT_EQ(often.high(), 5.5 * 10);
  EXPECT_EQ(often.flops(), 5.5 * 1024);
  EXPECT_EQ(often.bytes(), 5.5 * 768);
}

// A shape that is called with two costs (a sum that is added to, and one that is not) has both of their estimates.
TEST(KernelTotals, PredictedCallsHaveTheirEstimates) {
  Trace trace;
  trace.Expect("scale", "1 x 8, f32", {.calls = 1, .seconds = 100, .source = Source::kExtrapolated});
  EXPECT_TRUE(trace.expected().empty()) << "before it is traced";
  trace.SetEnabled(true);
  for (int i = 0; i < 2; ++i) {
    trace.Expect("scale", "1 x 8, f32",
                 {.calls = 1, .seconds = 3, .low = 2, .high = 5, .flops = 8, .bytes = 64, .source = Source::kTable});
    trace.Expect("scale", "1 x 8, f32",
                 {.calls = 1, .seconds = 1, .low = 0.5, .high = 3, .flops = 8, .bytes = 96, .source = Source::kLaw});
  }
  KernelTotals totals(trace.expected());
  for (int i = 0; i < 2; ++i) {  // twice as long as expected, beside communication
    totals.Add({.kernel = "scale", .shape = "1 x 8, f32", .seconds = 6});
    totals.Add({.kernel = "scale", .shape = "1 x 8, f32", .seconds = 2});
  }
  totals.Add({.kernel = kCommunicationBesideCompute, .seconds = 7});
  report::RankRecord record;
  totals.WriteTo(1, record);
  ASSERT_EQ(record.kernels_size(), 2);
  EXPECT_EQ(record.kernels(0).seconds(), 7);
  EXPECT_TRUE(record.kernels(0).shapes().empty()) << "no model gave its time";
  ASSERT_EQ(record.kernels(1).shapes_size(), 1);
  const report::KernelShape& scale = record.kernels(1).shapes(0);
  EXPECT_EQ(scale.source(), report::LAW) << "the less certain one";
  EXPECT_EQ(scale.count(), 4);
  EXPECT_EQ(scale.seconds(), 16);
  EXPECT_EQ(scale.low(), 2 * 2 * (2 + 0.5)) << "of the time that they took";
  EXPECT_EQ(scale.high(), 2 * 2 * (5 + 3));
  EXPECT_EQ(scale.flops(), 32);
  EXPECT_EQ(scale.bytes(), 320);
}

}  // namespace kernel_totals_test
}  // namespace twofold
