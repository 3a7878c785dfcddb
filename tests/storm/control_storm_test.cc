// Storms over the control plane: its own state machines (backends/control/plane.h, hub.h, generations.h), over a
// simulated transport and clock. Connections deliver in order, but messages may be late, connections break with
// messages in flight, processes die, hang and come again while others wait, and newcomers come at any time. Processes
// follow the protocol as backends/control/client.h does: they exchange bytes step by step, send each other messages,
// ask for the next generation when theirs breaks, and finish.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/control/plane.h"
#include "core/base/philox.h"
#include "core/base/strings.h"

namespace twofold::control {
namespace control_storm_test {

constexpr int kSteps = 12;
constexpr double kSilence = 15, kTimeout = 20, kPatience = 30, kAdmission = 100, kLongest = 900;  // seconds

class Random {
 public:
  explicit Random(uint64_t seed) : key_(MakeKey(seed, "control storm")) {}
  double Unit() { return ToUniform(Philox(key_, drawn_++)[0]); }
  double Between(double low, double high) { return low + Unit() * (high - low); }
  int Below(int count) { return static_cast<int>(Unit() * count); }
  bool Chance(double p) { return Unit() < p; }

 private:
  const PhiloxKey key_;
  uint64_t drawn_ = 0;
};

class ControlStorm {
 public:
  explicit ControlStorm(uint64_t seed)
      : random_(seed),
        size_(2 + random_.Below(5)),
        least_(1 + random_.Below(std::min(3, size_))),
        plane_(
            {.size = size_,
             .timeout_s = 60,
             .place = "node0:1",
             .process = "process 0 on node0",
             .least_silence_s = kSilence},
            [this](Plane::Connection to, const FromHub& message) { FromPlane(to, message); },
            [this](Plane::Connection to, const absl::Status& why) { HangUp(to, why); }, Now()) {}

  // What is broken; empty: nothing.
  std::string Run() {
    for (int r = 0; r < size_; ++r) AddProcess(false, random_.Between(0, 2));
    const int disasters = random_.Below(6);
    for (int d = 0; d < disasters; ++d) AddDisaster();
    Every(0.1, [this] { plane_.Tick(Now()); });
    while (!events_.empty() && seconds_ < kLongest && broken_.empty() && !AllDone()) {
      const auto first = events_.begin();
      seconds_ = first->first.first;
      const auto fn = std::move(first->second);
      events_.erase(first);
      fn();
    }
    if (broken_.empty()) JudgeEnd();
    return broken_;
  }
  int generations() const { return static_cast<int>(formed_.size()); }
  const std::map<std::string, int>& happened() const { return happened_; }

 private:
  enum State { kComing, kWorks, kAsks, kFinished, kOut };
  struct Process {
    bool newcomer = false, dead = false, touched = false, newcomers_wait = false;
    State state = kComing;
    int member = -1, generation = 1, exchange = 0, step = 0;
    double hung_until = 0, slow_s = 0;  // slow_s: how late its messages may be
    double up_free = 0, down_free = 0;  // when the last message arrives
    bool open = true;                   // the connection
    std::vector<FromHub> unread = {};   // while it hangs
    std::string how = {};               // it is out
    std::set<int> members_seen = {};
  };
  using Id = Plane::Connection;

  // ---- Time ----
  Plane::Time Now() const {
    return Plane::Time(std::chrono::milliseconds(1'000'000 + static_cast<int64_t>(1000 * seconds_)));
  }
  void At(double seconds, std::function<void()> fn) {
    events_.emplace(std::pair(std::max(seconds, seconds_), asked_++), std::move(fn));
  }
  void Every(double seconds, const std::function<void()>& fn) {
    At(seconds_ + seconds, [=, this] {
      fn();
      Every(seconds, fn);
    });
  }

