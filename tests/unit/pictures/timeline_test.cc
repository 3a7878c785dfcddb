#include "experiments/program/pictures/timeline_picture.h"

#include <set>

#include "core/device/kernel_names.h"
#include "experiments/program/pictures/style.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace timeline_test {

using testing::HasSubstr;
using testing::Not;

RunData MakeRun(int ranks, int spans) {
  RunData run;
  run.report.set_fabric("in_memory");
  run.report.set_world_size(ranks);
  for (int r = 0; r < ranks; ++r) {
    Lane lane{r, "compute", {}};
    for (int i = 0; i < spans; ++i) lane.spans.push_back({"add", i * 1e-6, i * 1e-6 + 0.9e-6, 0});
    run.lanes.push_back(lane);
  }
  run.trace_end = spans * 1e-6;
  return run;
}

size_t Count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(MergeShort, KeepsLongSpansAndJoinsShortNeighbours) {
  const std::vector<DrawnSpan> spans = {
      {"a", 0, 10, 0}, {"b", 10, 10.1, 0}, {"c", 10.1, 10.3, 0}, {"d", 15, 15.1, 0}, {"e", 15.1, 20, 0}};
  const std::vector<DrawnBox> boxes = MergeShort(spans, 1);
  ASSERT_EQ(boxes.size(), 4u);
  EXPECT_EQ(boxes[0].spans, 1);
  EXPECT_EQ(boxes[1].spans, 2);
  EXPECT_EQ(boxes[1].longest->name, "c");
  EXPECT_DOUBLE_EQ(boxes[1].end, 10.3);
  EXPECT_EQ(boxes[2].longest->name, "d");
  EXPECT_EQ(boxes[3].longest->name, "e");
}

TEST(TimelinePicture, DrawsARowAStreamAndASpanABox) {
  RunData run = MakeRun(2, 3);
  run.lanes.push_back({1, "communication world", {{"all_reduce", 0, 1e-6, 4096}}});
  const std::string svg = TimelinePicture({&run});
  EXPECT_EQ(Count(svg, "class=\"lane\""), 3u);
  EXPECT_EQ(Count(svg, "<title>add, 900 ns</title>"), 6u);
  EXPECT_EQ(Count(svg, "<title>all_reduce, 1.00 µs, 4.00 KiB</title>"), 1u);
  EXPECT_THAT(svg, HasSubstr("rank 1"));
}

TEST(TimelinePicture, StaysSmallHoweverLongTheTrace) {
  const RunData run = MakeRun(16, 20000);
  const std::string svg = TimelinePicture({&run});
  EXPECT_LE(Count(svg, "<title>"), kMostSpans);
  EXPECT_GT(Count(svg, "<title>"), 16u);
  EXPECT_LT(svg.size(), size_t{2} << 20);
}

TEST(TimelinePicture, SaysWhichRanksItLeavesOut) {
  const RunData run = MakeRun(40, 2);
  const std::string svg = TimelinePicture({&run});
  EXPECT_THAT(svg, HasSubstr("ranks 0 to 15 of 40"));
  EXPECT_THAT(svg, Not(HasSubstr(">rank 16<")));
}

TEST(TimelinePicture, OfNothingIsEmpty) {
  const RunData run = MakeRun(0, 0);
  EXPECT_EQ(TimelinePicture({&run}), "");
}

TEST(TimelinePicture, StandsAloneWithItsStyle) {
  const RunData run = MakeRun(1, 1);
  EXPECT_THAT(StandAlone(TimelinePicture({&run})), HasSubstr("prefers-color-scheme:dark"));
}

// Every operation's kernel is drawn as what its row says it is.
TEST(SpanClasses, AreThoseOfTheKernelsRows) {
  std::set<SpanClass> drawn;
  for (const ops::KernelRow& row : ops::KernelRows()) {
    const SpanClass c = ClassOf("compute", row.name);
    drawn.insert(c);
    EXPECT_EQ(c == SpanClass::kNorm, row.name.find("_norm_") != std::string_view::npos) << row.name;
    EXPECT_EQ(c == SpanClass::kOptimizer, row.is == ops::KernelClass::kOptimizer) << row.name;
    EXPECT_EQ(c == SpanClass::kOther, row.is == ops::KernelClass::kOther) << row.name;
    EXPECT_NE(c, SpanClass::kCommunication) << row.name;
  }
  EXPECT_EQ(drawn.size(), 7u) << "a class of operations is never drawn";
  for (const char* norm : {"layer_norm_forward", "rms_norm_forward", "rms_norm_weights", "batch_norm_statistics",
                           "batch_norm_relu_sums"}) {
    EXPECT_EQ(ClassOf("compute", norm), SpanClass::kNorm) << norm;
  }
  EXPECT_EQ(ClassOf("compute", "conv3x3_forward"), SpanClass::kProduct);
  EXPECT_EQ(ClassOf("compute", "swiglu_forward"), SpanClass::kElement);
  EXPECT_EQ(ClassOf("communication tp", "all_reduce"), SpanClass::kCommunication);
  EXPECT_EQ(ClassOf("device to host", "transfer"), SpanClass::kTransfer);
  EXPECT_EQ(ClassOf("compute", "no kernel's name"), SpanClass::kOther);
}

}  // namespace timeline_test
}  // namespace twofold::pictures
