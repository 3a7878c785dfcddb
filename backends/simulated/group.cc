#include "backends/simulated/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "backends/simulated/apply.h"
#include "core/base/errors.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// One message of a batch as a communication of its own, for messages to the user.
Communication Alone(const P2p& m) {
  const bool send = m.kind == P2p::kSend;
  return {.kind = send ? Communication::kSend : Communication::kRecv,
          .in = send ? m.tensor : Tensor(),
          .out = send ? Tensor() : m.tensor,
          .peer = m.peer,
          .tag = m.tag};
}

// Notes that one message of a call is done at `finish`.
void PartEnds(SimulatedGroup::Pending& p, const std::string& group, double finish) {
  p.finish = std::max(p.finish, finish);
  if (--p.left > 0) return;
  p.entry->seconds.store(p.entry->seconds.load() + (p.finish - p.started));
  if (p.trace->enabled()) {
    const Communication& c = p.call->communication;
    p.trace->Add({StrCat("communication ", group), std::string(KindName(c.kind)), Seconds(p.started), Seconds(p.finish),
                  c.bytes(), Seconds(std::max(0.0, p.met - p.started)), std::string(p.label)});
  }
  p.done->Resolve(p.finish);
}

}  // namespace

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
  kinds.resize(stand_ins.size());
  for_all([&](int rank, int kind) {
    int& number = kinds[static_cast<size_t>(rank)];
    number = combined.try_emplace({number, kind}, static_cast<int>(combined.size()) + 1).first->second;
  });
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
  actors_ = std::set<int>(stand_ins_.begin(), stand_ins_.end()).size();
  if (ranks().size() == 1) return;
  network_groups_ = world_.network.AddGroups(groups_);
  world_.groups.insert(this);
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

