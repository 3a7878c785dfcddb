#include "experiments/program/plan/rank_times.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "backends/replay/replay.h"
#include "backends/simulated/beside.h"
#include "core/base/check.h"
#include "core/proto/report.pb.h"
#include "core/proto/world_size.h"
#include "sim/spread.h"
#include "strategies/from_spec.h"

namespace twofold::plan {
namespace {

// Collectives along tp are part of an action. Those along dp and cp exchange what the replicas of a stage have in
// common; what ranks of cp send each other for attention are messages.
bool IsOfReplicas(const std::vector<int>& ranks, const MeshShape& mesh) {
  const MeshPlace a = PlaceOf(mesh, ranks[0]), b = PlaceOf(mesh, ranks[1]);
  return a.pp == b.pp && a.tp == b.tp;
}

// Experts' tokens go to other replicas, too, but are not what they have in common.
bool IsAllToAll(Communication::Kind kind) {
  return kind == Communication::kAllToAll || kind == Communication::kAllToAllV;
}

// What ranks along tp wait for is the slowest of them, in the middle of an action.
bool IsAlongTp(const std::vector<int>& ranks, const MeshShape& mesh) {
  const MeshPlace a = PlaceOf(mesh, ranks.front()), b = PlaceOf(mesh, ranks.back());
  return static_cast<int>(ranks.size()) == mesh.tp && a.pp == b.pp && a.dp == b.dp && a.cp == b.cp;
}

class Stopwatch final : public ReplayTimes {
 public:
  // `gathered_ahead`: so many of a rank's communications among replicas may come before an action's message.
  Stopwatch(const MeshShape& mesh, int64_t gathered_ahead, const TimedRank& timed, LeastTimes& times)
      : mesh_(mesh), gathered_ahead_(gathered_ahead), timed_(timed), times_(times) {}

  void Attach(RankContext& ctx) { ctx_ = &ctx; }
  void BeginStep() { ++step_, at_ = -1, outside_ = {}, outside_ops_ = 0; }

  double Operation(const ops::Op& op, bool on_compute_stream) override {
    Arrive();
    Part().launches += times_.Launch(op).value();
    double seconds = times_.Operation(op).value();
    if (on_compute_stream && !communicating_.none()) {
      const double alone = seconds, slower = 1 + timed_.deviations * times_.Deviation(op);
      seconds = communicating_.Take(alone, [&](const BesideIt& takes) {
        const double factor = times_.Slowdown(op, takes);
        most_slowed_ = std::max(most_slowed_, factor);
        return factor;
      });
      Part().slowed += (seconds - alone) * slower;
    }
    const double deviation = times_.Deviation(op);
    if (on_compute_stream) apart_ += deviation * seconds;
    seconds *= 1 + timed_.deviations * deviation;
    if (!open_) outside_ops_ += seconds;
    if (open_ && step_ == timed_.steps) operations_ += seconds;
    own_ += seconds;
    return seconds;
  }
  double Transfer(const Tensor& from, const Tensor& to) override {
    const double seconds = times_.Transfer(from, to).value();
    if (gathers_ < gathered_ahead_) ahead_ += seconds;
    (ctx_->device().IsOnHost(from) ? Part().to_device : Part().to_host) += seconds;
    return seconds;
  }
  // What computes beside a communication is slowed as in a simulation, which follows the program's order as well.
  uint64_t Number() const override { return number_; }
  double Late() const override { return late_; }
  void Waits(uint64_t number) override { communicating_.Ended(number); }
  void ComputeWaits() override { apart_ = 0; }

