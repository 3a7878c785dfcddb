// Whatever processes send to the control plane, and whenever they come and go, it keeps its rules. Messages of every
// kind are damaged at random (seeded, Mutants() times), among good ones, losses and time that passes.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/control/plane.h"
#include "core/base/strings.h"
#include "tests/fuzz/mutate.h"

namespace twofold::control {
namespace control_fuzz {

using std::chrono::milliseconds;

constexpr int kStepsOfAPlane = 60;

// A message of each kind, as member `rank` of `size` would send it in `generation`.
std::vector<ToHub> GoodMessages(int rank, int size, int generation) {
  std::vector<ToHub> all;
  auto add = [&]() -> ToHub& {
    ToHub& message = all.emplace_back();
    message.set_run(1);
    message.set_generation(generation);
    return message;
  };
  Begin& begin = *add().mutable_begin();
  begin.set_world_size(size);
  begin.set_timeout_s(20);
  begin.set_elastic(true);
  Give& give = *add().mutable_give();
  give.set_number(1);
  give.set_bytes(StrCat("of ", rank));
  give.set_generation(generation > 1 ? generation : 0);
  Set& set = *add().mutable_set();
  set.set_number(1);
  set.set_key("key");
  Get& get = *add().mutable_get();
  get.set_number(2);
  get.set_key("key");
  get.set_wait(true);
  Point& point = *add().mutable_progress()->add_points();
  point.set_group(1);
  point.set_sequence(3);
  point.set_ranks(size);
  add().mutable_trouble()->set_kind(6);
  add().mutable_answer()->set_doing(StrCat("rank ", rank));
  GroupLog& log = *all.back().mutable_answer()->add_logs();
  log.set_group(1);
  log.set_first(1);
  for (int r = 0; r < size; ++r) log.add_ranks(r);
  Record& record = *log.add_records();
  record.set_kind(1);
  record.set_bytes(8);
  record.add_in_counts(rank);
  Call& call = *all.back().mutable_answer()->add_now();
  call.set_text("a barrier");
  call.add_awaited(0);
  add().mutable_finished()->set_result("whole");
  add().mutable_partial()->set_result("part");
  add().mutable_relayed()->set_to((rank + 1) % size);
  for (int i = 0; i < 3; ++i) {  // what is of most interest here
    Reform& reform = *add().mutable_reform();
    reform.set_generation(generation);
    reform.set_min_members(1);
    reform.set_patience_s(5);
  }
  add().mutable_depart()->set_result("part");
  add().mutable_leave();
  all.emplace_back();
  return all;
}

// A control plane and what it has told, with the rules that it must keep.
class Watched {
 public:
  explicit Watched(int size)
      : size_(size),
        plane_(
            {.size = size, .timeout_s = 30, .place = "node0:1", .process = "process 100 on node0"},
            [this](Plane::Connection to, const FromHub& message) { Told(to, message); },
            [this](Plane::Connection from, const absl::Status& why) {
              EXPECT_FALSE(why.ok());
              gone_.insert(from);
            },
            now_) {}

  void Come(Plane::Connection from, int rank, bool newcomer) {
    ToHub message;
    Hello& hello = *message.mutable_hello();
    hello.set_version(kVersion);
    hello.set_rank(rank);
    hello.set_size(size_);
    hello.set_host("node0");
    hello.set_machine("node0");
    hello.set_patience_s(20);
    hello.set_newcomer(newcomer);
    Hear(from, message);
  }
  void Hear(Plane::Connection from, const ToHub& message) {
    if (!gone_.contains(from) && !plane_.Hear(from, message, now_).ok()) Lose(from);
  }
  void Lose(Plane::Connection from) {
    gone_.insert(from);
    plane_.Lose(from, now_);
  }
  void Pass(milliseconds time) { plane_.Tick(now_ += time); }
  int generation() const { return generation_; }
  int formed() const { return formed_; }
  int verdicts() const { return verdicts_; }

 private:
  void Told(Plane::Connection to, const FromHub& message) {
    EXPECT_FALSE(gone_.contains(to)) << "a message to one that has gone: " << message.DebugString();
    if (message.has_formed()) {
      const Formed& formed = message.formed();
      const std::set<int> members(formed.members().begin(), formed.members().end());
      EXPECT_EQ(members.size(), static_cast<size_t>(formed.members_size())) << "a member twice";
      EXPECT_TRUE(formed.number() == generation_ || formed.number() == generation_ + 1);
      EXPECT_EQ(formed.number(), message.generation());
      if (formed.number() > generation_) ++formed_;
      generation_ = formed.number();
      EXPECT_TRUE(told_formed_.emplace(to, formed.number()).second) << "told twice";
    }
    if (message.has_verdict()) {
      ++verdicts_;
      EXPECT_TRUE(told_verdict_.emplace(to, message.run()).second) << "told twice";
    }
  }

  const int size_;
  Plane::Time now_{std::chrono::seconds(1000)};
  int generation_ = 1, formed_ = 0, verdicts_ = 0;
  std::set<Plane::Connection> gone_;
  std::set<std::pair<Plane::Connection, int>> told_formed_;
  std::set<std::pair<Plane::Connection, uint64_t>> told_verdict_;
  Plane plane_;
};

TEST(ControlFuzz, ThePlaneKeepsItsRules) {
  const google::protobuf::LogSilencer no_warnings_about_texts;
  test::Mutator mutator(TestSeed(), {.numbers = false});
  int understood = 0, formed = 0, verdicts = 0;
  for (int mutants = 0; mutants < Mutants();) {
    const int size = 1 + static_cast<int>(mutator.Below(4));
    Watched plane(size);
    for (int r = 0; r < size; ++r) plane.Come(static_cast<Plane::Connection>(r), r, false);
    plane.Hear(0, GoodMessages(0, size, 1)[0]);
    auto newest = static_cast<Plane::Connection>(size);
    for (int step = 0; step < kStepsOfAPlane; ++step) {
      const auto from = static_cast<Plane::Connection>(mutator.Below(newest + 1));
      switch (mutator.Below(12)) {
        case 0: plane.Lose(from); continue;
        case 1: plane.Pass(milliseconds(mutator.Below(9000))); continue;
        case 2: plane.Come(newest++, static_cast<int>(mutator.Below(5)), mutator.Below(2) == 0); continue;
        default: break;
      }
      const auto good = GoodMessages(static_cast<int>(from), size, plane.generation());
      const ToHub& message = good[mutator.Below(good.size())];
      if (mutator.Below(2) == 0) {
        plane.Hear(from, message);
        continue;
      }
      ++mutants;
      ToHub mutant;
      if (!mutant.ParseFromString(mutator.Damage(message.SerializeAsString()))) continue;
      ++understood;
      plane.Hear(from, mutant);
    }
    formed += plane.formed();
    verdicts += plane.verdicts();
  }
  EXPECT_GT(understood, Mutants() / 10) << "the mutations no longer leave messages";
  EXPECT_GT(formed, Mutants() / 500);
  EXPECT_GT(verdicts, Mutants() / 500);
}

}  // namespace control_fuzz
}  // namespace twofold::control
