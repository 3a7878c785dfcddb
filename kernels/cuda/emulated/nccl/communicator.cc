#include "kernels/cuda/emulated/nccl/communicator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulated/nccl/arithmetic.h"
#include "kernels/cuda/emulated/stream.h"

namespace twofold::emulated {
namespace {

std::atomic<int> reports{0};
constexpr size_t kLarge = 64 << 10;  // bytes from which on a collective uses another algorithm

bool EnvironmentIs(const char* name, std::string_view value) {
  const char* text = std::getenv(name);
  return text != nullptr && text == value;
}
bool SeveralRanksOnAGpu() {
  int version = 0;
  ncclGetVersion(&version);
  return version >= 23000 && EnvironmentIs("NCCL_MULTI_RANK_GPU_ENABLE", "1");
}

struct Handles {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<ncclComm>> known;
};
Handles& AllHandles() {
  static Handles& handles = *new Handles;
  return handles;
}

}  // namespace

std::shared_ptr<ncclComm> Known(ncclComm_t handle) {
  Handles& handles = AllHandles();
  const std::scoped_lock lock(handles.mutex);
  const auto at = handles.known.find(handle);
  return at != handles.known.end() ? at->second : nullptr;
}
ncclComm_t MakeKnown(std::shared_ptr<ncclComm> comm) {
  Handles& handles = AllHandles();
  const std::scoped_lock lock(handles.mutex);
  const ncclComm_t handle = comm.get();
  handles.known[handle] = std::move(comm);
  return handle;
}

void Report(const std::string& what) {
  std::fprintf(stderr, "emulated NCCL: %s\n", what.c_str());
  reports.fetch_add(1);
}
int NcclReports() { return reports.load(); }

OnDevice::OnDevice(int device) {
  cudaGetDevice(&before_);
  cudaSetDevice(device);
}
OnDevice::~OnDevice() { cudaSetDevice(before_); }

}  // namespace twofold::emulated

using namespace twofold::emulated;

std::string ncclComm::Describe() const {
  return absl::StrCat("rank ", rank, " of ", size, name.empty() ? "" : absl::StrCat(" (", name, ")"));
}
void ncclComm::Report(const std::string& what) const {
  twofold::emulated::Report(absl::StrCat(Describe(), ": ", what));
}

std::shared_ptr<Clique> ncclComm::clique() const {
  const std::scoped_lock lock(mutex_);
  return clique_;
}
std::string ncclComm::error() const {
  const std::scoped_lock lock(mutex_);
  return error_;
}
void ncclComm::End(const Outcome& outcome) {
  {
    const std::scoped_lock lock(mutex_);
    error_ = outcome.why;
  }
  state_.store(outcome.result, std::memory_order_release);
}

// ---- Creation ----

Outcome ncclComm::Initialize(const CliqueName& name) {
  Clique::Refused refused;
  const std::shared_ptr<Clique> clique = Clique::Join(name, rank, size, &refused);
  if (clique == nullptr) return {refused.result, absl::StrCat(Describe(), ": ", refused.why)};
  {
    const std::scoped_lock lock(mutex_);
    clique_ = clique;
  }
  Outcome outcome = MeetAll(*clique);
  if (!outcome.ok()) return outcome;
  if (const char* lazily = std::getenv("NCCL_RUNTIME_CONNECT"); lazily != nullptr && std::string_view(lazily) == "0")
    return ConnectAll(*clique, ~0u);
  return outcome;
}

Outcome ncclComm::MeetAll(Clique& clique) {
  clique.mine().device = device;
  clique.mine().presence.store(Presence::kHere, std::memory_order_release);
  clique.RingAll();
  if (!clique.UntilAll(aborted_,
                       [](Place& p) { return p.presence.load(std::memory_order_acquire) != Presence::kAbsent; }))
    return Aborted();
  clique.AllHaveJoined();
  if (SeveralRanksOnAGpu()) return {};
  for (int r = 0; r < size; ++r) {
    if (r == rank || clique.place(r).device != device) continue;
    return {ncclInvalidUsage,
            absl::StrCat("Duplicate GPU detected : rank ", rank, " and rank ", r, " both on CUDA device ", device)};
  }
  return {};
}

bool ncclComm::StepOfSplit(Clique& clique) {
  const uint32_t step = clique.mine().splits.load(std::memory_order_relaxed) + 1;
  clique.mine().splits.store(step, std::memory_order_release);
  clique.RingAll();
  return clique.UntilAll(aborted_, [&](Place& p) { return p.splits.load(std::memory_order_acquire) >= step; });
}

// ---- Connecting ----

