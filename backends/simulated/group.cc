#include "backends/simulated/group.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "backends/simulated/apply.h"
#include "core/base/errors.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"

namespace twofold {

bool SimulatedWorld::NoteKinds(const std::vector<std::vector<int>>& groups, std::span<const std::vector<int>> by_group,
                               const std::string& why) {
  std::map<int, int> of_class;
  bool differ = false;
  const auto for_all = [&](const auto& visit) {
    for (size_t g = 0; g < groups.size(); ++g) {
      const std::vector<int>& own = by_group[by_group.size() == 1 ? 0 : g];
      for (size_t i = 0; i < groups[g].size(); ++i) visit(groups[g][i], own[i]);
    }
  };
  for_all([&](int rank, int kind) {
    const auto [it, fresh] = of_class.try_emplace(stand_ins[static_cast<size_t>(rank)], kind);
    differ = differ || it->second != kind;
  });
  if (!differ) return false;
  for_all([&](int rank, int kind) { kinds.Note(rank, kind); });
  if (folding_refused.empty()) folding_refused = why;
  return true;
}

SimulatedGroup::SimulatedGroup(SimulatedWorld& world, std::string name, std::vector<std::vector<int>> groups)
    : world_(world),
      name_(std::move(name)),
      groups_(std::make_shared<const std::vector<std::vector<int>>>(std::move(groups))),
      label_(host::GroupLabel(name_, ranks())),
      stand_ins_(ranks()) {
  if (world_.folded()) {
    for (int& rank : stand_ins_) rank = world_.stand_ins[static_cast<size_t>(rank)];
  }
  for (const int rank : stand_ins_) ++represents_[rank];
  actors_ = represents_.size();
  id_ = absl::HashOf(ranks());
  if (ranks().size() == 1) return;
  network_groups_ = world_.network.AddGroups(groups_, name_);
  world_.groups.insert(this);
}

size_t SimulatedGroup::waiting() const {
  size_t count = sends_.size() + recvs_.size();
  for (const auto& [number, arrivals] : arrivals_) count += arrivals.size();
  for (const auto& [number, exchanging] : exchanges_) count += exchanging.size();
  return count;
}

SimulatedGroup::~SimulatedGroup() {
  if (network_groups_ < 0) return;
  world_.network.RemoveGroups(network_groups_);
  world_.groups.erase(this);
}

void SimulatedGroup::RanksDiffer(std::span<const int> kinds, const std::string& why) {
  TWOFOLD_CHECK_EQ(kinds.size(), ranks().size());
  std::vector<int> own(kinds.begin(), kinds.end());
  if (!world_.folded() || !told_.insert(own).second) return;
  if (!world_.barrier_passed) {
    world_.NoteKinds(*groups_, std::array{std::move(own)}, why);
    return;
  }
  if (TellApart(kinds, why, true)) RefuseFolding(why);
}

bool SimulatedGroup::RanksDifferInTime(std::span<const int> kinds, double share, const std::string& why) {
  if (!world_.folded() || !world_.may_be_unequal) {
    RanksDiffer(kinds, why);
    return false;
  }
  double& most = world_.unequal[why];
  most = std::max(most, share);
  return true;
}

bool SimulatedGroup::RanksDifferBriefly(std::span<const int> kinds, const std::string& why) {
  if (!world_.folded() || !world_.may_differ_briefly) {
    RanksDiffer(kinds, why);
    return false;
  }
  if (!DifferWithinClasses(kinds)) return false;
  world_.briefly.insert(why);
  return true;
}

// Whether ranks of one class are of different kinds, in any of the groups that do the same.
bool SimulatedGroup::DifferWithinClasses(std::span<const int> kinds) const {
  std::map<int, int> of_class;
  for (const std::vector<int>& group : *groups_) {
    for (size_t place = 0; place < group.size(); ++place) {
      const int stand_in = world_.stand_ins[static_cast<size_t>(group[place])];
      if (of_class.try_emplace(stand_in, kinds[place]).first->second != kinds[place]) return true;
    }
  }
  return false;
}

void SimulatedGroup::TellAllApart(const std::string& why) {
  std::vector<int> places(ranks().size());
  std::iota(places.begin(), places.end(), 0);
  TellApart(places, why, false);
  RefuseFolding(why);
}

bool SimulatedGroup::EqualWithinClasses(std::span<const int64_t> counts) const {
  std::map<int, int64_t> of;  // by stand-in
  for (size_t r = 0; r < counts.size(); ++r)
    if (of.try_emplace(stand_ins_[r], counts[r]).first->second != counts[r]) return false;
  return true;
}

bool SimulatedGroup::TellApart(std::span<const int> kinds, const std::string& why, bool also_alike) {
  const std::array own{std::vector<int>(kinds.begin(), kinds.end())};
  bool noted = false;
  for (SimulatedGroup* group : world_.groups) {
    const bool same = group->name_ == name_ && group->ranks().size() == kinds.size();
    if (same && (also_alike || group->actors_ > 1 || group == this))
      noted = world_.NoteKinds(*group->groups_, own, why) || noted;
  }
  return noted;
}

const std::vector<int>& SimulatedGroup::ranks(int world_rank) const {
  for (const std::vector<int>& group : *groups_) {
    if (std::find(group.begin(), group.end(), world_rank) != group.end()) return group;
  }
  TWOFOLD_CHECK(false, StrCat("rank ", world_rank, " is not in group ", *label_));
  return groups_->front();
}

int SimulatedGroup::place(int world_rank) const {
  const std::vector<int>& group = ranks(world_rank);
  return static_cast<int>(std::find(group.begin(), group.end(), world_rank) - group.begin());
}

std::string SimulatedGroup::MissingAt(const host::Call& call) const {
  if (call.sequence <= (call.split ? split_ : met_)) return "";
  std::vector<bool> here(ranks().size());
  auto note = [&here, this](const auto& calls, uint64_t sequence) {
    const auto those = calls.find(sequence);
    if (those == calls.end()) return;
    for (const auto& a : those->second) {
      for (size_t r = 0; r < here.size(); ++r)
        here[r] = here[r] || stand_ins_[r] == stand_ins_[static_cast<size_t>(a.rank)];
    }
  };
  call.split ? note(splits_, call.sequence) : note(arrivals_, call.sequence);
  std::vector<int> missing;
  for (size_t r = 0; r < ranks().size(); ++r) {
    if (!here[r]) missing.push_back(ranks()[r]);
  }
  std::sort(missing.begin(), missing.end());
  return RankList(missing);
}

void SimulatedGroup::Mismatch(const std::string& where, int rank_a, const std::string& a, int rank_b,
                              const std::string& b) {
  const int world_a = world_rank(rank_a), world_b = world_rank(rank_b);
  world_.engine.Fail(CollectiveMismatch(world_b, host::MismatchText(*label_, where, world_a, a, world_b, b)));
}

void SimulatedGroup::Arrive(Arrival arrival) {
  if (world_.engine.failed()) return;  // other ranks may have left, and their operands may be freed
  const host::Call& call = *arrival.call;
  const uint64_t sequence = call.sequence;
  std::vector<Arrival>& here = arrivals_[sequence];
  if (here.empty()) here.reserve(actors());
  if (!here.empty() && !host::SameCollective(here[0].call->communication, call.communication)) {
    return Mismatch(StrCat("collective ", sequence), here[0].rank, host::WithBytes(here[0].call->communication),
                    arrival.rank, host::WithBytes(call.communication));
  }
  here.push_back(std::move(arrival));
  if (here.size() < actors()) return;
  std::vector<Arrival> all = std::move(here);
  arrivals_.erase(sequence);
  met_ = sequence;
  std::sort(all.begin(), all.end(), [](const Arrival& a, const Arrival& b) { return a.rank < b.rank; });
  if (SameCounts(all)) Begin(std::move(all));
}

bool SimulatedGroup::SameCounts(const std::vector<Arrival>& arrivals) {
  if (arrivals[0].call->communication.kind != Communication::kAllToAllV) return true;
  for (const Arrival& to : arrivals) {
    for (const Arrival& from : arrivals) {
      const int64_t sent = from.call->communication.in_counts[static_cast<size_t>(to.rank)];
      const int64_t expected = to.call->communication.out_counts[static_cast<size_t>(from.rank)];
      if (sent == expected) continue;
      const int64_t size = ElementSize(to.call->communication.out.dtype());
      auto text = [size](std::string_view does, int64_t count, std::string_view direction, int rank) {
        return StrCat("all_to_all_v ", does, " ", count, " elements (", count * size, " bytes) ", direction, " rank ",
                      rank, " of the group");
      };
      Mismatch(StrCat("collective ", to.call->sequence), from.rank, text("sending", sent, "to", to.rank), to.rank,
               text("expecting", expected, "from", from.rank));
      return false;
    }
  }
  return true;
}

sim::CollectiveShape SimulatedGroup::ShapeOf(const std::vector<Arrival>& arrivals) const {
  const auto ranks = static_cast<int>(this->ranks().size());
  const Communication& c = arrivals[0].call->communication;
  sim::CollectiveShape shape{c.kind, ranks, static_cast<double>(c.bytes().value()), c.peer, {}};
  // Ranks other than the root know the size of their part.
  if (c.kind == Communication::kGather || c.kind == Communication::kScatter) {
    const Tensor& part = c.kind == Communication::kGather ? c.in : c.out;
    shape.bytes = static_cast<double>(part.bytes().value()) * ranks;
  }
  if (c.kind == Communication::kAllToAllV) {
    for (const int stand_in : stand_ins_) {
      const auto actor = std::find_if(arrivals.begin(), arrivals.end(), [&](const Arrival& a) {
        return stand_ins_[static_cast<size_t>(a.rank)] == stand_in;
      });
      auto& row = shape.matrix.emplace_back();
      for (int64_t count : actor->call->communication.in_counts)
        row.push_back(static_cast<double>(count * ElementSize(c.in.dtype())));
      shape.bytes = std::max(shape.bytes, std::accumulate(row.begin(), row.end(), 0.0));
    }
  }
  return shape;
}

sim::Network::Occupation SimulatedGroup::Occupies(int rank, const Communication& c) const {
  const auto ranks = static_cast<int>(this->ranks().size());
  if (!c.is_collective()) {
    sim::Network::Occupation all;
    const auto add = [&](bool send, int peer, const Tensor& tensor) {
      if (peer == kAnySource || peer == rank) return;
      int from = send ? rank : peer, to = send ? peer : rank;
      if (!all_different()) to = (to - from + ranks) % ranks, from = -1;  // as in Exchange
      const sim::Network::Occupation one =
          world_.network.MessageOccupies(network_groups_, from, to, static_cast<double>(tensor.bytes().value()));
      all = {std::max(all.seconds, one.seconds), std::max(all.multiprocessors, one.multiprocessors),
             std::max(all.bytes, one.bytes)};
    };
    if (c.kind == Communication::kSend) add(true, c.peer, c.in);
    if (c.kind == Communication::kRecv) add(false, c.peer, c.out);
    for (const P2p& op : c.batch) add(op.kind == P2p::kSend, op.peer, op.tensor);
    return all;
  }
  sim::CollectiveShape shape{c.kind, ranks, static_cast<double>(c.bytes().value()), c.peer, {}};
  if (c.kind == Communication::kGather || c.kind == Communication::kScatter)
    shape.bytes = static_cast<double>((c.kind == Communication::kGather ? c.in : c.out).bytes().value()) * ranks;
  if (c.kind == Communication::kAllToAllV) shape.kind = Communication::kAllToAll;
  return world_.network.Occupies(network_groups_, shape);
}

void SimulatedGroup::Begin(std::vector<Arrival> arrivals) {
  const bool barrier = arrivals[0].call->communication.kind == Communication::kBarrier;
  if (barrier && !world_.kinds.of().empty())
    return RefuseFolding(world_.folding_refused);  // known early: nothing has run
  double start = world_.engine.now();  // ranks that finished a collective before others may be behind the clock
  for (const Arrival& a : arrivals) start = std::max(start, a.slowest);
  start = std::max(start, LastOf(arrivals));
  for (const Arrival& a : arrivals) *a.started = start;
  if (world_.real) {
    std::vector<const Communication*> calls;
    for (const Arrival& a : arrivals) calls.push_back(&a.call->communication);
    ApplyCollective(calls);
  }
  sim::CollectiveShape shape = ShapeOf(arrivals);
  shape.follows =
      shape.IsChain() && shape.kind == ended_.kind && shape.root == ended_.root && start == ended_.time &&
      std::all_of(arrivals.begin(), arrivals.end(), [&](const Arrival& a) { return a.issued < ended_.time; });
  const bool goal = arrivals[0].goal != nullptr;
  auto all = std::make_shared<std::vector<Arrival>>(std::move(arrivals));
  const auto self = shared_from_this();  // the callback may release the group
  try {
    if (goal) TellGoal(*all, shape);
    NoteWhatRan(shape.kind, shape.bytes,
                world_.network.Collective(network_groups_, shape, start,
                                          [self, all](const std::vector<double>& finish, double apart) {
                                            self->Finish(*all, finish, apart);
                                          }));
  } catch (const RankFailure& failure) {
    world_.engine.Fail(failure);
  }
}

void SimulatedGroup::TellGoal(const std::vector<Arrival>& arrivals, const sim::CollectiveShape& shape) {
  const sim::Schedule schedule = WithFlows(*world_.network.ScheduleOf(network_groups_, shape), shape.ranks);
  const auto messages = GoalMessagesOf(schedule, ranks(), world_.goal_tags.Next(FlowsOf(schedule)));
  for (const Arrival& a : arrivals) a.goal->Consists(a.node, messages[static_cast<size_t>(a.rank)]);
}

double SimulatedGroup::LastOf(std::vector<Arrival>& arrivals) const {
  double latest = 0;
  bool apart = false;
  std::vector<sim::Arriving> all;
  for (const Arrival& a : arrivals) {
    const int stand_in = stand_ins_[static_cast<size_t>(a.rank)];
    all.push_back({a.time, a.spread.Within(id_), represents_.at(stand_in)});
    latest = std::max(latest, a.time), apart = apart || all.back().deviation > 0;
  }
  if (!apart) return latest;
  const sim::Arriving last = sim::LastOf(std::move(all));
  for (Arrival& a : arrivals) {
    const double deviation = a.spread.Within(id_);
    const sim::NormalMaximum slowest =
        deviation > 0 ? sim::NormalMaximum{(last.mean - a.time) / deviation, last.deviation / deviation}
                      : sim::MaximumOf(static_cast<int64_t>(ranks().size()));
    a.spread = sim::AfterMeeting(a.spread, deviation, slowest, id_, everyone());
  }
  return last.mean;
}

double SimulatedGroup::SlowestIsLater(sim::Spread& spread) const {
  const double deviation = spread.Within(id_);
  if (deviation == 0) return 0;
  const sim::NormalMaximum slowest = sim::MaximumOf(static_cast<int64_t>(ranks().size()));
  spread = sim::AfterMeeting(spread, deviation, slowest, id_, everyone());
  return slowest.mean * deviation;
}

void SimulatedGroup::NoteWhatRan(Communication::Kind kind, double bytes, const sim::Network::Name& name) {
  if (std::find(ranks().begin(), ranks().end(), 0) == ranks().end()) return;
  world_.ran[{name_, kind, static_cast<int64_t>(bytes)}] = name;
}

bool SimulatedGroup::HaveParted(double first, double last) const {
  constexpr double kRounding = 1e-12;
  return world_.folded() && world_.barrier_passed && last - first > kRounding * last;
}

void SimulatedGroup::Parted(Communication::Kind kind, int stand_in, double start, double first, double last) {
  if (!HaveParted(first, last)) return;
  if (world_.none_may_part) return RefuseFolding(StrCat("ranks finish ", KindName(kind), " at different times"));
  world_.apart = std::max(world_.apart, (last - first) / (last - start));
  world_.late[stand_in] += last - first;
}

void SimulatedGroup::HandOnLateness(std::span<const int> stand_ins) {
  double latest = 0;
  for (const int s : stand_ins) latest = std::max(latest, world_.late[s]);
  for (const int s : stand_ins) world_.late[s] = latest;
}

void SimulatedGroup::RefuseFolding(const std::string& why) {
  if (world_.folding_refused.empty()) world_.folding_refused = why;
  world_.engine.Fail(
      RankFailure(RankFailure::Kind::kOther, ranks()[0], StrCat("identical ranks cannot be folded: ", why)));
}

void SimulatedGroup::Finish(const std::vector<Arrival>& arrivals, const std::vector<double>& finish, double apart) {
  const auto [first, last] = std::minmax_element(finish.begin(), finish.end());
  const double end = *last;
  const Communication::Kind kind = arrivals[0].call->communication.kind;
  ended_ = {kind, arrivals[0].call->communication.peer, end};
  std::vector<double> done(arrivals.size(), end);
  if (!world_.late.empty()) HandOnLateness(stand_ins_);
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const int stand_in = stand_ins_[static_cast<size_t>(arrivals[i].rank)];
    double soonest = end, latest = *first == end ? end : 0;
    for (size_t f = 0; *first < end && f < finish.size(); ++f) {  // group by group
      if (stand_ins_[f % stand_ins_.size()] == stand_in)
        soonest = std::min(soonest, finish[f]), latest = std::max(latest, finish[f]);
    }
    Parted(kind, stand_in, *arrivals[i].started, soonest - apart, latest);
    done[i] = latest;
  }
  if (kind == Communication::kBarrier && !world_.barrier_passed)
    world_.barrier_passed = true, world_.set_up = MomentNow();
  std::vector<size_t> order(arrivals.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(), [&](size_t i) { return !arrivals[i].behind; });
  for (const size_t i : order) {
    const Arrival& a = arrivals[i];
    if (world_.engine.failed()) return;  // a rank that was resumed may have failed since: the others are gone
    a.entry->seconds.store(a.entry->seconds.load() + (end - a.time));
    if (a.trace->enabled()) {
      a.trace->Add({StrCat("communication ", name_), std::string(KindName(kind)), Seconds(a.time), Seconds(done[i]),
                    a.call->communication.bytes(), Seconds(*a.started - a.time), std::string(a.label)});
    }
    a.done->Resolve(done[i], a.spread);
  }
}

}  // namespace twofold
