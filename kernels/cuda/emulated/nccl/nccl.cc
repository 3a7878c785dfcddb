// NCCL's functions: arguments, groups, and the work that is left to other threads.
#include "kernels/cuda/emulated/nccl/nccl.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/emulated/nccl/arithmetic.h"
#include "kernels/cuda/emulated/nccl/communicator.h"

namespace twofold::emulated {
namespace {

using Comm = std::shared_ptr<ncclComm>;

constexpr auto kALittleLater = std::chrono::milliseconds(1);  // delay of the work of non-blocking communicators

// Work that waits for other ranks. If it fails, `handle`, if any, is set to null again.
struct Job {
  Comm comm;
  bool blocking;
  ncclComm_t* handle = nullptr;
  std::function<Outcome()> run;
};
// The operations of one communicator, in the order of the calls.
struct Operations {
  Comm comm;
  std::vector<Operation> operations;
};
struct Group {
  int depth = 0;
  Outcome failed;  // the first failed call in it
  std::vector<Job> jobs;
  std::vector<Operations> launches;
};

Group& ThisGroup() {
  thread_local Group group;
  return group;
}
std::string& LastError() {
  thread_local std::string text = "no error";
  return text;
}

ncclResult_t Say(const Outcome& outcome) {
  if (!outcome.why.empty()) LastError() = outcome.why;
  return outcome.result;
}

// Counts the calls in progress on a communicator.
class Calling {
 public:
  explicit Calling(Comm comm) : comm_(std::move(comm)) {
    if (comm_->callers.fetch_add(1) > 0) comm_->Report("called by two threads at once");
  }
  ~Calling() {
    if (comm_ != nullptr) comm_->callers.fetch_sub(1);
  }
  Calling(Calling&& other) noexcept : comm_(std::move(other.comm_)) { other.comm_ = nullptr; }
  Calling& operator=(Calling&&) = delete;

