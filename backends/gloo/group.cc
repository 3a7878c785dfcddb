#include "backends/gloo/group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "backends/gloo/communicate.h"
#include "backends/host/mover.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::gloo {
namespace {

struct IssuedCall : host::Call {
  Operands at;
};
struct SplitCall : host::Call {
  int color = 0, key = 0;
  mutable ContextPtr made;           // null: this rank is in no group
  mutable std::vector<int> members;  // of the new group: their ranks in the old one
};

// Executes a group's calls. Never freed if its thread never leaves one.
class Worker {
 public:
  Worker(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner)
      : endpoint_(std::move(endpoint)), owner_(std::move(owner)), mover_(host::MakeHostMover()) {}

  // Executes one call on the calling thread. Errors name this rank and the call.
  int Execute(const host::Call& call) {
    const auto text = [&](const char* what) {
      return StrCat("rank ", owner_->rank, ": ", call.ToString(), ": ", what);
    };
    try {
      owner_->run.ThrowIfEnding(owner_->rank, call.ToString());  // before it is aborted; see abortable.cc
      if (call.split) return Split(static_cast<const SplitCall&>(call));
      return Communicate(call.communication, static_cast<const IssuedCall&>(call).at, endpoint_->context, *mover_,
                         reduce_scatter_);
    } catch (const RankFailure&) {
      throw;
    } catch (const SizeMismatch& e) {
      throw CollectiveMismatch(owner_->rank, text(e.what()));
    } catch (const std::exception& e) {
      LetTheWatchSpeakFirst();
      owner_->run.ThrowIfEnding(owner_->rank, call.ToString());
      throw RankFailure(RankFailure::Kind::kOther, owner_->rank, text(e.what()));
    }
  }

 private:
  // A connection that has closed usually means that its process is gone, of which the control plane knows more. It ends
  // the run then, and nobody hears what this rank has to say.
  void LetTheWatchSpeakFirst() {
    constexpr std::chrono::milliseconds kLook(10), kLong(3000);
    for (auto waited = kLook; waited < kLong && !owner_->run.ending(); waited += kLook)
      std::this_thread::sleep_for(kLook);
  }
  int Split(const SplitCall& call);

  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<host::RankState> owner_;
  const std::unique_ptr<host::Mover> mover_;
  ReduceScatter reduce_scatter_;
};

// Everybody learns everybody's color and key; then everybody's addresses for the new group's connections, also of those
// who are in other groups.
int Worker::Split(const SplitCall& call) {
  const ContextPtr& context = endpoint_->context;
  const std::array own = {call.color, call.key};
  std::string bytes(sizeof own, '\0');
  std::memcpy(bytes.data(), own.data(), sizeof own);
  std::vector<std::pair<int, int>> order;  // key, rank
  int rank = 0;
  for (const std::string& one : AllGatherBytes(bytes, context)) {
    std::array<int, 2> its{};
    std::memcpy(its.data(), one.data(), sizeof its);
    if (its[0] == call.color && call.color >= 0) order.emplace_back(its[1], rank);
    ++rank;
  }
  std::sort(order.begin(), order.end());
  for (const auto& [key, member] : order) call.members.push_back(member);
  const auto exchange = [&](std::string addresses) {
    const std::vector<std::string> all = AllGatherBytes(addresses, context);
    std::vector<std::string> of_members;
    for (const int member : call.members) of_members.push_back(all[static_cast<size_t>(member)]);
    return of_members;
  };
  if (call.members.empty()) {
    exchange("");
    return -1;
  }
  const auto me = std::find(call.members.begin(), call.members.end(), context->rank) - call.members.begin();
  call.made = Connect(static_cast<int>(me), static_cast<int>(call.members.size()), exchange, endpoint_->transport,
                      endpoint_->abortion, owner_->run.timeout_s());
  return -1;
}

}  // namespace

GlooGroup::GlooGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner,
                     control::Client& control, CommunicationStats& stats)
    : processes::Group(endpoint->name, endpoint->context->rank, endpoint->identity, std::move(owner), control, stats),
      endpoint_(std::move(endpoint)),
      control_(control) {
  queue_ = std::make_unique<host::Queue>(
      owner_, StrCat("communication ", endpoint_->name),
      [worker = std::make_shared<Worker>(endpoint_, owner_)](const std::shared_ptr<const host::Call>& call,
                                                             std::span<std::byte>) { return worker->Execute(*call); },
      host::Queue::kLooks);
}

GlooGroup::~GlooGroup() {
  if (Close()) endpoint_->ended->Keep(endpoint_->context);
}

ProcessGroup::Issued GlooGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  const auto call = NewCall<IssuedCall>(c);
  call->at = Operands(c);
  if (owner_->emulated != nullptr) call->issued = owner_->CatchUp();
  ThrowIfEnding(*call);
  if (c.is_collective()) log_->Add(c);
  return {.state = queue_->Push(call, Tensor(), entry), .workspace = {}};
}

// Queued like any other call: one collective at a time on a context.
std::unique_ptr<ProcessGroup> GlooGroup::Split(int color, int key, std::string name) {
  auto call = NewSplit<SplitCall>();
  call->color = color;
  call->key = key;
  ThrowIfEnding(*call);
  queue_->Push(call, Tensor(), splitting_)->Wait();
  if (call->made == nullptr) return nullptr;
  auto identity = std::make_shared<host::GroupIdentity>();
  for (const int member : call->members) identity->ranks.push_back(identity_->ranks[static_cast<size_t>(member)]);
  identity->id = control::ChildGroupId(identity_->id, call->sequence, color);
  identity->label = *host::GroupLabel(name, identity->ranks);
  auto endpoint = std::make_shared<Endpoint>(Endpoint{call->made, endpoint_->transport, endpoint_->abortion,
                                                      endpoint_->ended, std::move(name), std::move(identity)});
  return std::make_unique<GlooGroup>(std::move(endpoint), owner_, control_, stats());
}

}  // namespace twofold::gloo