Outcome ncclComm::ConnectAll(Clique& clique, uint32_t kinds) {
  if ((~clique.mine().connected.fetch_or(kinds, std::memory_order_acq_rel) & kinds) != 0) clique.RingAll();
  const bool all =
      clique.UntilAll(aborted_, [&](Place& p) { return (~p.connected.load(std::memory_order_acquire) & kinds) == 0; });
  return all ? Outcome{} : Aborted();
}

Outcome ncclComm::Connect(const std::vector<Operation>& operations) {
  const std::shared_ptr<Clique> clique = this->clique();
  if (clique == nullptr) return Aborted();  // aborted after the call found it
  uint32_t kinds = 0;
  for (const Operation& o : operations) {
    if (!o.IsMessage()) kinds |= 1u << (static_cast<uint32_t>(o.function) * 2 + (o.count * SizeOf(o.type) >= kLarge));
  }
  if (kinds != 0) {
    if (Outcome outcome = ConnectAll(*clique, kinds); !outcome.ok()) return outcome;
  }
  std::set<Channel*> channels;
  for (const Operation& o : operations) {
    if (!o.IsMessage() || o.root == rank) continue;
    const bool sends = o.function == Function::kSend;
    Channel& channel = sends ? clique->channel(rank, o.root) : clique->channel(o.root, rank);
    if ((sends ? channel.sender : channel.receiver).exchange(1, std::memory_order_acq_rel) == 0) clique->Ring(o.root);
    channels.insert(&channel);
  }
  const bool all = clique->Until(aborted_, [&] {
    return std::ranges::all_of(channels, [](Channel* c) {
      return c->sender.load(std::memory_order_acquire) != 0 && c->receiver.load(std::memory_order_acquire) != 0;
    });
  });
  return all ? Outcome{} : Aborted();
}

// ---- Operations ----

Outcome ncclComm::Check(const Operation& o) const {
  const auto refuse = [&](ncclResult_t result, auto... why) {
    return Outcome{result, absl::StrCat(Describe(), ": ", o.Describe(), ": ", why...)};
  };
  if (SizeOf(o.type) == 0)
    return refuse(ncclInvalidArgument, "the emulation does not support type ", static_cast<int>(o.type));
  if (o.op < 0 || o.op >= ncclNumOps)
    return refuse(ncclInvalidArgument, "the emulation does not support reduction ", static_cast<int>(o.op));
  if (o.root < 0 || o.root >= size)
    return refuse(ncclInvalidArgument, o.IsMessage() ? "the peer" : "the root", " is not a rank");
  const size_t from = o.FromBytes(rank, size), to = o.ToBytes(rank, size);
  if (!OnGpu(device, o.from, from))
    return refuse(ncclInvalidArgument, "its input is not ", from, " bytes in the memory of GPU ", device);
  if (!OnGpu(device, o.to, to))
    return refuse(ncclInvalidArgument, "its output is not ", to, " bytes in the memory of GPU ", device);
  if (from == 0 || to == 0) return {};
  // Buffers are either in place as the operation's declaration defines it, or disjoint.
  const auto from_at = reinterpret_cast<uintptr_t>(o.from), to_at = reinterpret_cast<uintptr_t>(o.to);
  const size_t one = o.count * SizeOf(o.type);
  size_t from_offset = 0, to_offset = 0;
  if (o.function == Function::kReduceScatter) from_offset = static_cast<size_t>(rank) * one;
  if (o.function == Function::kAllGather) to_offset = static_cast<size_t>(rank) * one;
  const bool in_place = o.function != Function::kAlltoAll && from_at + from_offset == to_at + to_offset;
  const bool apart = from_at + from <= to_at || to_at + to <= from_at;
  return in_place || apart
             ? Outcome{}
             : refuse(ncclInvalidArgument, "its input and output overlap, but not as an in-place operation allows");
}

Outcome ncclComm::Enqueue(std::vector<Operation> operations) {
  const std::shared_ptr<Clique> clique = this->clique();
  if (clique == nullptr) return Aborted();
  const OnDevice on_device(device);
  const cudaStream_t stream = operations.front().stream;
  std::set<cudaStream_t> others;
  for (const Operation& o : operations) {
    if (o.stream != stream) others.insert(o.stream);
  }
  const auto wait_for = [](cudaStream_t waits, cudaStream_t other) {
    cudaEvent_t event;
    cudaError_t error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventRecord(event, other);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(waits, event);
    return error == cudaSuccess ? cudaEventDestroy(event) : error;
  };
  cudaError_t error = cudaSuccess;
  for (cudaStream_t other : others) {
    if (error == cudaSuccess) error = wait_for(stream, other);
  }
  if (error == cudaSuccess) {
    const std::scoped_lock lock(enqueuing_);
    const uint64_t number = launched_.load(std::memory_order_relaxed);
    error = EnqueueOnHost(stream, [self = shared_from_this(), clique, operations = std::move(operations), number] {
      self->running_.fetch_add(1);
      if (!self->aborted_.load()) self->Run(*clique, operations, number);
      self->running_.fetch_sub(1);
      clique->Ring(self->rank);
    });
    if (error == cudaSuccess) launched_.store(number + 1, std::memory_order_relaxed);
  }
  for (cudaStream_t other : others) {
    if (error == cudaSuccess) error = wait_for(other, stream);
  }
  if (error != cudaSuccess)
    return {ncclUnhandledCudaError, absl::StrCat(Describe(), ": Cuda failure '", cudaGetErrorString(error), "'")};
  return {};
}