  double Communicate(const std::vector<int>& ranks, int rank, const Communication& c) override {
    number_ = 0, late_ = 0;
    if (timed_.without_replicas && c.is_collective() && !IsAllToAll(c.kind) && IsOfReplicas(ranks, mesh_)) return 0;
    if (timed_.beside) {
      const LeastTimes::Occupation o = Occupies(ranks, rank, c);
      if (o.seconds > 0) number_ = communicating_.Began(ranks.data(), o.seconds, o.takes);
    }
    if (timed_.places.empty() && step_ == timed_.steps) {
      for (const LeastTimes::Load& load : times_.Loads(ranks, rank, c)) Part().links[load.link] += load.seconds;
    }
    if (c.kind == Communication::kRecv) {
      const int64_t bytes = c.out.bytes().value();
      came_[ctx_->trace().label().data()] = bytes, awaited_ += bytes;
    }
    if (c.kind == Communication::kSend || c.kind == Communication::kRecv) return 0;
    if (c.kind == Communication::kBatch) return Exchange(ranks, rank, c);
    Arrive();
    const auto bytes = static_cast<double>(c.bytes().value());
    constexpr double kNumber = 8;
    if (!open_ && c.sums() && bytes <= kNumber) before_meeting_ = std::max(before_meeting_, outside_ops_);
    const bool of_replicas = IsOfReplicas(ranks, mesh_);
    const bool others = of_replicas && !timed_.replicas.empty();
    double seconds = kNone;
    for (const auto& replicas : timed_.replicas)
      if (others) seconds = std::min(seconds, Together(replicas, AreDifferent(replicas), c, bytes));
    if (!others) {
      seconds = Least([&](auto at) {
        if (at == nullptr) return Together(ranks, true, c, bytes);
        const Placed& placed = At(ranks, at);
        return Together(placed.at, placed.different, c, bytes);
      });
    }
    if (of_replicas) {
      (c.kind == Communication::kAllGather ? Part().gathers : Part().reductions) += seconds;
      if (gathers_++ < gathered_ahead_) ahead_ += seconds;
    }
    if (IsAlongTp(ranks, mesh_)) Meet(mesh_.tp);
    return seconds;
  }

  // n ranks wait for the slowest of them, which comes later than this device's being slower says.
  void Meet(int n) {
    if (timed_.deviations == 0) return;
    const sim::NormalMaximum slowest = sim::MaximumOf(n);
    const double left = n == timed_.world ? 0 : slowest.deviation;  // if all meet, nobody is left to differ from
    const double more = slowest.mean - timed_.deviations * (1 - left);
    late_ = std::max(0.0, more * std::exchange(apart_, 0));
  }

  void End() { EndAction(); }
  RankTimes Result() const {
    RankTimes result;
    result.actions = actions_, result.around = around_, result.outside = outside_, result.most_slowed = most_slowed_;
    result.before_meeting = before_meeting_;
    result.operations = operations_;
    for (const RankTimes::OfAction& action : actions_) result.launches += action.launches;
    return result;
  }

 private:
  // An operation of the next action begins it. Messages are received ahead, under the label of the action that needs
  // them; so labels alone do not say where an action begins.
  void Arrive() {
    const std::string_view label = ctx_->trace().label();
    if (label.empty() || (label.data() == label_.data() && at_ >= 0)) {
      if (label.empty() && at_ >= 0) EndAction();
      return;
    }
    EndAction();
    label_ = label;
    ++at_;
    if (step_ == 1 || at_ > 0) {
      Cut();
      begin_ = TimeOf(compute);
      if (step_ == 1) last_begin_ = begin_;
    }
    open_ = true;
    if (step_ == timed_.steps) actions_.push_back({.action = ActionOf(label)});
    live_ = Live(), awaited_ = 0, ahead_ = 0, gathers_ = 0, own_ = 0, apart_ = 0;
  }
  void EndAction() {
    if (!open_) return;
    open_ = false;
    if (step_ == 1 && at_ == 0) first_ = TimeOf(compute) - begin_;
    if (step_ < timed_.steps) return;
    RankTimes::OfAction& action = actions_.back();
    // Messages of later actions are received ahead; this one's was there before the action began.
    action.kept = Live() - live_ - awaited_ + came_[label_.data()];
    if (at_ == 0 && step_ > 1)
      around_ = TimeOf(compute) - last_begin_, action.whole = first_;
    else
      action.whole = TimeOf(compute) - begin_;
    action.after_message = action.whole;
    // The host is ahead: while an action waits for its message, what it gathers first may come before that.
    if (ahead_ > 0 && mesh_.pp > 1)
      action.after_message = std::max(std::min(own_, action.whole), action.whole - ahead_);
  }
  static pipeline::Action ActionOf(std::string_view label) {
    using pipeline::Action;
    Action action{.kind = label[0] == 'F'   ? Action::kForward
                          : label[0] == 'B' ? Action::kBackward
                          : label[0] == 'I' ? Action::kBackwardInput
                                            : Action::kBackwardWeights};
    const std::string text(label.substr(1));
    action.micro_batch = std::stoi(text);
    if (const size_t dot = text.find('.'); dot != std::string::npos) action.chunk = std::stoi(text.substr(dot + 1));
    return action;
  }
  int64_t Live() const {
    const MemoryStats& stats = ctx_->memory();
    return stats.live_by_category[static_cast<size_t>(Category::kActivations)].value();
  }

