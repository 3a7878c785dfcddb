#include "backends/control/inquest.h"

#include "absl/status/status.h"
#include "core/base/errors.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/control/testing.h"

namespace twofold::control {
namespace inquest_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Witness Says(const std::string& doing, std::vector<const CallLog*> logs = {}) {
  Witness w{.process = "process 7 on here"};
  w.answer.emplace();
  w.answer->set_doing(doing);
  for (const CallLog* log : logs) *w.answer->add_logs() = log->Records();
  return w;
}
Trouble TimedOutIn(const std::string& text, std::vector<int> awaited, bool any = false, bool collective = true) {
  Trouble t;
  t.set_kind(static_cast<int>(RankFailure::Kind::kTimedOut));
  t.mutable_waiting()->set_text(text);
  t.mutable_waiting()->set_group(1);
  t.mutable_waiting()->set_sequence(5);
  t.mutable_waiting()->set_collective(collective);
  t.mutable_waiting()->set_any(any);
  for (int r : awaited) t.mutable_waiting()->add_awaited(r);
  return t;
}
absl::StatusCode CodeOf(const Verdict& v) { return static_cast<absl::StatusCode>(v.code()); }

TEST(Inquest, ADifferenceComesBeforeItsConsequences) {
  Tensors t;
  CallLog a(Group({0, 1}), 0), b(Group({0, 1}), 1);
  for (CallLog* log : {&a, &b}) log->Add(t.AllReduce(3));
  a.Add(t.AllReduce(10));
  b.Add(t.AllReduce(11));
  const Verdict v = Decide({Says("x", {&a}), Says("y", {&b})}, {0, TimedOutIn("z", {1})}, 60);
  EXPECT_EQ(CodeOf(v), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(v.message(),
            "collective mismatch in group world, collective 2: rank 0 calls all_reduce(sum) of f32[10] (40 bytes), "
            "rank 1 calls "
            "all_reduce(sum) of f32[11] (44 bytes)");
}

TEST(Inquest, TheEarliestDifferenceOfAllGroupsIsNamed) {
  Tensors t;
  CallLog a(Group({0, 1, 2}), 0), b(Group({0, 1, 2}), 1), c(Group({0, 1, 2}), 2);
  for (int i = 0; i < 4; ++i) {
    a.Add(t.AllReduce(1));
    b.Add(t.AllReduce(i == 3 ? 2 : 1));
    c.Add(t.AllReduce(i == 1 ? 2 : 1));
  }
  EXPECT_THAT(Decide({Says("", {&a}), Says("", {&b}), Says("", {&c})}, {0, {}}, 60).message(),
              AllOf(HasSubstr("collective 2:"), HasSubstr("rank 2 calls")));
}

TEST(Inquest, CountsOfAnAllToAllVAreComparedPairByPair) {
  Tensors t;
  CallLog a(Group({4, 5, 6}), 0), b(Group({4, 5, 6}), 1), c(Group({4, 5, 6}), 2);
  a.Add(t.AllToAllV({1, 1, 1}, {1, 1, 1}));
  b.Add(t.AllToAllV({1, 1, 9}, {1, 1, 1}));  // to rank 6, which expects 1
  c.Add(t.AllToAllV({1, 1, 1}, {1, 1, 1}));
  std::vector<Witness> witnesses(4, Says(""));
  for (const CallLog* log : {&a, &b, &c}) witnesses.push_back(Says("", {log}));
  EXPECT_THAT(Decide(witnesses, {0, {}}, 60).message(),
              AllOf(HasSubstr("rank 5 calls all_to_all_v sending 9 elements to rank 2 of the group"),
                    HasSubstr("rank 6 calls all_to_all_v expecting 1 elements from rank 1 of the group")));
}

TEST(Inquest, ALostRankIsNamedWithItsProcessAndWhatTheOthersDo) {
  Witness lost{.lost = true, .process = "process 9 on there", .last_doing = "rank 1, which is computing", .answer = {}};
  const Verdict v =
      Decide({Says("rank 0, which is in all_reduce"), lost, Says("rank 2, which is computing")}, {1, {}}, 60);
  EXPECT_EQ(CodeOf(v), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(v.lost());
  EXPECT_EQ(v.message(),
            "lost rank 1: its process (process 9 on there) has ended; last known state: rank 1, which is computing. "
            "The others: rank 0, "
            "which is in all_reduce; rank 2, which is computing");
}

TEST(Inquest, ManyRanksAreNotAllListed) {
  std::vector<Witness> witnesses(100, Says("rank x, which is computing"));
  witnesses[50].lost = true;
  EXPECT_THAT(Decide(witnesses, {50, {}}, 60).message(), HasSubstr("and 91 more ranks"));
}

TEST(Inquest, ATimeOutNamesThoseThatAreNotInTheCall) {
  std::vector<Witness> witnesses = {Says("rank 0, in it"), Says("rank 1, in it"), Says("rank 2, which is computing"),
                                    Witness{}};
  for (int r : {0, 1}) {
    Call* call = witnesses[static_cast<size_t>(r)].answer->add_now();
    call->set_group(1);
    call->set_sequence(5);
    call->set_collective(true);
  }
  const Verdict v = Decide(witnesses, {0, TimedOutIn("all_reduce, collective 5 of group world", {1, 2, 3})}, 2.5);
  EXPECT_EQ(CodeOf(v), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(v.message(),
            "rank 0: all_reduce, collective 5 of group world has waited 2.5 s (fabric.timeout_s) for rank 2, which is "
            "computing; rank "
            "3, which does not answer");
}

TEST(Inquest, ATimeOutWhereAllAreInTheCallListsThemAll) {
  std::vector<Witness> witnesses = {Says("rank 0, in it"), Says("rank 1, in it")};
  Call* call = witnesses[1].answer->add_now();
  call->set_group(1);
  call->set_sequence(5);
  call->set_collective(true);
  EXPECT_THAT(Decide(witnesses, {0, TimedOutIn("x", {1})}, 1).message(), HasSubstr("for rank 1, in it"));
}

TEST(Inquest, AReceiveFromAnybodyWaitsForAnyOfThem) {
  EXPECT_THAT(Decide({Says("rank 0"), Says("rank 1"), Says("rank 2")}, {0, TimedOutIn("recv", {1, 2}, true, false)}, 1)
                  .message(),
              HasSubstr("for any of rank 1; rank 2"));
}

TEST(Inquest, WhatARankReportsItselfIsTheCause) {
  Trouble t;
  t.set_kind(static_cast<int>(RankFailure::Kind::kOutOfMemory));
  t.set_message("rank 1: out of memory");
  const Verdict v = Decide({Says(""), Says("")}, {1, t}, 60);
  EXPECT_EQ(CodeOf(v), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(v.message(), "rank 1: out of memory");
  EXPECT_EQ(v.rank(), 1);
}

TEST(Inquest, ACallTooManyIsNamed) {
  Tensors t;
  CallLog a(Group({0, 1}), 0), b(Group({0, 1}), 1);
  for (CallLog* log : {&a, &b}) log->Add(t.AllReduce(3));
  a.Add(t.Broadcast(4, 0));
  EXPECT_THAT(Decide({Says("", {&a}), Says("", {&b})}, {0, {}}, 60).message(),
              AllOf(HasSubstr(
                  "collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes), rank 1 calls nothing more")));
}

TEST(Inquest, ADifferenceTooLongAgoIsStillAMismatch) {
  Tensors t;
  CallLog a(Group({0, 1}), 0), b(Group({0, 1}), 1);
  a.Add(t.AllReduce(1));
  b.Add(t.AllReduce(2));
  for (size_t i = 0; i < CallLog::kKept; ++i) {
    a.Add(t.AllReduce(1));
    b.Add(t.AllReduce(1));
  }
  const Verdict v = Decide({Says("", {&a}), Says("", {&b})}, {1, {}}, 60);
  EXPECT_EQ(CodeOf(v), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(v.message(), HasSubstr("too long ago for the call log to name them"));
}

}  // namespace inquest_test
}  // namespace twofold::control
