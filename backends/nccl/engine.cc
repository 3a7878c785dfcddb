#include "backends/nccl/engine.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "core/base/check.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::nccl {

using cuda::CudaEvent;

Engine::Engine(std::shared_ptr<const host::GroupIdentity> identity, int rank,
               std::shared_ptr<Communicator> communicator, std::shared_ptr<RunParts> parts,
               std::shared_ptr<host::RankState> owner)
    : identity_(std::move(identity)),
      rank_(rank),
      is_world_(communicator == nullptr),
      parts_(std::move(parts)),
      owner_(std::move(owner)),
      label_(std::make_shared<const std::string>(identity_->label)),
      gpu_(static_cast<cuda::CudaStream&>(owner_->device.compute()).of()),
      communicator_(std::move(communicator)),
      stream_(gpu_),
      receives_(identity_->ranks.size()),
      sent_log_(identity_->ranks.size()),
      received_log_(identity_->ranks.size()),
      pairs_(2 * identity_->ranks.size()) {}

ncclConfig_t Engine::Config() const {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = parts_->communicators.blocking() ? 1 : 0;
  // No splitShare: groups' collectives overlap, and shared resources would make them wait for each other.
  if (parts_->max_ctas > 0) config.maxCTAs = parts_->max_ctas;
  return config;
}

int Engine::place_of(int world_rank) const {
  return static_cast<int>(std::find(identity_->ranks.begin(), identity_->ranks.end(), world_rank) -
                          identity_->ranks.begin());
}

// ---- On the host ----

std::shared_ptr<host::Item> Engine::Issue(const std::shared_ptr<const GroupCall>& call,
                                          CommunicationStats::Entry& entry, host::Queue& queue) {
  {
    std::lock_guard lock(launch_mutex_);
    if (!waiting_.empty() || call->any_source || !Connected(*call)) {
      std::shared_ptr<host::Item> item = queue.Push(call, Tensor(), entry);
      waiting_.push_back({call, item});
      return item;
    }
  }
  LaunchFromHost(*call, call);
  return queue.PushPosted(call, Event(call->end), entry);
}

// NCCL may still block the host if it connects ranks in unexpected situations. So the control plane is told of the
// call, and other threads are told that the host is in one.
void Engine::LaunchFromHost(const GroupCall& call, const std::shared_ptr<const host::Call>& shared) {
  auto in_call = [this](bool is) {
    std::lock_guard lock(owner_->mutex);
    owner_->host_in_call = is;
  };
  in_call(true);
  owner_->run.Begin(owner_->rank, shared);
  auto leave = [&] {
    owner_->run.End(owner_->rank, shared);
    in_call(false);
  };
  try {
    Launch(call);
  } catch (const std::exception&) {
    leave();
    Explain(call);
  }
  leave();
}

// ---- On either thread ----

bool Engine::Connected(const GroupCall& call) const {
  return std::all_of(call.contacts.begin(), call.contacts.end(),
                     [this](const Contact& c) { return connected_.contains(c); });
}