  LeastTimes::Occupation Occupies(const std::vector<int>& ranks, int rank, const Communication& c) {
    if (timed_.places.empty()) return times_.Occupies(ranks, rank, c);
    TWOFOLD_CHECK_EQ(timed_.places.size(), 1u);
    const Placed& at = At(ranks, timed_.places.data());
    if (!at.different) return {};  // between stages, all of which are at one
    return times_.Occupies(at.at, rank, c);
  }
  double Exchange(const std::vector<int>& ranks, int rank, const Communication& c) {
    return Least([&](auto at) { return ExchangeAt(at == nullptr ? ranks : At(ranks, at).at, rank, c); });
  }
  double ExchangeAt(const std::vector<int>& ranks, int rank, const Communication& c) {
    double longest = 0;
    for (const P2p& op : c.batch) {
      if (op.peer == kAnySource) continue;
      const int own = ranks[static_cast<size_t>(rank)], other = ranks[static_cast<size_t>(op.peer)];
      if (own == other) continue;
      const auto bytes = static_cast<double>(op.tensor.bytes().value());
      const bool sends = op.kind == P2p::kSend;
      longest = std::max(longest, times_.Message(ranks, sends ? own : other, sends ? other : own, bytes).value());
    }
    return longest;
  }
  // Looks at each of them once, since groups may have thousands.
  bool AreDifferent(const std::vector<int>& ranks) {
    ++look_;
    for (const int rank : ranks) {
      const auto at = static_cast<size_t>(rank);
      if (seen_.size() <= at) seen_.resize(at + 1);
      if (std::exchange(seen_[at], look_) == look_) return false;
    }
    return true;
  }
  // Nothing is known of a group of which two ranks stand for the same one of the whole job.
  double Together(const std::vector<int>& ranks, bool different, const Communication& c, double bytes) {
    if (!different) return 0;
    return times_.Collective(ranks, c.kind, bytes, c.peer).value();
  }
  RankTimes::OfAction& Part() { return open_ && step_ == timed_.steps ? actions_.back() : outside_; }
  // Where the job is: one of timed_.places, or null for the ranks as they are.
  using Places = const std::vector<int>*;
  template <class TimeAt>
  double Least(const TimeAt& time) {
    if (timed_.places.empty()) return time(Places(nullptr));
    double least = kNone;
    for (const std::vector<int>& places : timed_.places) least = std::min(least, time(&places));
    return least;
  }
  // A group's ranks there. Valid until as many others as are kept were asked for: groups may have thousands of ranks.
  struct Placed {
    Places places = nullptr;
    std::vector<int> ranks = {}, at = {};
    bool different = false;
  };
  const Placed& At(const std::vector<int>& ranks, Places places) {
    for (const Placed& known : placed_)
      if (known.places == places && known.ranks == ranks) return known;
    Placed& placed = placed_[next_placed_++ % placed_.size()];
    placed = {.places = places, .ranks = ranks, .at = ranks};
    for (int& rank : placed.at) rank = (*places)[static_cast<size_t>(rank)];
    placed.different = AreDifferent(placed.at);
    return placed;
  }