  // ---- Transport: in order, late, and lost when the connection breaks ----
  double Delay(const Process& p) {
    return random_.Between(0.001, 0.05) + (p.slow_s > 0 ? random_.Between(0, p.slow_s) : 0);
  }
  void ToPlane(Id id, ToHub message) {
    Process& p = processes_[id];
    if (!p.open) return;
    message.set_run(p.state == kComing && !message.has_begin() ? 0 : 1);
    message.set_generation(p.generation);
    p.up_free = std::max(p.up_free, seconds_ + Delay(p));
    At(p.up_free, [=, this] {
      if (!processes_[id].open) return;
      const absl::Status heard = plane_.Hear(id, message, Now());
      if (!heard.ok()) HangUp(id, heard), TellLoss(id);
    });
  }
  void TellLoss(Id id) {
    plane_.Lose(id, Now());
    if (processes_[id].member >= 0) known_lost_.insert(processes_[id].member);
  }
  void FromPlane(Id id, const FromHub& message) {
    Process& p = processes_[id];
    for (const int m : message.formed().members()) {
      if (known_lost_.contains(m))
        Break(
            StrCat("generation ", message.formed().number(), " has member ", m, ", which the plane knows to be lost"));
    }
    if (!p.open) return;
    p.down_free = std::max(p.down_free, seconds_ + Delay(p));
    At(p.down_free, [=, this] {
      if (processes_[id].open) Deliver(id, message);
    });
  }
  void Deliver(Id id, const FromHub& message) {
    Process& p = processes_[id];
    if (p.dead || p.state == kOut) return;
    if (seconds_ < p.hung_until)
      p.unread.push_back(message);
    else
      Hear(id, message);
  }
  // The plane ends the connection, once what it sent has gone.
  void HangUp(Id id, const absl::Status& why) {
    At(processes_[id].down_free, [=, this] {
      Process& p = processes_[id];
      p.open = false;
      if (!p.dead) Leave(id, StrCat("expelled: ", std::string(why.message())));
    });
  }
  void Cut(Id id) {
    Process& p = processes_[id];
    if (!p.open) return;
    p.open = false;
    At(seconds_ + random_.Between(0, 3), [=, this] { TellLoss(id); });
    At(seconds_ + random_.Between(0, 3), [=, this] {
      if (!processes_[id].dead) Leave(id, "its connection broke");
    });
  }
  void Leave(Id id, const std::string& how) {
    Process& p = processes_[id];
    if (p.state == kOut) return;
    p.state = kOut, p.how = how;
  }

  // ---- Processes ----
  void AddProcess(bool newcomer, double at) {
    const Id id = processes_.size();
    Process& p = processes_[id];
    p.newcomer = newcomer;
    At(at, [=, this] {
      ToHub message;
      Hello& hello = *message.mutable_hello();
      hello.set_version(kVersion);
      hello.set_rank(newcomer ? 0 : static_cast<int>(id));
      hello.set_size(size_);
      hello.set_host("node0"), hello.set_machine("node0"), hello.set_process(static_cast<int64_t>(id));
      hello.set_patience_s(60);
      hello.set_newcomer(newcomer);
      ToPlane(id, message);
      if (newcomer) {
        At(seconds_ + kAdmission, [=, this] {
          if (processes_[id].state == kComing && !processes_[id].dead) Cut(id);  // it gives up
        });
      }
      Every(kSilence / kSignsInSilence, [=, this] {
        const Process& self = processes_[id];
        if (!self.dead && self.state != kOut && seconds_ >= self.hung_until && self.member >= 0) ToPlane(id, ToHub());
      });
    });
  }

  void Hear(Id id, const FromHub& message) {
    Process& p = processes_[id];
    if (p.state == kOut) return;
    if (message.has_welcome()) p.member = message.welcome().member();
    p.newcomers_wait = message.waiting() > 0;
    if (message.has_seat()) {
      if (id == 0) {
        ToHub begin;
        begin.mutable_begin()->set_world_size(size_);
        begin.mutable_begin()->set_timeout_s(kTimeout);
        begin.mutable_begin()->set_elastic(true);
        ToPlane(id, begin);
      }
      p.state = kWorks;
      Work(id);
    }
    if (message.has_end()) return Leave(id, StrCat("the meeting failed: ", message.end().message()));
    if (message.has_verdict()) {
      if (message.verdict().code() == 0) ++happened_["finished"];
      return Leave(id, message.verdict().code() == 0 ? "finished" : StrCat("verdict: ", message.verdict().message()));
    }
    if (message.has_refused()) return Leave(id, StrCat("refused: ", message.refused().message()));
    if (message.has_query() && message.generation() == p.generation) {
      ToHub answer;
      answer.mutable_answer()->set_doing("a step");
      ToPlane(id, answer);
    }
    if (message.has_formed()) Enter(id, message.formed());
    if (message.has_broken() && p.state == kWorks && message.generation() == p.generation) Ask(id);
    if (message.has_taken()) Take(id, message.taken());
    if (!message.has_relayed()) return;
    ++happened_["relayed"];
    if (const auto meant = static_cast<int>(message.relayed().group()); meant != p.member)
      Break(StrCat("member ", p.member, " gets a message that was meant for member ", meant));
  }
  // A thread of the process sends another member something, also while the process asks for the next generation. The
  // group tells who is meant.
  void Relay(Id id) {
    const Process& p = processes_[id];
    if (p.dead || (p.state != kWorks && p.state != kAsks) || seconds_ < p.hung_until) return;
    const int rank = random_.Below(p.generation == 1 ? size_ : static_cast<int>(formed_.at(p.generation).size()));
    const int to = p.generation == 1 ? rank : formed_.at(p.generation)[static_cast<size_t>(rank)];
    ToHub message;
    message.mutable_relayed()->set_to(to);
    message.mutable_relayed()->set_group(static_cast<uint64_t>(to));
    ToPlane(id, message);
  }

