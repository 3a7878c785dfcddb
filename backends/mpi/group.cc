#include "backends/mpi/group.h"

#include <exception>
#include <numeric>
#include <utility>
#include <vector>

#include "backends/host/mover.h"
#include "backends/mpi/communicate.h"
#include "backends/mpi/staged.h"
#include "core/base/errors.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

struct IssuedCall : host::Call {
  Operands at;
  std::span<std::byte> staging;
};
struct CommSplitCall : host::Call {
  int color = 0, key = 0;
  mutable MPI_Comm made = MPI_COMM_NULL;
};

bool OnGpu(const Device& device) { return device.kind() == DeviceKind::kCuda; }

// Executes a group's calls. Never freed if its thread never leaves one.
class Worker {
 public:
  Worker(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner)
      : endpoint_(std::move(endpoint)),
        owner_(std::move(owner)),
        channel_(ChannelOf(endpoint_->comm, endpoint_->limits)) {}
  void Of(host::Queue& queue) { queue_ = &queue; }

  // Executes one call on the calling thread. Errors name this rank and the call.
  int Execute(const host::Call& call) {
    try {
      if (call.split) return Split(static_cast<const CommSplitCall&>(call));
      if (mover_ == nullptr) mover_ = host::MakeMover(owner_->device);
      const auto& issued = static_cast<const IssuedCall&>(call);
      return OnGpu(owner_->device) ? ExecuteOnGpu(issued)
                                   : Communicate(call.communication, issued.at, channel_, *mover_);
    } catch (const SizeMismatch& e) {
      throw CollectiveMismatch(owner_->rank, StrCat("rank ", owner_->rank, ": ", call.ToString(), ": ", e.what()));
    } catch (const std::exception& e) {
      throw RankFailure(RankFailure::Kind::kOther, owner_->rank,
                        StrCat("rank ", owner_->rank, ": ", call.ToString(), ": ", e.what()));
    }
  }

 private:
  int Split(const CommSplitCall& call) {
    Check(MPI_Comm_split(endpoint_->comm, call.color < 0 ? MPI_UNDEFINED : call.color, call.key, &call.made),
          "MPI_Comm_split");
    return -1;
  }
  int ExecuteOnGpu(const IssuedCall& call) {
    mover_->Begin(call.after);
    int source = -1;
    if (endpoint_->staging.value() > 0) {
      source = CommunicateStaged(call.communication, call.at, channel_, *mover_, call.after, call.staging,
                                 HostStaging(endpoint_->staging).slot().value());
    } else {
      call.after.Wait();
      source = Communicate(call.communication, call.at, channel_, *mover_);
    }
    queue_->Post(mover_->Record());
    const host::Mover::Times times = mover_->Finish();
    call.began = owner_->run.Since(times.start), call.finished = owner_->run.Since(times.end);
    return source;
  }

  const std::shared_ptr<Endpoint> endpoint_;
  const std::shared_ptr<host::RankState> owner_;
  const Channel channel_;
  std::unique_ptr<host::Mover> mover_;  // made at the first call: a GPU may have no memory left
  host::Queue* queue_ = nullptr;
};

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
  identity->id = control::ChildGroupId(parent.identity->id, split, color);
  identity->label = *host::GroupLabel(name, identity->ranks);
  return identity;
}

}  // namespace

MpiGroup::MpiGroup(std::shared_ptr<Endpoint> endpoint, std::shared_ptr<host::RankState> owner, control::Client& control,
                   CommunicationStats& stats)
    : processes::Group(endpoint->name, endpoint->rank, endpoint->identity, std::move(owner), control, stats),
      endpoint_(std::move(endpoint)),
      control_(control),
      staging_(endpoint_->staging) {
  const auto worker = std::make_shared<Worker>(endpoint_, owner_);
  queue_ = std::make_unique<host::Queue>(
      owner_, StrCat("communication ", endpoint_->name),
      [worker](const std::shared_ptr<const host::Call>& call, std::span<std::byte>) { return worker->Execute(*call); },
      OnGpu(owner_->device) ? host::Queue::kAlone : host::Queue::kLooks);
  worker->Of(*queue_);
}

MpiGroup::~MpiGroup() {
  if (Close() && !owner_->run.ending()) MPI_Comm_free(&endpoint_->comm);
}

ProcessGroup::Issued MpiGroup::Issue(const Communication& c, CommunicationStats::Entry& entry) {
  const auto call = NewCall<IssuedCall>(c);
  call->at = Operands(c);
  if (OnGpu(device())) call->after = device().compute().Record();
  if (owner_->emulated != nullptr) call->issued = owner_->CatchUp();
  ThrowIfEnding(*call);
  if (c.is_collective()) log_->Add(c);
  Issued issued;
  if (const Tensor t = staging_.For(c, device(), issued.workspace); !t.empty()) {
    call->staging = {static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.bytes().value())};
  }
  issued.state = queue_->Push(call, Tensor(), entry);
  return issued;
}

// Queued like any other call: MPI allows one collective at a time on a communicator.
std::unique_ptr<ProcessGroup> MpiGroup::Split(int color, int key, std::string name) {
  auto call = NewSplit<CommSplitCall>();
  call->color = color;
  call->key = key;
  ThrowIfEnding(*call);
  queue_->Push(call, Tensor(), splitting_)->Wait();
  if (call->made == MPI_COMM_NULL) return nullptr;
  auto endpoint = std::make_shared<Endpoint>(*endpoint_);
  endpoint->comm = call->made;
  endpoint->identity = IdentityOf(call->made, *endpoint_, call->sequence, color, name);
  endpoint->name = std::move(name);
  MPI_Comm_rank(endpoint->comm, &endpoint->rank);
  return std::make_unique<MpiGroup>(std::move(endpoint), owner_, control_, stats());
}

}  // namespace twofold::mpi
