#include "backends/nccl/communicator.h"

#include <chrono>
#include <utility>

#include "core/base/strings.h"

namespace twofold::nccl {

constexpr std::chrono::milliseconds kLookForErrors(100);

// ---- Communicator ----

Communicator::Communicator(ncclComm_t raw, int size, int gpu, std::string label)
    : raw_(raw), gpu_(gpu), label_(std::move(label)) {
  cuda::MakeCurrent(gpu);
  const size_t bytes = sizeof(int32_t) * 2 * (static_cast<size_t>(size) + 1);
  cuda::Check(cudaMalloc(reinterpret_cast<void**>(&scratch_), bytes));
}

Communicator::~Communicator() = default;

void Communicator::Destroy() {
  cuda::MakeCurrent(gpu_);
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
  cudaSetDevice(gpu_);
  Nccl().CommAbort(raw_);  // the run has already failed: an error here need not be reported
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

Communicators::Communicators(host::RunState& run, int rank) : run_(run), rank_(rank), looks_([this] { Look(); }) {}

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
  auto made = std::make_shared<Communicator>(raw, size, gpu, std::move(label));
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
  for (auto c = list.rbegin(); c != list.rend(); ++c) (*c)->Destroy();
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