 private:
  Comm comm_;
};

// Finds an existing communicator, in any state.
Outcome Find(ncclComm_t handle, const char* call, Comm* comm) {
  if (handle == nullptr) return {ncclInvalidArgument, absl::StrCat(call, ": the communicator is null")};
  *comm = Known(handle);
  if (*comm == nullptr) return {ncclInvalidArgument, absl::StrCat(call, ": this is not a communicator")};
  if (!(*comm)->gone.load()) return {};
  (*comm)->Report(absl::StrCat(call, " after it was destroyed or aborted"));
  return {ncclInvalidArgument, absl::StrCat(call, ": the communicator was destroyed or aborted")};
}
// Finds a communicator that can be used.
Outcome FindReady(ncclComm_t handle, const char* call, Comm* comm) {
  if (Outcome outcome = Find(handle, call, comm); !outcome.ok()) return outcome;
  const ncclResult_t state = (*comm)->state();
  if (state == ncclInProgress)
    return {ncclInvalidArgument,
            absl::StrCat(call, ": Attempt to use communicator before the previous operation returned ncclSuccess")};
  if (state != ncclSuccess) return {state, (*comm)->error()};
  if ((*comm)->finalized.load()) return {ncclInvalidUsage, absl::StrCat(call, ": the communicator was finalized")};
  return {};
}

// ---- Groups ----

// A rank's sends to itself must be paired with receives.
Outcome CheckMessagesToItself(const Operations& of) {
  std::vector<const Operation*> sends, receives;
  for (const Operation& o : of.operations) {
    if (o.IsMessage() && o.root == of.comm->rank) (o.function == Function::kSend ? sends : receives).push_back(&o);
  }
  bool fine = sends.size() == receives.size();
  for (size_t i = 0; fine && i < sends.size(); ++i)
    fine = sends[i]->count == receives[i]->count && sends[i]->type == receives[i]->type;
  if (fine) return {};
  return {ncclInvalidUsage,
          absl::StrCat(of.comm->Describe(),
                       ": a message to itself needs a send and a receive of the same size in one group")};
}

// Runs all waiting jobs in parallel; returns their outcomes in order.
std::vector<Outcome> RunAll(const std::vector<std::function<Outcome()>>& waits) {
  std::vector<Outcome> outcomes(waits.size());
  if (waits.size() == 1) {
    outcomes[0] = waits[0]();
    return outcomes;
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < waits.size(); ++i) threads.emplace_back([&, i] { outcomes[i] = waits[i](); });
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

// Returns the outcome for each communicator, in the order of jobs and launches.
std::vector<std::pair<Comm, Outcome>> Perform(const Group& group) {
  std::vector<std::function<Outcome()>> waits;
  std::vector<std::pair<Comm, Outcome>> outcomes;
  for (const Job& job : group.jobs) {
    waits.push_back(job.run);
    outcomes.emplace_back(job.comm, Outcome{});
  }
  for (const Operations& of : group.launches) {
    waits.push_back([&of] { return of.comm->Connect(of.operations); });
    outcomes.emplace_back(of.comm, Outcome{});
  }
  const std::vector<Outcome> waited = RunAll(waits);
  bool all = true;
  for (size_t i = 0; i < waited.size(); ++i) {
    outcomes[i].second = waited[i];
    all = all && waited[i].ok();
    if (i < group.jobs.size() && !waited[i].ok() && group.jobs[i].handle != nullptr && group.jobs[i].blocking)
      *group.jobs[i].handle = nullptr;
  }
  for (size_t i = 0; all && i < group.launches.size(); ++i) {
    Outcome& outcome = outcomes[group.jobs.size() + i].second;
    outcome = group.launches[i].comm->Enqueue(group.launches[i].operations);
    all = outcome.ok();
  }
  return outcomes;
}

ncclResult_t Start(Group group) {
  std::vector<Calling> calls;
  int blocking = 0;
  for (const Job& job : group.jobs) {
    calls.emplace_back(job.comm);
    blocking += job.blocking;
  }
  for (const Operations& of : group.launches) {
    calls.emplace_back(of.comm);
    blocking += of.comm->blocking;
    if (const Outcome outcome = CheckMessagesToItself(of); !outcome.ok()) return Say(outcome);
  }
  if (calls.empty()) return ncclSuccess;
  if (!group.jobs.empty() && !group.launches.empty())
    return Say({ncclInvalidUsage, "communicators are created or destroyed in a group with operations"});
  if (blocking != 0 && blocking != static_cast<int>(calls.size()))
    return Say({ncclInvalidArgument, "a group holds blocking and non-blocking communicators"});
  if (blocking != 0) {
    for (const auto& [comm, outcome] : Perform(group)) {
      if (!outcome.ok()) return Say(outcome);
    }
    return ncclSuccess;
  }
  for (const Job& job : group.jobs) job.comm->Begin();
  for (const Operations& of : group.launches) of.comm->Begin();
  std::thread([group = std::move(group)] {
    std::this_thread::sleep_for(kALittleLater);
    for (const auto& [comm, outcome] : Perform(group)) comm->End(outcome);
  }).detach();
  return ncclInProgress;
}

// A failed call makes the group that contains it fail.
ncclResult_t Refuse(const Outcome& outcome) {
  Group& group = ThisGroup();
  if (group.depth > 0 && group.failed.ok()) group.failed = outcome;
  return Say(outcome);
}
ncclResult_t Add(Job job) {
  if (ThisGroup().depth > 0) {
    ThisGroup().jobs.push_back(std::move(job));
    return ncclSuccess;
  }
  Group group;
  group.jobs.push_back(std::move(job));
  return Start(std::move(group));
}
ncclResult_t Add(ncclComm_t handle, const char* call, const Operation& operation) {
  Comm comm;
  if (const Outcome outcome = FindReady(handle, call, &comm); !outcome.ok()) return Refuse(outcome);
  if (const Outcome outcome = comm->Check(operation); !outcome.ok()) return Refuse(outcome);
  if (operation.count == 0 && !operation.IsMessage()) return ncclSuccess;
  Group& group = ThisGroup();
  if (group.depth == 0) {
    Group alone;
    alone.launches.push_back({comm, {operation}});
    return Start(std::move(alone));
  }
  for (Operations& of : group.launches) {
    if (of.comm != comm) continue;
    of.operations.push_back(operation);
    return ncclSuccess;
  }
  group.launches.push_back({comm, {operation}});
  return ncclSuccess;
}

// If a blocking communicator could not be made, its handle becomes null, so it is marked as gone.
Outcome Made(const Comm& comm, Outcome outcome) {
  if (comm != nullptr && comm->blocking && !outcome.ok()) {
    comm->gone.store(true);
    comm->Leave();
  }
  return outcome;
}

// ---- Configurations ----

Outcome CheckConfig(const ncclConfig_t* config) {
  if (config == nullptr) return {};
  if (config->size != sizeof(ncclConfig_t) || config->magic != NCCL_CONFIG_MAGIC)
    return {ncclInvalidArgument, "the configuration was not initialized with NCCL_CONFIG_INITIALIZER"};
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1) {
    return {ncclInvalidArgument, absl::StrCat("Invalid config blocking attribute value ", config->blocking)};
  }
  const auto undefined_or_positive = [](int value) { return value == NCCL_CONFIG_UNDEF_INT || value > 0; };
  if (!undefined_or_positive(config->minCTAs) || !undefined_or_positive(config->maxCTAs) ||
      (config->minCTAs > 0 && config->maxCTAs > 0 && config->minCTAs > config->maxCTAs)) {
    return {ncclInvalidArgument,
            absl::StrCat("Invalid config min/max channels attribute value ", config->minCTAs, "/", config->maxCTAs)};
  }
  return {};
}
bool Blocking(const ncclConfig_t* config, bool otherwise) {
  return config != nullptr && config->blocking != NCCL_CONFIG_UNDEF_INT ? config->blocking == 1 : otherwise;
}
std::string Name(const ncclConfig_t* config, const std::string& otherwise) {
  return config != nullptr && config->commName != nullptr ? config->commName : otherwise;
}

constexpr const char* kResults[] = {"no error",
                                    "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                    "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                    "internal error - please report this issue to the NCCL developers",
                                    "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                    "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};

}  // namespace
}  // namespace twofold::emulated

