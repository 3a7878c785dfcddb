#include "backends/mpi/group.h"

#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/mpi/communicate.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

struct SplitCall : host::Call {
  int color = 0, key = 0;
  mutable MPI_Comm made = MPI_COMM_NULL;
};

// Does one call on the thread that calls. What goes wrong names this rank and the call.
int Execute(const Endpoint& endpoint, const host::Call& call) {
  const int self = endpoint.identity->ranks[static_cast<size_t>(endpoint.rank)];
  try {
    if (!call.split) return Communicate(call.communication, endpoint.comm, endpoint.limits);
    const auto& split = static_cast<const SplitCall&>(call);
    Check(MPI_Comm_split(endpoint.comm, split.color < 0 ? MPI_UNDEFINED : split.color, split.key, &split.made),
          "MPI_Comm_split");
    return -1;
  } catch (const SizeMismatch& e) {
    throw CollectiveMismatch(self, StrCat("rank ", self, ": ", call.ToString(), ": ", e.what()));
  } catch (const std::exception& e) {
    throw RankFailure(RankFailure::Kind::kOther, self, StrCat("rank ", self, ": ", call.ToString(), ": ", e.what()));
  }
}

// The group of `comm`'s ranks; every one of them computes the same id.
std::shared_ptr<const host::GroupIdentity> IdentityOf(MPI_Comm comm, const Endpoint& parent, uint64_t split, int color,
                                                      const std::string& name) {
  auto identity = std::make_shared<host::GroupIdentity>();
  MPI_Group members, others;
  int size = 0;
  MPI_Comm_group(comm, &members);
  MPI_Comm_group(parent.comm, &others);
  MPI_Group_size(members, &size);
  std::vector<int> all(static_cast<size_t>(size)), places(all.size());
  std::iota(all.begin(), all.end(), 0);
  MPI_Group_translate_ranks(members, size, all.data(), others, places.data());
  MPI_Group_free(&members);
  MPI_Group_free(&others);
  for (int place : places) identity->ranks.push_back(parent.identity->ranks[static_cast<size_t>(place)]);
  identity->id = watch::ChildGroupId(parent.identity->id, split, color);
  identity->label = *host::GroupLabel(name, identity->ranks);
  return identity;
}

}  // namespace

MpiGroup::MpiGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner, watch::Watch& watch,
                   CommunicationStats& stats)
    : ProcessGroup(endpoint->name, endpoint->rank, endpoint->identity->ranks, owner->device, stats),
      endpoint_(std::move(endpoint)),
      owner_(std::move(owner)),
      watch_(watch),
      log_(std::make_shared<watch::CallLog>(endpoint_->identity, endpoint_->rank)),
      label_(std::make_shared<const std::string>(endpoint_->identity->label)),
      exceptions_(std::uncaught_exceptions()),
      queue_(std::make_unique<host::Queue>(
          owner_, StrCat("communication ", endpoint_->name),
          [e = endpoint_](const std::shared_ptr<const host::Call>& call, std::span<std::byte>) { return Execute(*e, *call); },
          host::Queue::kLooks)) {
  watch_.AddLog(log_);
}

MpiGroup::~MpiGroup() {
  if (std::uncaught_exceptions() > exceptions_ && !queue_->Idle()) {
    owner_->run.Claim(owner_->rank, StrCat("rank ", owner_->rank, ": an exception left unfinished work in group ", *label_));
    host::Abandon(*owner_);
  }
  if (!queue_->Close()) {
    (void)queue_.release();  // its thread is in MPI for good
  } else if (!owner_->run.ending()) {
    MPI_Comm_free(&endpoint_->comm);
  }
}

void MpiGroup::Drain() {
  if (!queue_->Close()) owner_->run.ThrowIfEnding(owner_->rank, StrCat("what group ", *label_, " was given"));
}

std::shared_ptr<host::Call> MpiGroup::NewCall(uint64_t sequence) const {
  auto call = std::make_shared<host::Call>();
  call->group = label_;
  call->identity = endpoint_->identity;
  call->sequence = sequence;
  return call;
}

ProcessGroup::Issued MpiGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  const std::shared_ptr<host::Call> call = NewCall(c.is_collective() ? ++collectives_ : ++messages_);
  call->communication = c.Borrowed();
  if (owner_->emulated != nullptr) call->issued = owner_->CatchUp();
  if (owner_->run.ending()) owner_->run.ThrowIfEnding(owner_->rank, call->ToString());
  if (c.is_collective()) log_->Add(c);
  Issued issued;
  issued.state = queue_->Push(call, Tensor(), entry);
  return issued;
}

// On the queue like any other call: MPI allows one collective at a time on a communicator.
std::unique_ptr<ProcessGroup> MpiGroup::Split(int color, int key, std::string name) {
  auto call = std::make_shared<SplitCall>();
  static_cast<host::Call&>(*call) = *NewCall(++splits_);
  call->split = true;
  call->color = color;
  call->key = key;
  if (owner_->run.ending()) owner_->run.ThrowIfEnding(owner_->rank, call->ToString());
  queue_->Push(call, Tensor(), splitting_)->Wait();
  if (call->made == MPI_COMM_NULL) return nullptr;
  auto endpoint = std::make_shared<Endpoint>(*endpoint_);
  endpoint->comm = call->made;
  endpoint->identity = IdentityOf(call->made, *endpoint_, splits_, color, name);
  endpoint->name = std::move(name);
  MPI_Comm_rank(endpoint->comm, &endpoint->rank);
  return std::make_unique<MpiGroup>(std::move(endpoint), owner_, watch_, stats());
}

}  // namespace twofold::mpi