void SimulatedGroup::TellAllApart(const std::string& why) {
  std::vector<int> places(ranks().size());
  std::iota(places.begin(), places.end(), 0);
  TellApart(places, why, false);
  RefuseFolding(why);
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

std::string SimulatedGroup::MissingFor(const Pending& messages) const {
  std::set<int> missing;
  bool any = false;
  for (const std::deque<Message>* waiting : {&sends_, &recvs_}) {
    for (const Message& m : *waiting) {
      if (m.pending.get() != &messages) continue;
      if (m.op.peer == kAnySource)
        any = true;
      else
        missing.insert(world_rank(m.op.peer));
    }
  }
  for (const auto& [sequence, here] : exchanges_) {
    if (std::none_of(here.begin(), here.end(), [&](const auto& e) { return e.pending.get() == &messages; })) continue;
    for (size_t r = 0; r < stand_ins_.size(); ++r) {
      const auto is_here = [&](const Exchanging& e) {
        return stand_ins_[static_cast<size_t>(e.rank)] == stand_ins_[r];
      };
      if (std::none_of(here.begin(), here.end(), is_here)) missing.insert(world_rank(static_cast<int>(r)));
    }
  }
  if (missing.empty()) return any ? "a sender" : "";
  return StrCat(RankList(std::vector<int>(missing.begin(), missing.end())), any ? " and a sender" : "");
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

void SimulatedGroup::Begin(std::vector<Arrival> arrivals) {
  const bool barrier = arrivals[0].call->communication.kind == Communication::kBarrier;
  if (barrier && !world_.kinds.empty()) return RefuseFolding(world_.folding_refused);  // known early: nothing has run
  double start = world_.engine.now();  // ranks that finished a collective before others may be behind the clock
  for (const Arrival& a : arrivals) start = std::max({start, a.time, a.slowest});
  for (const Arrival& a : arrivals) *a.started = start;
  if (world_.real) {
    std::vector<const Communication*> calls;
    for (const Arrival& a : arrivals) calls.push_back(&a.call->communication);
    ApplyCollective(calls);
  }
  const sim::CollectiveShape shape = ShapeOf(arrivals);
  auto all = std::make_shared<std::vector<Arrival>>(std::move(arrivals));
  const auto self = shared_from_this();  // the callback may release the group
  try {
    NoteWhatRan(shape.kind, shape.bytes,
                world_.network.Collective(network_groups_, shape, start,
                                          [self, all](const std::vector<double>& finish, double apart) {
                                            self->Finish(*all, finish, apart);
                                          }));
  } catch (const RankFailure& failure) {
    world_.engine.Fail(failure);
  }
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
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const Arrival& a = arrivals[i];
    if (world_.engine.failed()) return;  // a rank that was resumed may have failed since: the others are gone
    a.entry->seconds.store(a.entry->seconds.load() + (end - a.time));
    if (a.trace->enabled()) {
      a.trace->Add({StrCat("communication ", name_), std::string(KindName(kind)), Seconds(a.time), Seconds(done[i]),
                    a.call->communication.bytes(), Seconds(*a.started - a.time), std::string(a.label)});
    }
    a.done->Resolve(done[i]);
  }
}

bool SimulatedGroup::Match(const Message& send, const Message& recv) const {
  return send.op.peer == recv.rank && send.op.tag == recv.op.tag &&
         (recv.op.peer == kAnySource || recv.op.peer == send.rank);
}

void SimulatedGroup::Post(int rank, const P2p& op, double time, std::shared_ptr<Pending> pending) {
  if (world_.engine.failed()) return;  // as in Arrive
  Message message{rank, op, time, std::move(pending)};
  const double bytes = static_cast<double>(op.tensor.bytes().value());
  const bool eager = op.kind == P2p::kSend && bytes <= world_.network.library().eager_bytes();
  if (eager) {
    message.eager = std::make_shared<Eager>();
    const auto* data = static_cast<const std::byte*>(world_.real ? op.tensor.raw() : nullptr);
    if (data != nullptr) message.eager->payload.assign(data, data + op.tensor.bytes().value());
  }
  Meet(message);
  if (eager && !world_.engine.failed()) SendEagerly(message);
}

void SimulatedGroup::Meet(const Message& message) {
  const P2p& op = message.op;
  const bool is_send = op.kind == P2p::kSend;
  std::deque<Message>& others = is_send ? recvs_ : sends_;
  std::deque<Message>& own = is_send ? sends_ : recvs_;
  if (!is_send && op.peer == kAnySource) {
    own.push_back(message);
    const auto match_at = [this, &message](double time) {
      world_.engine.At(time, [self = shared_from_this(), rank = message.rank] { self->MatchAnySource(rank); });
    };
    for (const Message& send : others) {
      if (send.op.peer == message.rank && send.time > message.time) match_at(send.time);
    }
    return match_at(message.time);
  }
  for (auto it = others.begin(); it != others.end(); ++it) {
    const Message& send = is_send ? message : *it;
    const Message& recv = is_send ? *it : message;
    if (!Match(send, recv)) continue;
    if (recv.op.peer == kAnySource) break;  // decided when the clock gets there: an earlier send may still be posted
    const Message other = *it;
    others.erase(it);
    return is_send ? Deliver(message, other) : Deliver(other, message);
  }
  own.push_back(message);
  const auto from_any = [&op](const Message& recv) { return recv.rank == op.peer && recv.op.peer == kAnySource; };
  if (is_send && std::any_of(recvs_.begin(), recvs_.end(), from_any)) {
    const int receiver = op.peer;
    world_.engine.At(message.time, [self = shared_from_this(), receiver] { self->MatchAnySource(receiver); });
  }
}

// At this moment of the clock all sends that could have been posted earlier have been: the earliest one wins; ties go
// to the lowest rank.
void SimulatedGroup::MatchAnySource(int receiver) {
  for (auto recv = recvs_.begin(); recv != recvs_.end();) {
    auto best = sends_.end();
    if (recv->rank == receiver && recv->op.peer == kAnySource && recv->time <= world_.engine.now()) {
      for (auto send = sends_.begin(); send != sends_.end(); ++send) {
        if (!Match(*send, *recv) || send->time > world_.engine.now()) continue;
        if (best == sends_.end() || std::pair(send->time, send->rank) < std::pair(best->time, best->rank)) best = send;
      }
    }
    if (best == sends_.end()) {
      ++recv;
      continue;
    }
    const Message s = *best, r = *recv;
    sends_.erase(best);
    recv = recvs_.erase(recv);
    Deliver(s, r);
  }
}

void SimulatedGroup::Deliver(const Message& send, const Message& recv) {
  if (send.op.tensor.numel() != recv.op.tensor.numel() || send.op.tensor.dtype() != recv.op.tensor.dtype()) {
    const uint64_t sent = send.pending->call->sequence, received = recv.pending->call->sequence;
    const std::string where = sent == received ? StrCat("message ", sent)
                                               : StrCat("message ", sent, " of rank ", world_rank(send.rank),
                                                        " and message ", received, " of rank ", world_rank(recv.rank));
    return Mismatch(where, send.rank, host::WithBytes(Alone(send.op)), recv.rank, host::WithBytes(Alone(recv.op)));
  }
  if (world_.real) {
    const void* data = send.eager != nullptr ? send.eager->payload.data() : send.op.tensor.raw();
    std::memcpy(recv.op.tensor.raw(), data, static_cast<size_t>(send.op.tensor.bytes().value()));
  }
  recv.pending->source = send.rank;
  recv.pending->met = std::max(recv.pending->met, send.time);
  if (send.eager != nullptr) {
    if (send.eager->arrival >= 0) return PartEnds(*recv.pending, name_, std::max(recv.time, send.eager->arrival));
    send.eager->posted = recv.time;
    send.eager->receiver = recv.pending;
    return;
  }
  send.pending->met = std::max(send.pending->met, recv.time);
  const double start = std::max({send.time, recv.time, world_.engine.now()});
  Travel(send, start, [self = shared_from_this(), s = send.pending, r = recv.pending](size_t place, double time) {
    PartEnds(place == 0 ? *s : *r, self->name_, time);
  });
}

void SimulatedGroup::SendEagerly(const Message& send) {
  Travel(send, std::max(send.time, world_.engine.now()),
         [self = shared_from_this(), s = send.pending, eager = send.eager](size_t place, double time) {
           if (place == 0) return PartEnds(*s, self->name_, time);
           eager->arrival = time;
           if (eager->receiver != nullptr) PartEnds(*eager->receiver, self->name_, std::max(eager->posted, time));
         });
}

void SimulatedGroup::Travel(const Message& send, double start, std::function<void(size_t place, double time)> ended) {
  const double bytes = static_cast<double>(send.op.tensor.bytes().value());
  const auto self = shared_from_this();
  const std::array who = {stand_ins_[static_cast<size_t>(send.rank)], stand_ins_[static_cast<size_t>(send.op.peer)]};
  try {
    NoteWhatRan(
        send.pending->call->communication.kind, bytes,
        world_.network.Message(network_groups_, send.rank, send.op.peer, bytes, start,
                               [self, start, ended = std::move(ended), who](size_t place, double first, double last) {
                                 if (!self->world_.late.empty()) self->HandOnLateness(who);
                                 self->Parted(Communication::kSend, who[place], start, first, last);
                                 if (!self->world_.engine.failed()) ended(place, last);
                               }));
  } catch (const RankFailure& failure) {
    world_.engine.Fail(failure);
  }
}

void SimulatedGroup::Exchange(int rank, double time, std::shared_ptr<Pending> pending) {
  if (world_.engine.failed()) return;  // as in Arrive
  const uint64_t sequence = pending->call->sequence;
  std::vector<Exchanging>& here = exchanges_[sequence];
  here.push_back({rank, time, std::move(pending)});
  if (here.size() < actors_) return;
  std::vector<Exchanging> all = std::move(here);
  exchanges_.erase(sequence);
  BeginExchange(std::move(all));
}

void SimulatedGroup::BeginExchange(std::vector<Exchanging> all) {
  const auto size = static_cast<int>(ranks().size());
  const std::vector<P2p>& first = all[0].pending->call->communication.batch;
  const auto like_the_first = [&](const Exchanging& one) {
    const std::vector<P2p>& own = one.pending->call->communication.batch;
    return std::equal(own.begin(), own.end(), first.begin(), first.end(), [&](const P2p& a, const P2p& b) {
      return a.kind == b.kind && a.tag == b.tag && a.tensor.bytes() == b.tensor.bytes() &&
             (a.peer - one.rank - b.peer + all[0].rank) % size == 0;
    });
  };
  double start = world_.engine.now();
  for (const Exchanging& one : all) {
    start = std::max(start, one.time);
    if (!like_the_first(one)) return TellAllApart("ranks of one group send each other different messages");
  }
  for (const Exchanging& one : all) {
    if (MayNotPart(one.time, start)) return TellAllApart("ranks of one group begin batch at different times");
    one.pending->met = start;
    if (HaveParted(one.time, start)) world_.late[stand_ins_[static_cast<size_t>(one.rank)]] += start - one.time;
  }
  const auto self = shared_from_this();
  const auto everyone = std::make_shared<const std::vector<Exchanging>>(std::move(all));
  try {
    for (const P2p& op : first) {
      if (op.kind != P2p::kSend) continue;
      auto ended = [self, everyone, start](size_t place, double first, double last) {
        if (place == 0) return;  // what is sent arrives elsewhere in the same exchange, not before it has left
        if (self->MayNotPart(first, last)) return self->TellAllApart("ranks finish batch at different times");
        if (!self->world_.late.empty()) self->HandOnLateness(self->stand_ins_);
        for (const Exchanging& one : *everyone) {
          if (self->world_.engine.failed()) return;
          self->Parted(Communication::kBatch, self->stand_ins_[static_cast<size_t>(one.rank)], start, first, last);
          PartEnds(*one.pending, self->name_, last), PartEnds(*one.pending, self->name_, last);
        }
      };
      const auto bytes = static_cast<double>(op.tensor.bytes().value());
      const int places = (op.peer - everyone->front().rank + size) % size;
      NoteWhatRan(Communication::kBatch, bytes,
                  world_.network.Shift(network_groups_, places, bytes, start, std::move(ended)));
    }
  } catch (const RankFailure& failure) {
    world_.engine.Fail(failure);
  }
}

void SimulatedGroup::RequestSplit(uint64_t sequence, SplitRequest request) {
  if (world_.engine.failed()) return;
  std::vector<SplitRequest>& here = splits_[sequence];
  here.push_back(std::move(request));
  if (here.size() < actors()) return;
  std::sort(here.begin(), here.end(), [](const SplitRequest& a, const SplitRequest& b) {
    return std::tie(a.color, a.key, a.rank) < std::tie(b.color, b.key, b.rank);
  });
  double start = 0;
  std::map<int, std::vector<int>> members;
  std::map<int, std::string> names;
  for (const SplitRequest& r : here) {
    start = std::max(start, r.time);
    if (r.color < 0) continue;
    members[r.color].push_back(ranks()[static_cast<size_t>(r.rank)]);
    names[r.color] = r.name;
  }
  for (auto& [color, ranks] : members) {
    split_results_[sequence][color] =
        std::make_shared<SimulatedGroup>(world_, names[color], std::vector<std::vector<int>>{std::move(ranks)});
  }
  const std::vector<SplitRequest> all = std::move(here);
  splits_.erase(sequence);
  split_ = sequence;
  for (const SplitRequest& r : all) {
    if (!world_.engine.failed()) r.done->Resolve(start);
  }
}

std::shared_ptr<SimulatedGroup> SimulatedGroup::Partition(uint64_t sequence, int rank,
                                                          std::span<const std::vector<int>> groups,
                                                          const std::string& name) {
  auto it = parts_.find(sequence);
  if (it == parts_.end()) it = parts_.emplace(sequence, MakeParts(rank, groups, name)).first;
  Parts& parts = it->second;
  if (!std::equal(groups.begin(), groups.end(), parts.list.begin(), parts.list.end())) {
    Mismatch(StrCat("split ", sequence), parts.first, StrCat("a list of ", parts.list.size(), " groups"), rank,
             StrCat("a different list of ", groups.size(), " groups"));
    return nullptr;
  }
  const auto own = parts.of.find(world_rank(rank));
  std::shared_ptr<SimulatedGroup> group = own == parts.of.end() ? nullptr : own->second;
  if (--parts.left == 0) parts_.erase(it);
  return group;
}

SimulatedGroup::Parts SimulatedGroup::MakeParts(int rank, std::span<const std::vector<int>> list,
                                                const std::string& name) {
  Parts parts{{list.begin(), list.end()}, rank, {}, actors()};
  // Equivalent groups, keyed by their stand-ins in order.
  std::map<std::vector<int>, std::vector<std::vector<int>>> kinds;
  for (const std::vector<int>& group : *groups_) {
    for (const std::vector<int>& places : list) {
      std::vector<int> members;
      for (const int place : places) members.push_back(group[static_cast<size_t>(place)]);
      std::vector<int> stand_ins = members;
      for (int& r : stand_ins) r = world_.folded() ? world_.stand_ins[static_cast<size_t>(r)] : r;
      kinds[std::move(stand_ins)].push_back(std::move(members));
    }
  }
  if (world_.folded()) {
    std::vector<std::vector<int>> all, numbers;
    int number = 0;
    for (const auto& [stand_ins, groups] : kinds) {
      ++number;
      for (const std::vector<int>& group : groups) {
        all.push_back(group);
        numbers.emplace_back(group.size(), number);
      }
    }
    if (world_.NoteKinds(all, numbers, "ranks of one class form different groups")) throw UnlikeGroups();
  }
  for (auto& [stand_ins, groups] : kinds) {
    if (stand_ins.size() == 1) continue;
    const std::set<int> actors(stand_ins.begin(), stand_ins.end());
    const auto own = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return std::find(g.begin(), g.end(), *actors.begin()) != g.end();
    });
    std::rotate(groups.begin(), own, own + 1);
    const auto shared = std::make_shared<SimulatedGroup>(world_, name, std::move(groups));
    for (const int actor : actors) parts.of[actor] = shared;
  }
  return parts;
}

std::shared_ptr<SimulatedGroup> SimulatedGroup::SplitResult(uint64_t sequence, int color) {
  auto& by_color = split_results_[sequence];
  auto it = by_color.find(color);
  return it == by_color.end() ? nullptr : it->second;
}

}  // namespace twofold
