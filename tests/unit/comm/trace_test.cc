#include "core/run/trace.h"

#include "core/run/rank_context.h"
#include "gtest/gtest.h"

namespace twofold {
namespace trace_test {

TEST(Trace, KeepsSpansWhileEnabledSortedByStreamAndStart) {
  Trace trace;
  std::vector<bool> changes;
  trace.OnChange([&](bool on) { changes.push_back(on); });
  trace.Add({.stream = "compute", .name = "before"});
  trace.SetEnabled(true);
  trace.Add({.stream = "compute", .name = "second", .start = Seconds(2)});
  trace.Add({.stream = "communication a", .name = "third", .start = Seconds(3)});
  trace.Add({.stream = "compute", .name = "first", .start = Seconds(1)});
  trace.SetEnabled(false);
  trace.Add({.stream = "compute", .name = "after"});
  const std::vector<Span> spans = trace.Take();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[0].name, "third");
  EXPECT_EQ(spans[1].name, "first");
  EXPECT_EQ(spans[2].name, "second");
  EXPECT_TRUE(trace.Take().empty());
  EXPECT_EQ(changes, (std::vector<bool>{true, false}));
}

TEST(Trace, ItsHooksMayAddWhatIsLate) {
  Trace trace;
  trace.OnChange([&](bool on) {
    if (!on) trace.Add({.stream = "compute", .name = "late"});
  });
  trace.SetEnabled(true);
  trace.OnTake([&] { trace.Add({.stream = "compute", .name = "later"}); });
  EXPECT_EQ(trace.Take().size(), 1u);
  trace.SetEnabled(false);
  const std::vector<Span> spans = trace.Take();
  ASSERT_EQ(spans.size(), 1u);
  EXPECT_EQ(spans[0].name, "late");
}

TEST(Trace, LabelsLiveAsLongAsIt) {
  Trace trace;
  EXPECT_EQ(trace.label(), "");
  trace.SetLabel(std::string("F0"));
  const std::string_view first = trace.label();
  trace.SetLabel("B0");
  EXPECT_EQ(trace.label(), "B0");
  EXPECT_EQ(first, "F0");
}

// A stream's calls are done in order: who waits for one waits for those before it. Other streams' calls have no part in
// it.
TEST(Trace, StallsAreExposedByWhatWentOnOnTheirStream) {
  Trace trace;
  trace.SetEnabled(true);
  trace.Add({.stream = "communication a", .name = "first", .start = Seconds(0), .end = Seconds(4)});
  trace.Add({.stream = "communication a", .name = "second", .start = Seconds(4), .end = Seconds(6)});
  trace.Add({.stream = "communication a", .name = "third", .start = Seconds(10), .end = Seconds(11)});
  trace.Add({.stream = "communication b", .name = "early", .start = Seconds(0), .end = Seconds(20)});
  trace.AddStall({"communication a", Seconds(3), Seconds(6)});
  trace.AddStall(
      {"communication a", Seconds(8), Seconds(11.5)});  // the thread woke up late, and it was not begun at once
  trace.AddStall({"communication b", Seconds(19), Seconds(20)});
  trace.AddStall({"communication c", Seconds(0), Seconds(1)});  // of which nothing was traced
  const std::vector<Span> spans = trace.Take();
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].exposed, Seconds(1));
  EXPECT_EQ(spans[1].exposed, Seconds(2));
  EXPECT_EQ(spans[2].exposed, Seconds(3.5));
  EXPECT_EQ(spans[3].exposed, Seconds(1));
}

// On a GPU the compute stream may come to its wait before the call has begun on a stream of its own.
TEST(Trace, StallsBeforeACallBeginsAreItsOwn) {
  Trace trace;
  trace.SetEnabled(true);
  for (const double start : {2.0, 6.0})
    trace.Add({.stream = "communication a", .name = "send", .start = Seconds(start), .end = Seconds(start + 1)});
  trace.AddStall({"communication a", Seconds(1), Seconds(1.5)});
  trace.AddStall({"communication a", Seconds(4), Seconds(5)});
  trace.AddStall({"communication a", Seconds(9), Seconds(9.25)});  // after all of them
  const std::vector<Span> spans = trace.Take();
  ASSERT_EQ(spans.size(), 2u);
  EXPECT_EQ(spans[0].exposed, Seconds(0.5));
  EXPECT_EQ(spans[1].exposed, Seconds(1.25));
}

TEST(Trace, KeepsStallsWhileEnabled) {
  Trace trace;
  trace.AddStall({"communication a", Seconds(0), Seconds(1)});
  trace.SetEnabled(true);
  trace.Add({.stream = "communication a", .name = "first", .start = Seconds(0), .end = Seconds(1)});
  EXPECT_EQ(trace.Take()[0].exposed, Seconds(0));
}

TEST(RankContext, KeepsRepeatedNotesOnce) {
  RankContext context({});
  context.AddNote("a");
  context.AddNote("b");
  context.AddNote("a");
  EXPECT_EQ(context.notes(), (std::vector<std::string>{"a", "b"}));
}

}  // namespace trace_test
}  // namespace twofold
