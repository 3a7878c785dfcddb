// Messages between ranks of a simulated group, and exchanges around a ring.
#include "backends/simulated/group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <tuple>
#include <utility>

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
  p.done->Resolve(p.finish, p.spread);
}

}  // namespace

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

bool SimulatedGroup::Match(const Message& send, const Message& recv) const {
  return send.op.peer == recv.rank && send.op.tag == recv.op.tag &&
         (recv.op.peer == kAnySource || recv.op.peer == send.rank);
}

std::vector<GoalMessage> SimulatedGroup::GoalMessages(int rank, const P2p& op) {
  const bool send = op.kind == P2p::kSend;
  const int from = send ? rank : op.peer, to = send ? op.peer : rank;
  const auto schedule =
      world_.network.ScheduleOf(network_groups_, from, to, static_cast<double>(op.tensor.bytes().value()));
  const uint32_t tag = world_.goal_tags.ForMessage(this, from, to, op.tag, send, FlowsOf(*schedule));
  const std::array both = {world_rank(from), world_rank(to)};
  return GoalMessagesOf(*schedule, both, tag)[send ? 0 : 1];
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

}  // namespace twofold