// Runs on the stream's thread.
void ncclComm::Run(Clique& clique, const std::vector<Operation>& operations, uint64_t number) {
  const auto my_turn = [&] { return finished_.load(std::memory_order_acquire) == number; };
  if (!my_turn()) {
    Report(
        absl::StrCat(operations.front().Describe(),
                     " starts while another stream has not finished an earlier operation: nothing orders the streams"));
    if (!clique.Until(aborted_, my_turn)) return;
  }
  for (const Operation& o : operations) {
    if (OnGpu(device, o.from, o.FromBytes(rank, size)) && OnGpu(device, o.to, o.ToBytes(rank, size))) continue;
    Report(absl::StrCat(o.Describe(), ": memory was freed before it was used"));
    SetFailed(cudaErrorIllegalAddress);
    return;
  }
  Launch launch(&clique, operations);
  if (launch.Run(aborted_, [&](const std::string& what) { Report(what); }))
    finished_.fetch_add(1, std::memory_order_acq_rel);
}

// ---- Splitting ----

Outcome ncclComm::Split(int color, int key, ncclComm* child) {
  const std::shared_ptr<Clique> clique = this->clique();
  if (clique == nullptr) return Aborted();
  Place& mine = clique->mine();
  mine.color = color, mine.key = key;
  if (!StepOfSplit(*clique)) return Aborted();
  std::vector<std::pair<int, int>> members;  // sorted by key, then rank
  for (int r = 0; r < size; ++r) {
    if (clique->place(r).color == color) members.emplace_back(clique->place(r).key, r);
  }
  std::ranges::sort(members);
  const int first = members.front().second;
  if (child != nullptr && first == rank && !Clique::Make(&mine.child)) mine.child = {};
  if (!StepOfSplit(*clique)) return Aborted();
  const CliqueName name = clique->place(first).child;
  if (!StepOfSplit(*clique)) return Aborted();  // all have read it
  if (child == nullptr) return {};
  child->rank = static_cast<int>(std::ranges::find(members, std::pair(key, rank)) - members.begin());
  child->size = static_cast<int>(members.size());
  return child->Initialize(name);
}

// ---- Ending ----

Outcome ncclComm::Finalize() {
  const std::shared_ptr<Clique> clique = this->clique();
  if (clique == nullptr) return {};
  if (!clique->Until(aborted_, [&] { return !Outstanding(); })) return Aborted();
  clique->mine().presence.store(Presence::kFinalized, std::memory_order_release);
  clique->RingAll();
  const bool all = clique->UntilAll(
      aborted_, [](Place& p) { return p.presence.load(std::memory_order_acquire) >= Presence::kFinalized; });
  return all ? Outcome{} : Aborted();
}

void ncclComm::Leave() {
  std::shared_ptr<Clique> clique;
  {
    const std::scoped_lock lock(mutex_);
    clique.swap(clique_);
  }
  if (clique == nullptr) return;
  clique->mine().presence.store(Presence::kGone, std::memory_order_release);
  clique->RingAll();
}

void ncclComm::Abort() {
  aborted_.store(true);
  if (const std::shared_ptr<Clique> clique = this->clique()) {
    clique->Ring(rank);
    const std::atomic<bool> never{false};
    clique->Until(never, [&] { return running_.load() == 0; });
  }
  Leave();
}

ncclResult_t ncclComm::AsyncError() {
  const ncclResult_t now = state();
  if (now != ncclSuccess && now != ncclInProgress) return now;
  if (!EnvironmentIs("TWOFOLD_EMULATED_NCCL_LOST_PEERS", "ERROR")) return now;
  const std::shared_ptr<Clique> clique = this->clique();
  const int lost = clique != nullptr ? clique->Lost() : -1;
  if (lost < 0) return now;
  const std::scoped_lock lock(mutex_);
  error_ = absl::StrCat(Describe(), ": the process of rank ", lost, " is gone");
  return ncclRemoteError;
}
