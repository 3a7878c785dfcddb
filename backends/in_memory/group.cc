#include "backends/in_memory/group.h"

#include <utility>

#include "backends/in_memory/collectives.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/comm/default_collectives.h"

namespace twofold::in_memory {
namespace {

Message ToMessage(P2p::Kind kind, const Tensor& t, int peer, Tag tag, const Event& after) {
  return {.kind = kind, .data = AddressOf(t), .bytes = t.bytes().value(), .peer = peer, .tag = tag, .after = &after};
}

// The point-to-point messages of one collective, for default_collectives.h.
class Transport : public PointToPoint {
 public:
  Transport(GroupState& group, int rank, const Call& call, Mover& mover)
      : group_(group), rank_(rank), call_(call), mover_(mover) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  void Send(std::span<const std::byte> data, int to, Tag tag) override {
    Message m = Outgoing(data, to, tag);
    group_.Exchange(rank_, call_, {&m, 1}, mover_);
  }
  void Recv(std::span<std::byte> data, int from, Tag tag) override {
    Message m = Incoming(data, from, tag);
    group_.Exchange(rank_, call_, {&m, 1}, mover_);
  }
  void SendRecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from, Tag tag) override {
    Message both[] = {Outgoing(out, to, tag), Incoming(in, from, tag)};
    group_.Exchange(rank_, call_, both, mover_);
  }
  void Reduce(std::span<const void* const> inputs, void* output, DType dtype, ReduceOp op, int64_t count) override {
    mover_.Reduce(inputs, {&output, 1}, dtype, op, 0, count);
  }

 private:
  static Message Outgoing(std::span<const std::byte> data, int to, Tag tag) {
    return {.kind = P2p::kSend,
            .data = const_cast<std::byte*>(data.data()),  // never written
            .bytes = static_cast<int64_t>(data.size()),
            .peer = to,
            .tag = tag};
  }
  static Message Incoming(std::span<std::byte> data, int from, Tag tag) {
    return {
        .kind = P2p::kRecv, .data = data.data(), .bytes = static_cast<int64_t>(data.size()), .peer = from, .tag = tag};
  }

  GroupState& group_;
  const int rank_;
  const Call& call_;
  Mover& mover_;
};

}  // namespace

InMemoryGroup::InMemoryGroup(std::shared_ptr<GroupState> state, int rank, std::shared_ptr<RankState> owner,
                             CommunicationStats& stats, GroupOptions options)
    : QueuedGroup(state->name(), rank, state->ranks(), *state->label(), nullptr, std::move(owner), stats,
                  BlockedCalls::kThrow),
      state_(std::move(state)),
      options_(options),
      mover_(host::MakeMover(owner_->device)) {
  queue_ = std::make_unique<Queue>(
      owner_, StrCat("communication ", state_->name()),
      [this](const std::shared_ptr<const Call>& call, std::span<std::byte> w) { return Execute(call, w); },
      mover_->on_host() ? Queue::kTold : Queue::kAlone, [this](const Call& call) { return state_->CanComplete(call); });
  TWOFOLD_CHECK(mover_->on_host() || !options_.point_to_point_only, "default_collectives.h works on the host's memory");
}

std::unique_ptr<ProcessGroup> InMemoryGroup::Split(int color, int key, std::string name) {
  const auto call = NewSplit<Call>();
  ThrowIfEnding(*call);
  owner_->run.Begin(owner_->rank, call);
  GroupState::Membership m = state_->Split(rank(), *call, color, key, std::move(name));
  owner_->run.End(owner_->rank, call);
  if (m.group == nullptr) return nullptr;
  return std::make_unique<InMemoryGroup>(std::move(m.group), m.rank, owner_, stats(), options_);
}

ProcessGroup::Issued InMemoryGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  if (options_.before_call) options_.before_call(owner_->rank);
  const auto call = NewCall<Call>(c);
  if (c.is_collective()) state_->PrepareToArrive(rank(), call->sequence);
  if (!mover_->on_host()) {
    call->after = device().compute().Record();
  } else if (state_->slowed() || owner_->emulated != nullptr) {
    call->issued = owner_->CatchUp();
  }
  ThrowIfEnding(*call);
  Issued issued;
  if (options_.point_to_point_only && c.is_collective()) {
    const Bytes bytes = CollectiveWorkspace(c, size());
    if (bytes.value() > 0) {
      issued.workspace.push_back(
          device().NewTensor(Shape{bytes.value()}, DType::kU8, Category::kCommunication, KindName(c.kind)));
    }
  }
  // A small collective is left to the host's wait, unless the queue has earlier calls: waking a thread takes longer.
  // Not on slowed links, where it is transferred meanwhile, and not on a GPU, where the host continues.
  const bool quiet =
      mover_->on_host() && !options_.point_to_point_only && !state_->slowed() && IsSmall(c) && queue_->Settle();
  if (quiet) state_->Arrive(rank(), *call);
  const Tensor workspace = issued.workspace.empty() ? Tensor() : issued.workspace[0].Borrowed();
  issued.state = quiet ? queue_->PushQuietly(call, entry) : queue_->Push(call, workspace, entry);
  return issued;
}

int InMemoryGroup::Execute(const std::shared_ptr<const Call>& call, std::span<std::byte> workspace) {
  return mover_->on_host() ? Do(*call, workspace) : ExecuteOnDevice(*call);
}

// Slowed links need the time when the compute stream reaches the call, so this thread waits for that.
int InMemoryGroup::ExecuteOnDevice(const Call& call) {
  if (state_->slowed()) {
    call.after.Wait();
    call.issued = owner_->run.Now();
  }
  mover_->Begin(call.after);
  const int source = Do(call, {});
  queue_->Post(mover_->Record());
  const host::Mover::Times times = mover_->Finish();  // GPU timestamps: this thread may have woken much later
  call.began = owner_->run.Since(times.start);
  if (!state_->slowed()) call.finished = owner_->run.Since(times.end);
  return source;
}

int InMemoryGroup::Do(const Call& call, std::span<std::byte> workspace) {
  const Communication& c = call.communication;
  if (c.is_collective()) {
    if (options_.point_to_point_only) {
      Transport transport(*state_, rank(), call, *mover_);
      RunCollective(c, transport, workspace);
      return -1;
    }
    state_->Complete(rank(), call, *mover_);
    return -1;
  }
  std::vector<Message> messages;
  if (c.kind == Communication::kSend) messages.push_back(ToMessage(P2p::kSend, c.in, c.peer, c.tag, call.after));
  if (c.kind == Communication::kRecv) messages.push_back(ToMessage(P2p::kRecv, c.out, c.peer, c.tag, call.after));
  for (const P2p& m : c.batch) messages.push_back(ToMessage(m.kind, m.tensor, m.peer, m.tag, call.after));
  state_->Exchange(rank(), call, messages, *mover_);
  return c.kind == Communication::kRecv ? messages[0].source : -1;
}

}  // namespace twofold::in_memory