using namespace twofold::emulated;

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  const char* text = std::getenv("TWOFOLD_EMULATED_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t result) {
  return result >= 0 && result < ncclNumResults ? kResults[result] : "unknown result code";
}
const char* ncclGetLastError(ncclComm_t handle) {
  if (const Comm comm = handle != nullptr ? Known(handle) : nullptr) {
    if (const std::string error = comm->error(); !error.empty()) LastError() = error;
  }
  return LastError().c_str();
}

// ---- Communicators ----

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return Say({ncclInvalidArgument, "ncclGetUniqueId: the unique id is null"});
  CliqueName name;
  if (!Clique::Make(&name)) return Say({ncclSystemError, "ncclGetUniqueId: the system has no shared memory"});
  *id = {};
  std::memcpy(id->internal, &name, sizeof(name));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, nranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int nranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (handle == nullptr)
    return Refuse({ncclInvalidArgument, "ncclCommInitRank: the pointer to the communicator is null"});
  *handle = nullptr;
  if (const Outcome outcome = CheckConfig(config); !outcome.ok()) return Refuse(outcome);
  if (nranks < 1 || nranks > kMaxRanks || rank < 0 || rank >= nranks) {
    return Refuse({ncclInvalidArgument, absl::StrCat("Invalid rank requested : ", rank, "/", nranks, " (of at most ",
                                                     kMaxRanks, " in the emulation)")});
  }
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    return Refuse({ncclUnhandledCudaError, absl::StrCat("Cuda failure '", cudaGetErrorString(error), "'")});
  }
  CliqueName name;
  std::memcpy(&name, id.internal, sizeof(name));
  const auto comm = std::make_shared<ncclComm>(rank, nranks, device, Blocking(config, true), Name(config, ""));
  *handle = MakeKnown(comm);
  const auto run = [comm, name] { return Made(comm, comm->Initialize(name)); };
  return Add({.comm = comm, .blocking = comm->blocking, .handle = handle, .run = run});
}
ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* newcomm, ncclConfig_t* config) {
  Comm comm;
  if (const Outcome outcome = FindReady(handle, "ncclCommSplit", &comm); !outcome.ok()) return Refuse(outcome);
  if (newcomm == nullptr)
    return Refuse({ncclInvalidArgument, "ncclCommSplit: the pointer to the communicator is null"});
  *newcomm = nullptr;
  if (const Outcome outcome = CheckConfig(config); !outcome.ok()) return Refuse(outcome);
  if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
    return Refuse({ncclInvalidArgument,
                   absl::StrCat("ncclCommSplit: color must be at least 0 or NCCL_SPLIT_NOCOLOR (got ", color, ")")});
  if (comm->Outstanding()) comm->Report("split with operations outstanding");
  Comm child;
  if (color != NCCL_SPLIT_NOCOLOR) {
    child = std::make_shared<ncclComm>(0, 1, comm->device, Blocking(config, comm->blocking), Name(config, comm->name));
    *newcomm = MakeKnown(child);
  }
  if (child != nullptr && !comm->blocking) child->Begin();
  const auto run = [comm, child, color, key] {
    const Outcome outcome = Made(child, comm->Split(color, key, child.get()));
    if (child != nullptr && !comm->blocking) child->End(outcome);
    return outcome;
  };
  return Add({.comm = comm, .blocking = comm->blocking, .handle = newcomm, .run = run});
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  Comm comm;
  if (const Outcome outcome = FindReady(handle, "ncclCommFinalize", &comm); !outcome.ok()) return Refuse(outcome);
  comm->finalized.store(true);
  return Add({.comm = comm, .blocking = comm->blocking, .run = [comm] { return comm->Finalize(); }});
}
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  Comm comm;
  if (const Outcome outcome = Find(handle, "ncclCommDestroy", &comm); !outcome.ok()) return Refuse(outcome);
  const ncclResult_t state = comm->state();
  if (state == ncclInProgress) {
    comm->Report("destroyed before the previous operation returned ncclSuccess");
    return Refuse({ncclInvalidArgument, "ncclCommDestroy: the previous operation has not returned ncclSuccess"});
  }
  const bool finalize = !comm->finalized.exchange(true) && state == ncclSuccess;
  if (finalize && comm->Outstanding()) comm->Report("destroyed with operations outstanding");
  const auto run = [comm, finalize] {
    Outcome outcome = finalize ? comm->Finalize() : Outcome{};
    comm->gone.store(true);
    comm->Leave();
    return outcome;
  };
  return Add({.comm = comm, .blocking = true, .run = run});
}
ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  Comm comm;
  if (const Outcome outcome = Find(handle, "ncclCommAbort", &comm); !outcome.ok()) return Say(outcome);
  comm->gone.store(true);
  comm->Abort();
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  Comm comm;
  if (const Outcome outcome = Find(handle, "ncclCommGetAsyncError", &comm); !outcome.ok()) return Say(outcome);
  if (error == nullptr) return Say({ncclInvalidArgument, "ncclCommGetAsyncError: the pointer to the error is null"});
  *error = comm->AsyncError();
  return ncclSuccess;
}

