#include "backends/nccl/group.h"

#include <algorithm>
#include <bit>
#include <exception>
#include <utility>

#include "backends/nccl/engine.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::nccl {
namespace {

Contact ContactOf(const Communication& c) {
  const Tensor& t = c.out.empty() ? c.in : c.out;
  const int type = t.empty() ? 0 : static_cast<int>(t.dtype());
  return {(c.kind * 256 + type) * 256 + static_cast<int>(c.op),
          std::bit_width(static_cast<uint64_t>(c.bytes().value())), host::Rooted(c.kind) ? c.peer : 0};
}

// Sorts messages with the same peer by tag, as the other side does. `sends`: the number of earlier sends to each peer.
void PrepareMessages(const Communication& c, GroupCall& call, std::vector<uint64_t>& sends) {
  if (c.kind == Communication::kSend) call.messages.push_back({P2p::kSend, c.in.Borrowed(), c.peer, c.tag});
  if (c.kind == Communication::kRecv) call.messages.push_back({P2p::kRecv, c.out.Borrowed(), c.peer, c.tag});
  for (const P2p& m : c.batch) call.messages.push_back({m.kind, m.tensor.Borrowed(), m.peer, m.tag});
  std::stable_sort(call.messages.begin(), call.messages.end(),
                   [](const Message& a, const Message& b) { return a.tag < b.tag; });
  for (Message& m : call.messages) {
    if (m.kind == P2p::kSend) m.sequence = ++sends[static_cast<size_t>(m.peer)];
    call.any_source = call.any_source || m.peer == kAnySource;
    call.contacts.emplace_back(m.kind == P2p::kSend ? -1 : -2, m.peer, 0);
  }
}

}  // namespace

NcclGroup::NcclGroup(std::string name, std::shared_ptr<Engine> engine, CommunicationStats& stats)
    : processes::Group(std::move(name), engine->rank(), engine->shared_identity(), engine->owner(),
                       engine->parts().control, stats),
      engine_(std::move(engine)),
      sends_(identity_->ranks.size()) {
  auto queue = std::make_shared<host::Queue*>();  // the thread may need it after the group is gone
  queue_ = std::make_unique<host::Queue>(
      owner_, StrCat("communication ", this->name()),
      [e = engine_, queue](const std::shared_ptr<const host::Call>& call, std::span<std::byte>) {
        return e->Execute(*call, **queue);
      },
      host::Queue::kAlone);
  *queue = queue_.get();
}

NcclGroup::NcclGroup(std::shared_ptr<const host::GroupIdentity> identity, int rank, const ncclUniqueId& id,
                     std::shared_ptr<RunParts> parts, std::shared_ptr<host::RankState> owner, CommunicationStats& stats)
    : NcclGroup("world",
                std::make_shared<Engine>(std::move(identity), rank, nullptr, std::move(parts), std::move(owner)),
                stats) {
  if (size() == 1) return;  // nothing is ever issued
  auto call = NumberedSplit<StartCall>(0);
  call->id = id;
  queue_->Push(call, Tensor(), engine_->unreported());
}

NcclGroup::~NcclGroup() {
  if (!Close() || !engine_->is_world()) return;
  // The run is over, and whoever still holds a call may keep the communicators alive.
  engine_->parts().communicators.StopLooking();
  if (owner_->run.ending()) return;
  try {
    engine_->parts().communicators.DestroyAll();
  } catch (const std::exception& e) {
    owner_->run.Fail(owner_->rank, RankFailure::Kind::kOther,
                     StrCat("rank ", owner_->rank, ": ending NCCL's communicators: ", e.what()));
  }
}

ProcessGroup::Issued NcclGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  const auto call = NewCall<GroupCall>(c);
  call->after = device().compute().Record();
  ThrowIfEnding(*call);
  if (c.is_collective()) {
    log_->Add(c);
    call->contacts.push_back(ContactOf(c));
  } else {
    PrepareMessages(c, *call, sends_);
  }
  Issued issued;
  issued.state = engine_->Issue(call, entry, *queue_);
  return issued;
}

// Queued like any other call: when a communicator is split, it must have nothing in progress.
std::unique_ptr<ProcessGroup> NcclGroup::Split(int color, int key, std::string name) {
  if (size() == 1) return color < 0 ? nullptr : Alone(std::move(name));
  auto call = NewSplit<CommSplitCall>();
  call->color = color;
  call->key = key;
  call->name = name;
  ThrowIfEnding(*call);
  queue_->Push(call, Tensor(), engine_->unreported())->Wait();
  if (call->alone) return Alone(std::move(name));
  if (call->made == nullptr) return nullptr;
  return std::make_unique<NcclGroup>(std::move(name), std::exchange(call->made, nullptr), stats());
}

}  // namespace twofold::nccl
