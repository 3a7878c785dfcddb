#include "backends/nccl/communicator.h"

#include <chrono>
#include <utility>

#include "core/base/strings.h"

namespace twofold::nccl {

constexpr std::chrono::milliseconds kLookForErrors(100);
constexpr std::chrono::microseconds kLookForTheEnd(20);  // of a call

// ---- Communicator ----

Communicator::Communicator(ncclComm_t raw, bool blocking, int size, int gpu, std::string label)
    : raw_(raw), blocking_(blocking), gpu_(gpu), label_(std::move(label)) {
  cuda::MakeCurrent(gpu);
  const size_t bytes = sizeof(int32_t) * 2 * (static_cast<size_t>(size) + 1);
  cuda::Check(cudaMalloc(reinterpret_cast<void**>(&scratch_), bytes));
}

Communicator::~Communicator() = default;

std::optional<ncclResult_t> Communicator::State() {
  std::lock_guard lock(mutex_);
  if (ended_) return std::nullopt;
  ncclResult_t state = ncclSuccess;
  Nccl().Check(Nccl().CommGetAsyncError(raw_, &state), "ncclCommGetAsyncError", raw_);
  return state;
}

void Communicator::Settle(const host::RunState& run, int rank, const std::string& doing) {
  if (blocking_) return;
  std::optional<ncclResult_t> state = State();
  for (; state == ncclInProgress; state = State()) {
    if (run.ending()) {
      Abort();
      run.ThrowIfEnding(rank, doing);
    }
    std::this_thread::sleep_for(kLookForTheEnd);
  }
  if (!state) throw NcclError(StrCat("the communicator of group ", label_, " was aborted"));
  Nccl().Check(*state, "a call of NCCL", raw_);
}

// A non-blocking communicator may be destroyed only when it has finished what it was asked for.
void Communicator::AwaitFinalized(const host::RunState& run) {
  Nccl().Check(Nccl().CommFinalize(raw_), "ncclCommFinalize", raw_);
  for (std::optional<ncclResult_t> state = State(); state == ncclInProgress && !run.ending(); state = State())
    std::this_thread::sleep_for(kLookForTheEnd);
  if (run.ending()) Abort();
}

void Communicator::Destroy(const host::RunState& run) {
  cuda::MakeCurrent(gpu_);
  if (!blocking_ && State()) AwaitFinalized(run);
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
  }
  Nccl().Check(Nccl().CommDestroy(raw_), "ncclCommDestroy");
  cuda::Check(cudaFree(scratch_));
}

void Communicator::Abort() {
  {
    std::lock_guard lock(mutex_);
    if (aborted_.exchange(true, std::memory_order_acq_rel) || std::exchange(ended_, true) || in_call_) return;
  }
  EndAborted();
}

void Communicator::EndAborted() {
  cuda::MakeCurrentIfPossible(gpu_);
  Nccl().CommAbort(raw_);  // the run or the generation has failed already: an error here need not be reported
}

Communicator::InCall::InCall(Communicator& communicator) : communicator_(communicator) {
  std::lock_guard lock(communicator_.mutex_);
  if (communicator_.ended_) throw NcclError(StrCat("the communicator of group ", communicator_.label_, " was aborted"));
  communicator_.in_call_ = true;
}

Communicator::InCall::~InCall() {
  {
    std::lock_guard lock(communicator_.mutex_);
    communicator_.in_call_ = false;
    if (!communicator_.ended_) return;
  }
  communicator_.EndAborted();
}

std::string Communicator::AsyncError() {
  std::lock_guard lock(mutex_);
  if (ended_) return "";
  ncclResult_t found = ncclSuccess;
  if (Nccl().CommGetAsyncError(raw_, &found) != ncclSuccess || found == ncclSuccess || found == ncclInProgress)
    return "";
  const char* const last = Nccl().GetLastError(raw_);
  const std::string words = last == nullptr || *last == '\0' ? "" : StrCat(" (last error: ", std::string(last), ")");
  return StrCat("NCCL reported an error in group ", label_, ": ", std::string(Nccl().GetErrorString(found)), words);
}

// ---- Communicators ----

Communicators::Communicators(host::RunState& run, int rank, bool blocking)
    : run_(run), rank_(rank), blocking_(blocking), looks_([this] { Look(); }) {}

Communicators::~Communicators() { StopLooking(); }

void Communicators::StopLooking() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (looks_.joinable()) looks_.join();
}

std::shared_ptr<Communicator> Communicators::Add(ncclComm_t raw, int size, int gpu, std::string label) {
  auto made = std::make_shared<Communicator>(raw, blocking_, size, gpu, std::move(label));
  bool late = false;
  {
    std::lock_guard lock(mutex_);
    all_.push_back(made);
    late = aborted_;
  }
  if (late) made->Abort();
  return made;
}

std::vector<std::shared_ptr<Communicator>> Communicators::all() const {
  std::lock_guard lock(mutex_);
  return all_;
}

void Communicators::DestroyAll() {
  const auto list = all();
  for (auto c = list.rbegin(); c != list.rend(); ++c) (*c)->Destroy(run_);
}

void Communicators::AbortAll() {
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true)) return;
  }
  std::thread([list = all()] {
    for (const auto& c : list) c->Abort();
  }).detach();
}

void Communicators::Look() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLookForErrors, [this] { return ending_; })) {
    const std::vector<std::shared_ptr<Communicator>> list = all_;
    lock.unlock();
    for (const auto& c : list) {
      const std::string error = run_.ending() ? "" : c->AsyncError();
      if (!error.empty())
        run_.Fail(rank_, RankFailure::Kind::kOther, StrCat("rank ", rank_, ": ", error, "; ", run_.Doing(rank_)));
    }
    lock.lock();
  }
}

}  // namespace twofold::nccl