  void Enter(Id id, const Formed& formed) {
    Process& p = processes_[id];
    const std::vector<int> members(formed.members().begin(), formed.members().end());
    const auto [known, first] = formed_.try_emplace(formed.number(), members);
    if (!first && known->second != members)
      Break(StrCat("generation ", formed.number(), " has other members for ", p.member, " than for others"));
    if (std::find(members.begin(), members.end(), p.member) == members.end())
      Break(StrCat("member ", p.member, " was told of generation ", formed.number(), ", which it is not in"));
    if (p.state != kAsks && !(p.newcomer && p.state == kComing))
      Break(StrCat("member ", p.member, " was told of generation ", formed.number(), " without having asked"));
    if (!p.newcomer && formed.number() <= p.generation) Break(StrCat("generation ", formed.number(), " comes again"));
    p.generation = formed.number(), p.exchange = 0, p.state = kWorks;
    Work(id);
  }

  // A step: all members tell how far they are, and go on after the one that is farthest. If newcomers wait, they form
  // the next generation first.
  void Work(Id id) {
    const int generation = processes_[id].generation;
    At(seconds_ + random_.Between(0.05, 3), [=, this] {
      Process& p = processes_[id];
      if (p.dead || p.state != kWorks || p.generation != generation) return;
      if (seconds_ < p.hung_until) return At(p.hung_until, [=, this] { Work(id); });
      if (p.step >= kSteps) {
        p.state = kFinished;
        ToHub message;
        message.mutable_finished()->set_result("done");
        return ToPlane(id, message);
      }
      ToHub message;
      message.mutable_give()->set_number(static_cast<uint64_t>(++p.exchange));
      message.mutable_give()->set_generation(generation);
      message.mutable_give()->set_bytes(StrCat(p.newcomers_wait ? "!" : "", p.step));
      ToPlane(id, message);
      if (random_.Chance(0.2)) Relay(id);
    });
  }
  void Take(Id id, const Taken& taken) {
    Process& p = processes_[id];
    if (p.state != kWorks || taken.generation() != p.generation || taken.number() != static_cast<uint64_t>(p.exchange))
      return;
    if (taken.has_fault()) return Ask(id);
    const std::string bytes = absl::StrJoin(taken.bytes(), ",");
    const auto [known, first] = taken_.try_emplace({taken.generation(), taken.number()}, bytes);
    if (!first && known->second != bytes)
      Break(StrCat("exchange ", taken.number(), " gave ", bytes, " to one and ", known->second, " to another"));
    bool reforms = false;  // some member knows that newcomers wait
    for (const std::string& told : taken.bytes()) {
      reforms = reforms || told[0] == '!';
      p.step = std::max(p.step, std::stoi(told[0] == '!' ? told.substr(1) : told));
    }
    ++p.step;
    reforms&& p.step < kSteps ? Ask(id) : Work(id);
  }
  void AskAfterHang(Id id) {
    At(processes_[id].hung_until, [=, this] {
      if (processes_[id].state == kAsks) Ask(id);  // else it was told meanwhile that it is out
    });
  }
  void Ask(Id id) {
    Process& p = processes_[id];
    p.state = kAsks;
    const int generation = p.generation;
    At(seconds_ + random_.Between(0, 1), [=, this] {
      Process& self = processes_[id];
      if (self.dead || self.state != kAsks || self.generation != generation) return;
      if (seconds_ < self.hung_until) return AskAfterHang(id);
      ToHub message;
      message.mutable_reform()->set_generation(generation);
      message.mutable_reform()->set_min_members(least_);
      message.mutable_reform()->set_patience_s(kPatience);
      ToPlane(id, message);
      At(seconds_ + random_.Between(0, 2), [=, this] { Relay(id); });
    });
  }