namespace {
ncclResult_t Get(ncclComm_t handle, const char* call, const int ncclComm::*what, int* value) {
  Comm comm;
  if (const Outcome outcome = FindReady(handle, call, &comm); !outcome.ok()) return Say(outcome);
  if (value == nullptr) return Say({ncclInvalidArgument, absl::StrCat(call, ": the pointer to the number is null")});
  *value = (*comm).*what;
  return ncclSuccess;
}
}  // namespace
ncclResult_t ncclCommCount(ncclComm_t comm, int* count) { return Get(comm, "ncclCommCount", &ncclComm::size, count); }
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  return Get(comm, "ncclCommUserRank", &ncclComm::rank, rank);
}

// ---- Operations ----

ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, "ncclAllReduce", {Function::kAllReduce, from, to, count, type, op, 0, stream});
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, "ncclReduce", {Function::kReduce, from, to, count, type, op, root, stream});
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, "ncclBroadcast", {Function::kBroadcast, from, to, count, type, ncclSum, root, stream});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t from_count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return Add(comm, "ncclAllGather", {Function::kAllGather, from, to, from_count, type, ncclSum, 0, stream});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t to_count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, "ncclReduceScatter", {Function::kReduceScatter, from, to, to_count, type, op, 0, stream});
}
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count_for_each, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return Add(comm, "ncclAlltoAll", {Function::kAlltoAll, from, to, count_for_each, type, ncclSum, 0, stream});
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return Add(comm, "ncclSend", {Function::kSend, from, nullptr, count, type, ncclSum, peer, stream});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return Add(comm, "ncclRecv", {Function::kRecv, nullptr, to, count, type, ncclSum, peer, stream});
}

// ---- Groups ----

ncclResult_t ncclGroupStart() {
  ++ThisGroup().depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (ThisGroup().depth == 0) return Say({ncclInvalidUsage, "ncclGroupEnd: not in a group call."});
  if (--ThisGroup().depth > 0) return ncclSuccess;
  Group group = std::exchange(ThisGroup(), {});
  return group.failed.ok() ? Start(std::move(group)) : Say(group.failed);
}