  const MeshShape mesh_;
  const int64_t gathered_ahead_;
  const TimedRank& timed_;
  LeastTimes& times_;
  RankContext* ctx_ = nullptr;
  int step_ = 0, at_ = -1;  // the step, from 1; the action in it
  std::string_view label_;
  bool open_ = false;                              // an action has begun and not ended
  double begin_ = 0, last_begin_ = 0, first_ = 0;  // first_: seconds of the first action after nothing
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  // In this action: seconds of what is gathered ahead, and moved to the device for it; how many such communications
  // came; seconds of operations.
  double ahead_ = 0, own_ = 0;
  double late_ = 0;   // of the communication that was issued last
  double apart_ = 0;  // the deviation of what was computed since ranks along tp met or this one waited for anything
  int64_t gathers_ = 0;
  int64_t live_ = 0, awaited_ = 0;            // bytes; of messages that are received since the action began
  std::map<const char*, int64_t> came_ = {};  // bytes of messages, by the label of the action that they are for
  RankTimes::OfAction outside_;
  std::vector<RankTimes::OfAction> actions_;
  double around_ = 0;
  double outside_ops_ = 0, before_meeting_ = 0, operations_ = 0;  // RankTimes
  Communicating communicating_;
  double most_slowed_ = 1;
  std::vector<int64_t> seen_ = {};  // by rank: AreDifferent's last look that saw it
  int64_t look_ = 0;
  std::array<Placed, 8> placed_ = {};
  size_t next_placed_ = 0;
  uint64_t number_ = 0;  // in communicating_: of the communication that was issued last
};

}  // namespace

absl::StatusOr<RankTimes> TimeRank(const spec::Spec& spec, const TimedRank& timed, const Samples& samples,
                                   const host::MemoryRules& rules, LeastTimes& times) {
  TrainingOptions run = TrainingOptionsOf(spec);
  run.steps = timed.steps;
  times.SetLayout(spec.parallel());
  // Where parameters are gathered unit by unit, those of the next units; else whatever there is. From host memory they
  // are moved in a stream of its own, which may be further ahead.
  const spec::Parallel& p = spec.parallel();
  const bool by_unit = (p.sharding() == spec::Parallel::FULL_SHARD || p.sharding() == spec::Parallel::HYBRID_SHARD) &&
                       p.offload() != spec::Parallel::OFFLOAD_ALL;
  Stopwatch watch(run.mesh, by_unit ? p.prefetch() + 1 : std::numeric_limits<int64_t>::max(), timed, times);
  int64_t peak = 0, host_peak = 0;
  const ReplayResult result = Replay(
      {.rank = timed.rank,
       .world_size = static_cast<int>(WorldSize(spec)),
       .kind = rules.kind,
       .threads = static_cast<int>(spec.train().threads_per_rank())},
      [&](RankContext& ctx) {
        watch.Attach(ctx);
        std::string record = TrainRank(ctx, run, samples, {}, [&](int64_t step) {
          watch.BeginStep();
          return step;
        });
        watch.End();
        peak = ctx.memory().peak.value();
        host_peak = ctx.host_memory().peak.value();
        return record;
      },
      &watch);
  if (!result.status.ok()) return result.status;
  const bool fits = rules.device.value() == 0 || peak <= rules.device.value();
  if (!fits || (rules.host.value() > 0 && host_peak > rules.host.value()))
    return absl::ResourceExhaustedError("what the rank holds at once exceeds its memory");
  RankTimes measured = watch.Result();
  report::RankRecord record;
  TWOFOLD_CHECK(record.ParseFromString(result.result), "a rank's record");
  measured.parameters = record.parameters(), measured.peak_bytes = peak;
  return measured;
}

}  // namespace twofold::plan