  // ---- Disasters ----
  void AddDisaster() {
    const double at = random_.Chance(0.3) ? random_.Between(2, 6) : random_.Between(2, 60);
    // rank 0's process holds the plane
    const Id id = 1 + static_cast<Id>(random_.Below(static_cast<int>(processes_.size()) - 1));
    switch (random_.Below(6)) {
      case 0:
        return At(at, [=, this] {
          ++happened_["died"];
          processes_[id].dead = processes_[id].touched = true;
          Cut(id);
        });
      case 1: return At(at, [=, this] { ++happened_["cut"], processes_[id].touched = true, Cut(id); });
      case 2:
      case 3: {
        const double seconds = random_.Chance(0.5) ? random_.Between(0, 10) : random_.Between(10, 120);
        return At(at, [=, this] { Hang(id, seconds); });
      }
      case 4:
        processes_[id].slow_s = random_.Between(0.5, 4);
        ++happened_["late messages"];
        return;
      default: ++happened_["newcomer"]; return AddProcess(true, at);
    }
  }
  void Hang(Id id, double seconds) {
    Process& p = processes_[id];
    if (p.dead) return;
    ++happened_["hung"];
    p.hung_until = std::max(p.hung_until, seconds_ + seconds);
    p.touched = p.touched || seconds > 8;  // long enough to be missed where others wait
    At(p.hung_until, [=, this] {
      Process& self = processes_[id];
      if (self.dead || seconds_ < self.hung_until) return;
      for (const FromHub& message : std::exchange(self.unread, {})) Deliver(id, message);
    });
  }

  // ---- Rules ----
  void Break(const std::string& what) {
    if (broken_.empty()) broken_ = StrCat(what, " (", seconds_, " s)");
  }
  bool AllDone() const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [](const auto& p) { return p.second.dead || p.second.state == kOut; });
  }
  void JudgeEnd() {
    int well = 0;
    for (const auto& [id, p] : processes_) {
      if (!p.dead && p.state != kOut)
        Break(StrCat("process ", id, " (member ", p.member, ", state ", static_cast<int>(p.state), ", generation ",
                     p.generation, ") has neither finished nor been told why not"));
      well += !p.touched && !p.newcomer && !p.dead ? 1 : 0;
    }
    for (const auto& [id, p] : processes_) {
      if (p.touched || p.dead || p.newcomer || p.how == "finished" || well < least_) continue;
      if (p.how.starts_with("the meeting failed") && well < size_) continue;  // before all have met, every loss ends it
      Break(StrCat("process ", id, " is well, and so are ", well, ", but it ends: ", p.how));
    }
  }

  Random random_;
  const int size_, least_;
  double seconds_ = 0;
  uint64_t asked_ = 0;
  std::map<std::pair<double, uint64_t>, std::function<void()>> events_;
  std::map<Id, Process> processes_;
  std::map<int, std::vector<int>> formed_;
  std::map<std::pair<int, uint64_t>, std::string> taken_;
  std::map<std::string, int> happened_;
  std::set<int> known_lost_;  // members
  std::string broken_;
  Plane plane_;
};

TEST(ControlStorms, ThePlaneKeepsItsRules) {
  std::map<std::string, int> happened;
  int generations = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    ControlStorm storm(seed);
    EXPECT_EQ(storm.Run(), "") << "seed " << seed;
    generations += storm.generations();
    for (const auto& [what, count] : storm.happened()) happened[what] += count;
  }
  EXPECT_GT(generations, 100) << "the storm raged";
  for (const char* what : {"died", "cut", "hung", "late messages", "newcomer", "finished", "relayed"})
    EXPECT_GT(happened[what], 20) << what;
}

}  // namespace control_storm_test
}  // namespace twofold::control