void Engine::Launch(const GroupCall& call) {
  if (owner_->run.ending()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
  TWOFOLD_CHECK(communicator_ != nullptr, "the group has started");
  cuda::MakeCurrent(gpu_->gpu);
  WaitForCompute(call);
  if (!call.communication.is_collective()) {
    if (!call.any_source) call.matched = call.messages;
    NoteMessages(call.matched);
  }
  Enqueue(call);
  call.end = last_end_ = std::make_shared<CudaEvent>(gpu_, gpu_->ends->Record(stream_.raw()));
}

void Engine::Enqueue(const GroupCall& call) {
  {
    const Communicator::InCall in_call(*communicator_);
    const Place place{in_call.raw(), stream_.raw(), rank(), size(), communicator_->scratch()};
    if (call.communication.is_collective())
      EnqueueCollective(call.communication, place);
    else
      EnqueueMessages(call.matched, place);
  }
  if (!parts_->communicators.blocking()) communicator_->Settle(owner_->run, owner_->rank, call.ToString());
}

// A wait and an event record each take stream time, which a small collective would notice (expected, not measured). A
// call that directly follows the last one and has nothing to wait for needs neither: it starts where the last one ends.
void Engine::WaitForCompute(const GroupCall& call) {
  const auto* after = dynamic_cast<CudaEvent*>(call.after.state());
  const bool waits = after != nullptr && !call.after.Done();
  if (waits) {
    cuda::Check(cudaStreamWaitEvent(stream_.raw(), after->get(), 0));
  } else if (last_end_ != nullptr && !last_end_->Done()) {
    call.start = last_end_;
    return;
  }
  call.start = std::make_shared<CudaEvent>(gpu_, gpu_->timed->Record(stream_.raw()));
}

// For the control plane: both sides must have the same messages in the same order.
void Engine::NoteMessages(const std::vector<Message>& messages) {
  constexpr size_t kKept = 256;
  for (const Message& m : messages) {
    const auto peer = static_cast<size_t>(m.peer);
    const bool sends = m.kind == P2p::kSend;
    if (!sends) ++receives_[peer];
    std::shared_ptr<control::CallLog>& log = sends ? sent_log_[peer] : received_log_[peer];
    if (log == nullptr) {
      auto pair = control::MessagesOf(*identity_, sends ? rank_ : m.peer, sends ? m.peer : rank_);
      log = std::make_shared<control::CallLog>(std::make_shared<const host::GroupIdentity>(std::move(pair)),
                                               sends ? 0 : 1, kKept);
      parts_->control.AddLog(log);
    }
    log->AddMessage(m.tag, m.tensor.bytes());
  }
}

void Engine::Explain(const host::Call& call) {
  // NCCL's errors on an aborted communicator are a consequence of the abort.
  if (communicator_ != nullptr && communicator_->aborted()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
  try {
    throw;
  } catch (const RankFailure&) {
    throw;
  } catch (const std::exception& e) {
    throw RankFailure(RankFailure::Kind::kOther, owner_->rank,
                      StrCat("rank ", owner_->rank, ": ", call.ToString(), ": ", e.what()));
  }
}

// ---- On the queue's thread ----

int Engine::Execute(const host::Call& call, host::Queue& queue) {
  try {
    cuda::MakeCurrent(gpu_->gpu);
    if (owner_->run.ending()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
    if (!call.split) return Do(static_cast<const GroupCall&>(call), queue);
    if (call.sequence == 0)
      Start(static_cast<const StartCall&>(call));
    else
      Split(static_cast<const CommSplitCall&>(call));
    return -1;
  } catch (const std::exception&) {
    Explain(call);
  }
}

int Engine::Do(const GroupCall& call, host::Queue& queue) {
  for (const Message& m : call.messages) {
    if (m.kind == P2p::kSend) parts_->offers->Come(identity_->id, world_rank(m.peer), m.tag, m.sequence);
  }
  if (call.end == nullptr) LaunchWaiting(call, queue);
  call.end->Wait();
  if (communicator_->aborted()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
  // GPU timestamps: this thread may have woken much later.
  const auto [start, end] = gpu_->clock.Of(call.start->get(), call.end->get());
  call.began = owner_->run.Since(start), call.finished = owner_->run.Since(end);
  for (const Message& m : call.messages) {
    if (m.kind == P2p::kSend) parts_->offers->Gone(identity_->id, world_rank(m.peer), m.sequence);
  }
  return call.communication.kind == Communication::kRecv ? call.matched[0].peer : -1;
}

// Enqueues `own`, which is first in the list, even if that blocks; then the calls behind it that do not wait for other
// ranks.
void Engine::LaunchWaiting(const GroupCall& own, host::Queue& queue) {
  for (bool first = true;; first = false) {
    Waiting next;
    {
      std::lock_guard lock(launch_mutex_);
      if (waiting_.empty()) return;
      next = waiting_.front();
      TWOFOLD_CHECK(!first || next.call.get() == &own, "calls enter the stream in order");
      if (!first && (next.call->any_source || !Connected(*next.call))) return;
    }
    if (next.call->any_source) MatchSources(*next.call);
    Launch(*next.call);
    queue.Post(*next.item, Event(next.call->end));
    std::lock_guard lock(launch_mutex_);
    waiting_.pop_front();
    connected_.insert(next.call->contacts.begin(), next.call->contacts.end());
  }
}

// Finds senders for the receives from any source. A single receive takes its sender's next message to this rank,
// because NCCL would deliver no other. In a batch the tags decide the order.
void Engine::MatchSources(const GroupCall& call) {
  call.matched = call.messages;
  for (Message& m : call.matched) {
    if (m.peer != kAnySource) continue;
    auto wanted = [&](const Offer& o) {
      const uint64_t received = receives_[static_cast<size_t>(place_of(o.from))];
      if (o.sequence <= received) return Offers::kOld;
      const bool next = call.messages.size() > 1 || o.sequence == received + 1;
      return o.tag == m.tag && next ? Offers::kTake : Offers::kKeep;
    };
    m.peer = place_of(parts_->offers->Await(*identity_, owner_->run, call, wanted).from);
  }
}

void Engine::Start(const StartCall& call) {
  ncclComm_t raw = nullptr;
  ncclConfig_t config = Config();
  Nccl().Check(Nccl().CommInitRankConfig(&raw, size(), call.id, rank(), &config), "ncclCommInitRankConfig");
  communicator_ = parts_->communicators.Add(raw, size(), gpu_->gpu, *label_);
  communicator_->Settle(owner_->run, owner_->rank, call.ToString());
}

// Gathers every rank's pair into pairs_, indexed by rank.
void Engine::GatherPairs(int32_t a, int32_t b) {
  pair_ = {a, b};
  int32_t *const mine = communicator_->scratch(), *const everybodys = mine + 2;
  cuda::Check(cudaMemcpyAsync(mine, pair_.data(), sizeof pair_, cudaMemcpyHostToDevice, stream_.raw()));
  {
    const Communicator::InCall in_call(*communicator_);
    Nccl().Check(Nccl().AllGather(mine, everybodys, 2, ncclInt32, in_call.raw(), stream_.raw()), "ncclAllGather",
                 in_call.raw());
  }
  communicator_->Settle(owner_->run, owner_->rank, "a split");
  cuda::Check(cudaMemcpyAsync(pairs_.data(), everybodys, pairs_.size() * sizeof(int32_t), cudaMemcpyDeviceToHost,
                              stream_.raw()));
  cuda::Check(cudaStreamSynchronize(stream_.raw()));
}

ncclComm_t Engine::SplitComm(int color, const CommSplitCall& call) {
  auto made = std::make_unique<ncclComm_t>(nullptr);
  ncclConfig_t config = Config();
  {
    const Communicator::InCall in_call(*communicator_);
    Nccl().Check(Nccl().CommSplit(in_call.raw(), color, call.key, made.get(), &config), "ncclCommSplit", in_call.raw());
  }
  ncclComm_t* const written = made.release();  // also after this call, if it is given up
  communicator_->Settle(owner_->run, owner_->rank, call.ToString());
  return *std::unique_ptr<ncclComm_t>(written);
}

// NCCL does not tell which ranks are in a new communicator.
void Engine::Split(const CommSplitCall& call) {
  GatherPairs(call.color, call.key);
  if (communicator_->aborted()) owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
  auto color = [&](int r) { return pairs_[2 * static_cast<size_t>(r)]; };
  auto key = [&](int r) { return pairs_[2 * static_cast<size_t>(r) + 1]; };
  std::vector<int> members;
  for (int r = 0; call.color >= 0 && r < size(); ++r) {
    if (color(r) == call.color) members.push_back(r);
  }
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) { return key(a) < key(b); });
  call.alone = members.size() == 1;  // and needs no communicator
  const ncclComm_t raw = SplitComm(members.size() < 2 ? NCCL_SPLIT_NOCOLOR : call.color, call);
  if (members.size() < 2) return;
  auto identity = std::make_shared<host::GroupIdentity>();
  for (const int r : members) identity->ranks.push_back(world_rank(r));
  identity->id = control::ChildGroupId(identity_->id, call.sequence, call.color);
  identity->label = *host::GroupLabel(call.name, identity->ranks);
  auto communicator = parts_->communicators.Add(raw, static_cast<int>(members.size()), gpu_->gpu, identity->label);
  communicator->Settle(owner_->run, owner_->rank, call.ToString());
  int rank = -1;
  Nccl().Check(Nccl().CommUserRank(raw, &rank), "ncclCommUserRank", raw);
  TWOFOLD_CHECK_EQ(members[static_cast<size_t>(rank)], rank_);
  call.made = std::make_shared<Engine>(std::move(identity), rank, std::move(communicator), parts_, owner_);
}

}  // namespace twofold::nccl
