#include "experiments/program/storm/draw.h"

#include <algorithm>

#include "core/base/philox.h"

namespace twofold::storm {
namespace {

class Random {
 public:
  explicit Random(uint64_t seed, const char* stream = "storm") : key_(MakeKey(seed, stream)) {}
  uint64_t Below(uint64_t count) { return Next() % count; }
  int64_t Between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(Below(static_cast<uint64_t>(last - first + 1)));
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1p-53; }
  double Between(double low, double high) { return low + Unit() * (high - low); }
  bool Chance(double p) { return Unit() < p; }

 private:
  uint64_t Next() {
    const auto four = Philox(key_, drawn_++);
    return uint64_t{four[0]} << 32 | four[1];
  }
  const PhiloxKey key_;
  uint64_t drawn_ = 0;
};

class Drawing {
 public:
  Drawing(uint64_t seed, const Terrain& terrain)
      : random_(seed),
        aside_(seed, "storm aside"),
        terrain_(terrain),
        joins_(terrain.elastic && (terrain.links.empty() || random_.Chance(0.6))) {
    schedule_.set_seed(seed);
  }

  Schedule Whole() {
    int count = 1;
    while (count < 8 && random_.Chance(0.55)) ++count;
    for (int i = 0; i < count; ++i) Add();
    return schedule_;
  }

 private:
  void Add() {
    if (terrain_.file_calls > 0 && random_.Chance(1.0 / 3)) return Disk();
    const double dice = random_.Unit();
    if (dice < 0.40) return Lose();
    if (dice < 0.55) return Hang();
    if (dice < 0.65) return Slow();
    if (dice < 0.78) return LinkDown();
    if (dice < 0.92 && joins_) return Join();
    if (dice < 0.92 && !terrain_.links.empty()) return Link();
    Lose();
  }

  spec::Fault& NewFault() {
    spec::Fault& fault = *schedule_.add_disasters()->mutable_fault();
    fault.set_rank(random_.Between(int64_t{0}, terrain_.ranks + came_ - 1));
    return fault;
  }

  // `breaks`: it ends a generation.
  void When(spec::Fault& fault, bool breaks) {
    if (terrain_.elastic && breaks && changes_ > 0 && random_.Chance(0.5)) {
      fault.set_generation(random_.Between(int64_t{1}, changes_));
      fault.set_call(random_.Chance(0.7) ? random_.Between(int64_t{1}, int64_t{24})
                                         : random_.Between(int64_t{1}, terrain_.calls));
      return;
    }
    const double dice = random_.Unit();
    if (dice < 0.2)
      fault.set_step(random_.Between(int64_t{0}, terrain_.steps - 1));
    else if (dice < 0.6)
      fault.set_at_s(random_.Between(0.0, 1.05 * terrain_.seconds));
    else
      fault.set_call(random_.Between(int64_t{1}, terrain_.calls));
  }

  void Lose() {
    spec::Fault& fault = NewFault();
    fault.set_lost(true);
    When(fault, true);
    ++changes_;
  }

  void Hang() {
    spec::Fault& fault = NewFault();
    const bool is_loss = random_.Chance(0.6);
    fault.set_hangs_s(is_loss ? random_.Between(terrain_.timeout_s, 4 * terrain_.timeout_s + terrain_.reform_timeout_s)
                              : random_.Between(0.0, terrain_.timeout_s) * random_.Unit() + 1e-6);
    When(fault, is_loss);
    changes_ += is_loss ? 1 : 0;
  }

  void Slow() {
    spec::Fault& fault = NewFault();
    if (aside_.Chance(0.4))
      fault.set_rank(0);  // the others may have gone on when the first member learns of a step's end
    fault.mutable_slow()->set_factor(random_.Between(1.5, 20.0));
    if (random_.Chance(0.6)) fault.mutable_slow()->set_for_s(random_.Between(0.05, 1.0) * terrain_.seconds);
    When(fault, false);
  }

  void LinkDown() {
    spec::Fault& fault = NewFault();
    spec::LinkDown& down = *fault.mutable_link_down();
    down.set_for_s(std::min(random_.Between(0.01, 0.5) * terrain_.seconds, 0.9 * terrain_.timeout_s));
    if (random_.Chance(0.6)) {
      down.set_times(random_.Between(int64_t{2}, int64_t{20}));
      down.set_every_s(down.for_s() * random_.Between(1.1, 3.0));
    }
    When(fault, false);
  }

  void Disk() {
    const double dice = random_.Unit();
    if (dice < 0.35) return LoseWhileItWrites();
    spec::Fault& fault = NewFault();
    if (random_.Chance(0.5)) fault.set_rank(0);  // which writes most, and reads first
    if (dice < 0.65) {
      spec::Damage& damage = *fault.mutable_damage();
      damage.set_file(random_.Between(int64_t{0}, int64_t{3}));
      damage.set_at(random_.Unit());
      return When(fault, false);
    }
    const int64_t times = random_.Chance(0.7) ? random_.Between(int64_t{1}, int64_t{4}) : int64_t{1} << 20;
    dice < 0.85 ? fault.set_disk_full(times) : fault.set_failed_reads(times);
    random_.Chance(0.6) ? AtFileCall(fault) : When(fault, false);
  }

  void AtFileCall(spec::Fault& fault) {
    constexpr int64_t kOfRank0 = 4;  // it also begins and completes checkpoints
    fault.set_file_call(random_.Between(int64_t{1}, terrain_.file_calls * (fault.rank() == 0 ? kOfRank0 : 1)));
  }

  void LoseWhileItWrites() {
    spec::Fault& fault = NewFault();
    fault.set_lost(true);
    fault.set_kept(random_.Chance(0.5) ? 0 : random_.Unit());
    AtFileCall(fault);
    ++changes_;
  }

  void Join() {
    spec::MembershipEvent& event = *schedule_.add_disasters()->mutable_members();
    event.set_join(random_.Chance(0.8) ? 1 : 2);
    random_.Chance(0.5) ? event.set_step(random_.Between(int64_t{1}, terrain_.steps))
                        : event.set_at_s(random_.Between(0.0, terrain_.seconds));
    came_ += event.join();
    ++changes_;
  }

  void Link() {
    spec::LinkFault& link = *schedule_.add_disasters()->mutable_link();
    link.set_link(terrain_.links[random_.Below(terrain_.links.size())]);
    if (random_.Chance(0.3)) return link.set_failed(true);
    link.set_bandwidth(random_.Between(0.01, 1.0));
    if (random_.Chance(0.5)) link.set_latency_us(random_.Between(1.0, 10000.0));
  }

  Random random_, aside_;  // what is drawn aside changes nothing else in a seed's schedule
  const Terrain& terrain_;
  const bool joins_;  // else links: a cluster has other links if it has to hold more ranks
  Schedule schedule_;
  int64_t came_ = 0, changes_ = 0;
};

}  // namespace

Schedule Draw(uint64_t seed, const Terrain& terrain) { return Drawing(seed, terrain).Whole(); }

}  // namespace twofold::storm
